"""Where documents lie in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question, asked of the T inputs of each row: is the token after it (its
target) the first token of another document? `cuts_of` finds the inputs for which it is, by looking
for the end-of-text id in the rows, whichever side of a document it stands on, or from the index of
the dataset; `mark_documents` does the rest for the whole batch at once.

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


def cuts_of(data: TokenDataset, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The inputs of (n, T + 1) rows whose next token begins another document.

    As places in the flattened (n, T) inputs, ascending. The end-of-text id is looked for if it is
    known; it takes one comparison. Otherwise the index is asked row by row.
    """
    length = rows.shape[1]
    block_size = length - 1
    if data.end_of_text_id is None:
        ends = [data.document_ends(s, s + block_size) - (s + 1) for s in starts.tolist()]
        return np.concatenate([row * block_size + end for row, end in enumerate(ends)])
    found = np.flatnonzero(rows == data.end_of_text_id)
    row, column = np.divmod(found, length)
    if data.end_of_text_comes == "before":
        column -= 1  # the id itself begins a document
    inputs = (column >= 0) & (column < block_size)
    cuts: np.ndarray = (row * block_size + column)[inputs]
    return cuts


def mark_documents(cuts: np.ndarray, num_rows: int, block_size: int, max_documents: int) -> Marks:
    """The fields of a batch of (num_rows, block_size) inputs, from `cuts_of` its rows.

    `cu_seqlens` has num_rows * max_documents + 1 entries in every batch, so that compiled code sees
    one shape; the ones not needed repeat the last.
    """
    shape, total = (num_rows, block_size), num_rows * block_size
    row_edges, places = _constants(num_rows, block_size)
    loss_mask = np.ones(total, bool)
    loss_mask[cuts] = False
    begins = cuts + 1
    # Where documents begin in the flattened inputs, ascending, and the end. A document that begins
    # with the last target of a row begins outside of the inputs.
    edges = np.concatenate((row_edges, begins[begins % block_size != 0]))
    edges.sort()
    begins, lengths = edges[:-1], edges[1:] - edges[:-1]

    if len(begins) > num_rows * max_documents:
        raise ValueError(
            f"a batch of {num_rows} rows holds {len(begins)} documents; cu_seqlens has room for "
            f"{num_rows * max_documents} with max_documents={max_documents}; pass a larger one"
        )
    cu_seqlens = np.full(num_rows * max_documents + 1, total, np.int32)
    cu_seqlens[: len(edges)] = edges

    # Filled run by run: the cumulative sums one would think of take ten times as long.
    first_in_row = edges.searchsorted(row_edges)
    numbers = np.arange(len(begins)) - first_in_row[begins // block_size]
    positions = begins.astype(np.int32).repeat(lengths)
    np.subtract(places, positions, out=positions)
    return Marks(
        document_ids=numbers.astype(np.int32).repeat(lengths).reshape(shape),
        positions=positions.reshape(shape),
        loss_mask=loss_mask.reshape(shape),
        cu_seqlens=cu_seqlens,
        max_seqlen=int(lengths.max()),
    )


@functools.lru_cache(maxsize=4)
def _constants(num_rows: int, block_size: int) -> tuple[np.ndarray, np.ndarray]:
    total = num_rows * block_size
    return np.arange(0, total + 1, block_size), np.arange(total, dtype=np.int32)
