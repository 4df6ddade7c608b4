"""Where documents lie in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question, asked of the tokens of each row: is it the first one of a
document? `find_firsts` answers it by looking for the end-of-text id, whichever side of a document
it stands on, or from the index of the dataset; `mark_documents` does the rest for the whole batch
at once.

A row begins in the middle of a document more often than not; that piece is document 0 of the row
and its positions start at 0 like those of the others.
"""

import functools

import numpy as np

from tokenmill.batches.spare import Spares
from tokenmill.dataset import TokenDataset


class Marks:
    """The fields that a Batch gets with `documents=True`; see batch.py.

    `document_ids` and `positions`, as large as the batch itself, are made when first read: who
    attends by `cu_seqlens` never pays for them.
    """

    __slots__ = (
        "_edges",
        "_ids",
        "_lengths",
        "_positions",
        "_rows",
        "_spares",
        "cu_seqlens",
        "loss_mask",
    )

    def __init__(
        self,
        loss_mask: np.ndarray,
        cu_seqlens: np.ndarray,
        edges: np.ndarray,
        rows: np.ndarray,
        spares: Spares,
    ) -> None:
        """`edges`: where documents begin in the flattened inputs, and the end; `rows`: of each."""
        self.loss_mask = loss_mask
        self.cu_seqlens = cu_seqlens
        self._edges = edges
        self._rows = rows
        self._spares = spares
        self._lengths = edges[1:] - edges[:-1]
        self._ids: np.ndarray | None = None
        self._positions: np.ndarray | None = None

    @property
    def max_seqlen(self) -> int:
        """Length of the longest document."""
        return int(np.maximum.reduce(self._lengths))

    # Filled run by run, in the narrowest type, and then widened: the cumulative sums that one would
    # think of take ten times as long.

    @property
    def document_ids(self) -> np.ndarray:
        """Which document of its row each input belongs to, from 0."""
        if self._ids is None:
            rows = self._rows[:-1]
            numbers = np.arange(len(rows))
            numbers -= rows.searchsorted(rows)  # the first document of the same row
            narrow = np.uint8 if len(rows) - len(self.loss_mask) < 256 else np.int32
            self._ids = self._widened(numbers.astype(narrow).repeat(self._lengths))
        return self._ids

    @property
    def positions(self) -> np.ndarray:
        """The place of each input in its document of the row."""
        if self._positions is None:
            places = _places(*self.loss_mask.shape)
            starts = self._edges[:-1].astype(places.dtype).repeat(self._lengths)
            np.subtract(places, starts, out=starts)
            self._positions = self._widened(starts)
        return self._positions

    def _widened(self, values: np.ndarray) -> np.ndarray:
        wide = self._spares.array(self.loss_mask.shape, np.dtype(np.int32))
        np.copyto(wide.reshape(-1), values)
        return wide


def blank_firsts(num_rows: int, length: int) -> np.ndarray:
    """A flag for every token of the rows, to be filled by `find_firsts`, and one for their end."""
    return np.empty(num_rows * length + 1, bool)


def find_firsts(
    data: TokenDataset, rows: np.ndarray, starts: np.ndarray, firsts: np.ndarray
) -> None:
    """Say of each token of the (n, T + 1) rows whether it begins a document.

    The end-of-text id is looked for if it is known; it takes one comparison. A document may lack it
    that was cut short where a shard ends, so of rows across such an edge the index is asked too;
    without an id it is asked of all. What is said of the first token of a row means nothing.
    """
    length = rows.shape[1]
    if data.end_of_text_id is None:
        firsts[:] = False
        asked = np.arange(len(rows))
    else:
        # An id at the end of a document marks the token after it.
        marked = firsts[:-1] if data.end_of_text_comes == "before" else firsts[1:]
        np.equal(rows.reshape(-1), data.end_of_text_id, out=marked)
        edges = data.shard_starts
        if len(edges) == 2 or not data.has_index:
            return
        asked = np.flatnonzero(edges[edges.searchsorted(starts, side="right")] < starts + length)
    of_rows = firsts[:-1].reshape(-1, length)
    for row in asked.tolist():
        start = int(starts[row])
        of_rows[row, data.document_ends(start, start + length - 1) - start] = True


def mark_documents(
    firsts: np.ndarray, num_rows: int, max_documents: int | None, spares: Spares
) -> Marks:
    """The fields of a batch, from the flags of its tokens, which this uses up.

    `cu_seqlens` has n * max_documents + 1 entries, so that compiled code sees one shape; those not
    needed repeat the last. A batch with more documents is an error. If no number is given there is
    room for one document in 8 inputs, and the rare batch of crumbs gets room for any number.
    """
    length = (len(firsts) - 1) // num_rows
    block_size = length - 1
    # No loss where the target begins another document: nothing before tells of it.
    loss_mask = (~firsts)[:-1].reshape(num_rows, length)[:, 1:]

    firsts[block_size::length] = False  # the last target of a row is no input
    firsts[::length] = True
    (edges,) = firsts.nonzero()
    rows = edges // length
    edges -= rows  # from places among the tokens to places among the inputs

    num_inputs = num_rows * block_size
    room = num_rows * (max_documents or -(-block_size // 8))
    if len(edges) > room + 1:
        if max_documents is not None:
            raise ValueError(
                f"a batch of {num_rows} rows holds {len(edges) - 1} documents; cu_seqlens has room "
                f"for {room} with max_documents={max_documents}; pass a larger one"
            )
        room = num_inputs
    cu_seqlens = np.empty(room + 1, np.int32)
    cu_seqlens[: len(edges)] = edges
    cu_seqlens[len(edges) :] = num_inputs
    return Marks(loss_mask, cu_seqlens, edges, rows, spares)


@functools.lru_cache(maxsize=4)
def _places(num_rows: int, block_size: int) -> np.ndarray:
    """The place of each input among all, where that is enough modulo 2**16."""
    narrow = np.uint16 if block_size <= 1 << 16 else np.int32
    return np.arange(num_rows * block_size).astype(narrow)
