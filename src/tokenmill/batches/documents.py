"""Where documents lie in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question, asked for each of the T inputs of a row: is the token after it
(its target) the first token of another document? `first_of_document` answers it by looking for the
end-of-text id in the batch, whichever side of the document it stands on, or from the index of the
dataset; `mark_documents` does the rest for the whole batch at once.

A row begins in the middle of a document more often than not; that piece is document 0 of the row
and its positions start at 0 like those of the others.
"""

import functools
from typing import NamedTuple

import numpy as np

from tokenmill.dataset import TokenDataset


class Marks(NamedTuple):
    """The fields that a Batch gets with `documents=True`; see batch.py."""

    document_ids: np.ndarray
    positions: np.ndarray
    loss_mask: np.ndarray
    cu_seqlens: np.ndarray
    max_seqlen: int


def first_of_document(data: TokenDataset, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """For each input of (n, T + 1) rows, whether the next token begins another document.

    The end-of-text id is looked for if it is known; it takes one comparison. Otherwise the index is
    asked row by row.
    """
    if data.end_of_text_id is not None:
        before = data.end_of_text_comes == "before"
        looked_at = rows[:, 1:] if before else rows[:, :-1]
        found: np.ndarray = looked_at == data.end_of_text_id
        return found
    found = np.zeros((len(rows), rows.shape[1] - 1), bool)
    for row, start in zip(found, starts.tolist(), strict=True):
        row[data.document_ends(start, start + len(row)) - (start + 1)] = True
    return found


def mark_documents(first: np.ndarray, max_documents: int) -> Marks:
    """The fields of a batch, from `first_of_document` of its (n, T) inputs.

    `cu_seqlens` has n * max_documents + 1 entries in every batch, so that compiled code sees one
    shape; the ones not needed repeat the last.
    """
    num_rows, block_size = first.shape
    total = first.size
    row_starts, places = _constants(num_rows, block_size)
    inner = np.flatnonzero(first)
    inner += 1
    # A document that begins with the last target begins outside of the inputs.
    inner = inner[inner % block_size != 0]
    # Where documents begin in the flattened inputs, ascending, and the end.
    edges = np.concatenate((row_starts, inner, (total,)))
    edges.sort()
    begins, lengths = edges[:-1], edges[1:] - edges[:-1]

    if len(begins) > num_rows * max_documents:
        raise ValueError(
            f"a batch of {num_rows} rows holds {len(begins)} documents; cu_seqlens has room for "
            f"{num_rows * max_documents} with max_documents={max_documents}; pass a larger one"
        )
    cu_seqlens = np.full(num_rows * max_documents + 1, total, np.int32)
    cu_seqlens[: len(begins)] = begins

    first_in_row = begins.searchsorted(row_starts)
    numbers = np.arange(len(begins)) - first_in_row[begins // block_size]
    # Filled run by run: the cumulative sums one would think of take ten times as long.
    positions = begins.astype(np.int32).repeat(lengths)
    np.subtract(places, positions, out=positions)
    return Marks(
        document_ids=numbers.astype(np.int32).repeat(lengths).reshape(first.shape),
        positions=positions.reshape(first.shape),
        loss_mask=~first,
        cu_seqlens=cu_seqlens,
        max_seqlen=int(lengths.max()),
    )


@functools.lru_cache(maxsize=4)
def _constants(num_rows: int, block_size: int) -> tuple[np.ndarray, np.ndarray]:
    total = num_rows * block_size
    return np.arange(0, total, block_size), np.arange(total, dtype=np.int32)
