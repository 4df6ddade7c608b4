"""Documents of ids and columns become a new dataset: `{"ids": [...], "loss": [...]}` each.

Streamed into a folder next to `out_dir`, which gets its name when it is whole. The first document
says which columns there are: `loss` has 1 bit, `weights` have 16, and others what their NumPy type
says: bool, uint8, uint16, or (tokens, k) of uint16.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.atomic import sync_folder
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.conversion.convert import new_folder
from tokenmill.errors import FormatError
from tokenmill.formats.ours_writer import OursWriter
from tokenmill.reading.columns import Column
from tokenmill.shards.manifest import checked_compression, dtype_for

IDS = "ids"
TOKENS_AT_ONCE = 1 << 20

Document = dict[str, np.ndarray]
"""The ids and the values of each column, by name; all of one length."""


def write_documents(
    documents: Iterable[Mapping[str, Any]],
    out_dir: str | os.PathLike[str],
    *,
    tokenizer: Any,
    tokens_per_shard: int = 10_000_000,
    compress: str | None = None,
) -> None:
    """Write documents as the split `train` of a new dataset.

    One that does not end with the end-of-text id gets it, with the values of its last token.
    """
    target = Path(out_dir)
    if target.exists():
        raise FormatError(f"{target} exists already", hint="name a new folder")
    chunks = _chunks(_Checked(documents, tokenizer))
    dtype = np.dtype(dtype_for(tokenizer.vocab_size)).newbyteorder("<")
    compress = checked_compression(compress)
    with interrupt_on_signals(), new_folder(target) as folder:
        writer = OursWriter(folder, "train", dtype, tokens_per_shard, compress=compress)
        try:
            for ids, ends, columns in chunks:
                writer.columns = {k: Column.of(k, values).bits for k, values in columns.items()}
                writer.add(ids, ends, columns)
            writer.close()
        except BaseException:
            writer.discard()
            raise
        if not writer.shards:
            raise FormatError("there are no documents to write", hint="give at least one")
        OursWriter.complete(folder, {"train": writer}, tokenizer)
        for path in (folder, folder / "train"):
            sync_folder(path)


class _Checked:
    """Documents with the end-of-text id; what cannot be written is refused by its number."""

    def __init__(self, documents: Iterable[Mapping[str, Any]], tokenizer: Any) -> None:
        self._documents = documents
        self._tokenizer = tokenizer

    def __iter__(self) -> Iterator[Document]:
        columns: list[Column] | None = None
        for number, given in enumerate(self._documents):
            where = f"document {number:,}"
            document = {name: np.asarray(values) for name, values in given.items()}
            ids = self._ids(document.pop(IDS, np.empty(0)), where)
            here = [Column.of(name, document[name]) for name in sorted(document)]
            columns = columns or here
            if here != columns:
                raise FormatError(
                    f"{where} has the columns {here!r:.80}, others have {columns!r:.80}",
                    hint="every document has a value of each column for each of its tokens",
                )
            for column in columns:
                column.checked(document[column.name], len(ids), where)
            yield self._ended({IDS: ids, **document})

    def _ids(self, ids: np.ndarray, where: str) -> np.ndarray:
        size = self._tokenizer.vocab_size
        if ids.ndim != 1 or ids.dtype.kind not in "iu":
            raise FormatError(
                f"{where} has {ids.ndim}-D {ids.dtype} ids", hint="give {'ids': whole numbers}"
            )
        wrong = ids[(ids < 0) | (ids >= size)]
        if len(wrong):
            raise FormatError(
                f"{where} has the id {int(wrong[0]):,}", hint=f"ids are 0 to {size - 1:,}"
            )
        if (ids[:-1] == self._tokenizer.end_of_text_id).any():
            raise FormatError(
                f"{where} has the end-of-text id before its end", hint="give it as two documents"
            )
        return ids.astype(np.uint32)

    def _ended(self, document: Document) -> Document:
        end = self._tokenizer.end_of_text_id
        ids = document[IDS]
        if len(ids) and ids[-1] == end:
            return document
        last = {name: _last(values) for name, values in document.items()} | {IDS: [end]}
        return {name: np.concatenate([document[name], last[name]]) for name in document}


def _last(values: np.ndarray) -> np.ndarray:
    return values[-1:] if len(values) else np.zeros((1, *values.shape[1:]), values.dtype)


def _chunks(documents: Iterable[Document]) -> Iterator[tuple[np.ndarray, np.ndarray, Document]]:
    """Yield ids, ends and columns of many documents together."""
    waiting: list[Document] = []
    count = 0
    for document in documents:
        waiting.append(document)
        count += len(document[IDS])
        if count >= TOKENS_AT_ONCE:
            yield _joined(waiting)
            waiting = []
            count = 0
    if waiting:
        yield _joined(waiting)


def _joined(documents: list[Document]) -> tuple[np.ndarray, np.ndarray, Document]:
    ends = np.cumsum([len(document[IDS]) for document in documents])
    joined = {name: np.concatenate([d[name] for d in documents]) for name in documents[0]}
    return joined.pop(IDS), ends, joined
