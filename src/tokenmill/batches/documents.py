"""Where documents lie in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question, asked of the T inputs of each row: is the token after it (its
target) the first token of another document? `cuts_of` answers it by looking for the end-of-text id
in the rows, whichever side of a document it stands on, or from the index of the dataset;
`mark_documents` does the rest for the whole batch at once.

A row begins in the middle of a document more often than not; that piece is document 0 of the row
and its positions start at 0 like those of the others.
"""

import functools

import numpy as np

from tokenmill.dataset import TokenDataset


class Marks:
    """The fields that a Batch gets with `documents=True`; see batch.py.

    `document_ids` and `positions`, as large as the batch itself, are made when first read: who
    attends by `cu_seqlens` never pays for them.
    """

    __slots__ = ("_edges", "_ids", "_positions", "cu_seqlens", "loss_mask", "max_seqlen")

    def __init__(
        self, loss_mask: np.ndarray, edges: np.ndarray, cu_seqlens: np.ndarray, max_seqlen: int
    ) -> None:
        self.loss_mask = loss_mask
        self.cu_seqlens = cu_seqlens
        self.max_seqlen = max_seqlen
        self._edges = edges
        self._ids: np.ndarray | None = None
        self._positions: np.ndarray | None = None

    # Filled run by run: the cumulative sums one would think of take ten times as long.

    @property
    def document_ids(self) -> np.ndarray:
        """Which document of its row each input belongs to, from 0."""
        if self._ids is None:
            row_edges, _ = _constants(*self.loss_mask.shape)
            edges, first_of_row = self._edges, self._edges.searchsorted(row_edges)
            numbers = np.arange(len(edges) - 1, dtype=np.int32)
            numbers -= first_of_row[:-1].astype(np.int32).repeat(np.diff(first_of_row))
            self._ids = numbers.repeat(np.diff(edges)).reshape(self.loss_mask.shape)
        return self._ids

    @property
    def positions(self) -> np.ndarray:
        """The place of each input in its document of the row."""
        if self._positions is None:
            _, places = _constants(*self.loss_mask.shape)
            starts = self.cu_seqlens[: len(self._edges) - 1].repeat(np.diff(self._edges))
            np.subtract(places, starts, out=starts)
            self._positions = starts.reshape(self.loss_mask.shape)
        return self._positions


def cuts_of(data: TokenDataset, rows: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """For each input of (n, T + 1) rows, whether the next token begins another document: (n, T).

    The end-of-text id is looked for if it is known; it takes one comparison. Otherwise the index is
    asked row by row.
    """
    if data.end_of_text_id is not None:
        before = data.end_of_text_comes == "before"
        cuts: np.ndarray = (rows[:, 1:] if before else rows[:, :-1]) == data.end_of_text_id
        return cuts
    cuts = np.zeros((len(rows), rows.shape[1] - 1), bool)
    for row, start in zip(cuts, starts.tolist(), strict=True):
        row[data.document_ends(start, start + len(row)) - (start + 1)] = True
    return cuts


def mark_documents(cuts: np.ndarray, max_documents: int | None = None) -> Marks:
    """The fields of a batch, from the `cuts_of` its (n, T) inputs, which this uses up.

    `cu_seqlens` has n * max_documents + 1 entries, so that compiled code sees one shape; those not
    needed repeat the last. A batch with more documents is an error. If no number is given there is
    room for one document in 8 inputs, and the rare batch of crumbs gets room for any number.
    """
    num_rows, block_size = cuts.shape
    row_edges, _ = _constants(num_rows, block_size)
    loss_mask = ~cuts
    # A document that begins with the last target of a row begins outside of the inputs.
    cuts[:, -1] = False
    (inside,) = cuts.reshape(-1).nonzero()
    # Where documents begin in the flattened inputs, ascending, and the end.
    edges = np.concatenate((row_edges, inside + 1))
    edges.sort()
    lengths = edges[1:] - edges[:-1]

    room = num_rows * (max_documents or -(-block_size // 8))
    if len(lengths) > room:
        if max_documents is not None:
            raise ValueError(
                f"a batch of {num_rows} rows holds {len(lengths)} documents; cu_seqlens has room "
                f"for {room} with max_documents={max_documents}; pass a larger one"
            )
        room = cuts.size
    cu_seqlens = np.full(room + 1, cuts.size, np.int32)
    cu_seqlens[: len(edges)] = edges

    return Marks(loss_mask, edges, cu_seqlens, int(np.maximum.reduce(lengths)))


@functools.lru_cache(maxsize=4)
def _constants(num_rows: int, block_size: int) -> tuple[np.ndarray, np.ndarray]:
    total = num_rows * block_size
    return np.arange(0, total + 1, block_size), np.arange(total, dtype=np.int32)
