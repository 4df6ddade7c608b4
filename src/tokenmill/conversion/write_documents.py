"""Documents of ids and columns become a new dataset: `{"ids": [...], "loss": [...]}` each.

The first document says which columns there are: `loss` has 1 bit, `weights` have 16, and others
what their NumPy type says: bool, uint8, uint16, or (tokens, k) of uint16.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.atomic import sync_folder
from tokenmill.base.signals import interrupt_on_signals
from tokenmill.conversion.convert import new_folder
from tokenmill.errors import FormatError
from tokenmill.formats.ours_writer import OursWriter
from tokenmill.reading.columns import Column
from tokenmill.shards.manifest import dtype_for


def write_documents(
    documents: Iterable[Mapping[str, Any]],
    out_dir: str | os.PathLike[str],
    *,
    tokenizer: Any,
    tokens_per_shard: int = 10_000_000,
    compress: str | None = None,
) -> None:
    """Write documents, streamed, as the split `train` of a dataset that is whole or not there.

    One that does not end with the end-of-text id gets it, with the values of its last token.
    """
    target = Path(out_dir)
    dtype = np.dtype(dtype_for(tokenizer.vocab_size)).newbyteorder("<")
    with interrupt_on_signals(), new_folder(target) as folder:
        if target.exists():
            raise FormatError(f"{target} exists already", hint="name a new folder")
        writer = OursWriter(folder, "train", dtype, tokens_per_shard, compress=compress)
        try:
            for number, document in enumerate(documents):
                ids, columns = _checked(document, tokenizer, f"document {number:,}")
                bits = {name: Column.of(name, values).bits for name, values in columns.items()}
                writer.columns = writer.columns if number else bits
                if bits != writer.columns:
                    raise FormatError(
                        f"document {number:,} has the columns {list(bits)}, and the ones before it "
                        f"{list(writer.columns)}",
                        hint="every document has a value of each column for each of its tokens",
                    )
                writer.add(ids, np.array([len(ids)]), columns)
            writer.close()
        except BaseException:
            writer.discard()
            raise
        if not writer.shards:
            raise FormatError("there are no documents to write", hint="give at least one")
        OursWriter.complete(folder, {"train": writer}, tokenizer)
        for path in (folder, folder / "train"):
            sync_folder(path)


def _checked(
    document: Mapping[str, Any], tokenizer: Any, where: str
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return ids with the end-of-text id after them, and columns; what is wrong is refused."""
    columns = {name: np.asarray(values) for name, values in document.items()}
    ids = columns.pop("ids", np.empty(0))
    end = tokenizer.end_of_text_id
    if ids.ndim != 1 or not len(ids) or ids.dtype.kind not in "iu":
        raise FormatError(f"{where} has {ids!r:.80} as ids", hint="give a list of whole numbers")
    wrong = np.flatnonzero((ids < 0) | (ids >= tokenizer.vocab_size) | (ids == end))
    if len(wrong) and not (wrong[0] == len(ids) - 1 and ids[-1] == end):
        raise FormatError(
            f"{where} has the id {ids[wrong[0]]} at its token {wrong[0]:,}",
            hint=f"ids are 0 to {tokenizer.vocab_size - 1:,}, and {end} only ends a document",
        )
    for name, values in columns.items():
        Column.of(name, values).stored(values, len(ids), where)
    if ids[-1] != end:
        ids = np.append(ids, end)
        columns = {k: np.concatenate([values, values[-1:]]) for k, values in columns.items()}
    return ids, columns
