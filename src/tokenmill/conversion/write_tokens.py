"""write_tokens(documents, out_dir): ids that were made elsewhere become a tokenmill dataset.

It is written as `convert` writes one: streamed, and whole and verified, or not there.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.signals import interrupt_on_signals
from tokenmill.base.signatures import checks_arguments
from tokenmill.conversion.convert import Converted, new_folder, refuse_to_replace
from tokenmill.conversion.given_facts import IDS, GivenFacts
from tokenmill.errors import BadInputError
from tokenmill.formats.ours import Tokenmill
from tokenmill.formats.ours_writer import OursWriter
from tokenmill.reading.columns import Column
from tokenmill.shards.manifest import dtype_for
from tokenmill.tokens.load_tokenizer import load

CHUNK = 1 << 20  # tokens
Document = dict[str, np.ndarray]  # its ids, and the values of its columns, by name


@checks_arguments
def write_tokens(
    documents: Iterable[Any],
    out_dir: str | os.PathLike[str],
    *,
    tokenizer: Any = None,
    end_of_text_id: int | None = None,
    overwrite: bool = False,
) -> Converted:
    """Write documents, each a list or a 1-D array of ids, as the split `train` of a new dataset.

    Every document ends with the end-of-text id: it is written after those that end otherwise. A
    document with columns is `{"ids": [...], "loss": [...]}`, with a value for each id; an
    end-of-text id that is added has the values of the id before it. See docs/guides/columns.md.
    A document with facts has `"facts": {"url": "...", "score": 0.5}` (docs/guides/facts.md).
    `tokenizer` is stored with the ids, and is what `tokenmill.prepare` takes; without one,
    `end_of_text_id` is needed, and ids have 4 bytes. `overwrite` replaces a folder of token files
    once the new one is whole. `tokenmill.convert` gives it another width or size of shards.
    """
    known = None if tokenizer is None else load(tokenizer)
    end = known.end_of_text_id if known and end_of_text_id is None else end_of_text_id
    limit = known.vocab_size if known else 1 << 32
    if end is None or not 0 <= end < limit or (known and end != known.end_of_text_id):
        expected = known.end_of_text_id if known else f"0 to {limit - 1:,}, or a tokenizer"
        raise ValueError(f"end_of_text_id is {end}; expected {expected}")
    target = Path(out_dir)
    with interrupt_on_signals(), new_folder(target) as folder, ExitStack() as undo:
        refuse_to_replace(target, [], overwrite)
        dtype = np.dtype(dtype_for(limit))
        writer = OursWriter(folder, None, dtype, Tokenmill.tokens_per_shard, end, end + 1)
        undo.callback(writer.discard)
        writer.command = "python: tokenmill.write_tokens(documents, DATASET)"
        facts = GivenFacts(undo, end)
        num_tokens = _write_all(writer, facts.taken_from(documents), limit)
        facts.write(writer)
        writer.complete(folder, {"train": writer}, known)
    return Converted(str(target), "tokenmill", dtype.name, {"train": (num_tokens, writer.number)})


def _write_all(writer: OursWriter, documents: Iterable[Any], limit: int) -> int:
    """Write some documents at a time; return the number of tokens."""
    num_tokens = 0
    end = writer.end_of_text_id or 0
    closed = (_with_columns(d, n, end, limit, writer) for n, d in enumerate(documents))
    while group := list(_first_tokens(closed)):
        columns = {name: np.concatenate([d[name] for d in group]) for name in group[0]}
        ids = columns.pop(IDS)
        writer.add(ids, np.cumsum([len(document[IDS]) for document in group]), columns)
        writer.vocab_size = max(writer.vocab_size or 0, int(ids.max()) + 1)
        num_tokens += len(ids)
    writer.close()
    if not num_tokens:
        raise BadInputError("there are no documents: nothing was written")
    return num_tokens


def _first_tokens(documents: Iterator[Document]) -> Iterator[Document]:
    """Yield the next documents, of `CHUNK` tokens or a little more."""
    num_tokens = 0
    while num_tokens < CHUNK and (document := next(documents, None)) is not None:
        num_tokens += len(document[IDS])
        yield document


def _with_columns(given: Any, number: int, end: int, limit: int, writer: OursWriter) -> Document:
    """Return the closed ids and the columns of a document; the first one says what these are."""
    if not isinstance(given, Mapping) and not writer.columns:
        return {IDS: _closed(given, number, end, limit)}
    columns = {k: np.array(v) for k, v in given.items()} if isinstance(given, Mapping) else {}
    ids = columns.pop(IDS, np.empty(0))
    closed = _closed(ids, number, end, limit)
    where = f"document {number:,}"
    found = {name: Column.of(name, values, where) for name, values in columns.items()}
    bits = {name: column.bits for name, column in found.items()}
    writer.columns = writer.columns if number else bits
    if bits != writer.columns:
        raise BadInputError(
            f"{where} has the columns {bits or 'none'!s:.80}, and the ones before it "
            f"{dict(writer.columns) or 'none'!s:.80} (bits per token)",
            hint="every document is a mapping with a value of each column for each of its ids",
        )
    for name, column in found.items():
        column.stored(columns[name], len(ids), where)
        if len(closed) > len(ids):
            last = columns[name][-1:] if len(ids) else np.zeros((1, *column.shape), column.dtype)
            columns[name] = np.concatenate([columns[name], last])
    return {IDS: closed, **columns}


def _closed(given: Any, number: int, end: int, limit: int) -> np.ndarray:
    """Return a document that ends with the end-of-text id; refuse what is not ids below `limit`."""
    try:
        ids = np.array(given)  # a copy: the caller may fill its array again
    except (TypeError, ValueError, OverflowError):  # lists of several lengths, a tensor of a GPU
        ids = np.array(None)
    if ids.ndim != 1 or (ids.dtype.kind not in "iu" and ids.size):
        raise BadInputError(
            f"document {number:,} is {given!r:.80} ({type(given).__name__}, {ids.ndim}-D "
            f"{ids.dtype}); expected a list or a 1-D array of ids, which are whole numbers",
            hint="texts are for tokenmill.prepare; a single one is documents=[ids]",
        )
    closed = ids.astype(np.int64)  # from 2^63 on they are negative
    if not ids.size or ids[-1] != end:
        closed = np.append(closed, end)
    wrong = (closed < 0) | (closed >= limit) | (closed == end)
    wrong[-1] = False
    if wrong.any():
        at = int(wrong.argmax())
        raise BadInputError(
            f"document {number:,} has the id {ids[at]} at position {at:,}; expected 0 to "
            f"{limit - 1:,}, and {end} at its end only",
            hint="cut it after the end-of-text id, or name the tokenizer that made these ids",
        )
    return closed
