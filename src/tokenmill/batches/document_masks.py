"""Where documents are in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question about each token: does it continue the document of the token
before? A row begins in the middle of a document more often than not; that piece is document 0 of
the row, and its positions start at 0, too.

In rows of documents the spans answer it. In windows the end-of-text id does, if it is known:
readers look for it while they copy. A document that was cut short where a shard ends may lack it,
so the index is asked too about rows across such an edge. Data without an id has an index, which is
asked about all rows.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill import kernel
from tokenmill.batches.batch import Located
from tokenmill.dataset import TokenDataset


@dataclass(eq=False)
class DocumentMarks:
    """The fields that a Batch gets with `documents=True`; see batch.py.

    `document_ids` and `positions`, as large as the batch itself, are made when first read: who
    attends by `cu_seqlens` never pays for them.
    """

    loss_mask: np.ndarray
    cu_seqlens: np.ndarray
    num_documents: int
    """Padding, where a row has some, counts as one more."""
    max_seqlen: int
    padding_from: np.ndarray | None
    """The column where the padding of each row begins; None: there is none in any row."""
    # Not cached_property, which takes a lock: 2 us for both, of 90 for a batch.
    _document_ids: np.ndarray | None = None
    _positions: np.ndarray | None = None

    @functools.cached_property
    def segments(self) -> np.ndarray:
        """The document of every token of a row, the last target too; -1 is padding."""
        ids = self.document_ids
        last = ids[:, -1:] + ~self.loss_mask[:, -1:]
        segments = np.concatenate([ids, last], axis=1, dtype=np.int32)
        if self.padding_from is not None:
            segments[np.arange(segments.shape[1]) >= self.padding_from[:, None]] = -1
        return segments

    @property
    def document_ids(self) -> np.ndarray:
        if self._document_ids is None:
            self._document_ids = self._spread(self.loss_mask.shape[1])
        return self._document_ids

    @property
    def positions(self) -> np.ndarray:
        if self._positions is None:
            self._positions = self._spread(0)
        return self._positions

    def _spread(self, row_length: int) -> np.ndarray:
        """(rows, inputs) int32: the number in its row of each input's document.

        With a `row_length` of 0, how many inputs are before each in its document instead.
        """
        out = np.empty(self.loss_mask.shape, np.int32)
        begins = self.cu_seqlens[: self.num_documents + 1]  # and where the last one ends
        if kernel.compiled is not None:
            kernel.compiled.spread_documents(out, begins, row_length)
            return out
        firsts = begins[:-1]
        if row_length:
            first_of_row = firsts.searchsorted(firsts // row_length * row_length)
            flat = (np.arange(len(firsts)) - first_of_row).repeat(np.diff(begins))
        else:
            flat = np.arange(out.size) - firsts.repeat(np.diff(begins))
        out.reshape(-1)[:] = flat
        return out


def mark_documents(
    continues: np.ndarray, filled: np.ndarray | None, max_documents: int | None
) -> list[DocumentMarks]:
    """The fields of some batches, (batches, rows, tokens of a row).

    `continues` and `filled` are those of the RowGroup (batch.py), cut into batches.

    `cu_seqlens` has n * max_documents + 1 entries, so that compiled code sees one shape; those not
    needed repeat the last. A batch with more documents is an error. If no number is given there is
    room for one document in 8 inputs, and the rare batch of crumbs gets room for any number.
    """
    num_rows, length = continues.shape[1:]
    room = num_rows * (max_documents or -(-(length - 1) // 8))
    cu_seqlens, counts, longest = _find_documents(continues, filled, room)
    # No loss where the target begins another document: nothing before it predicts that.
    loss_masks = continues[:, :, 1:]
    marks = []
    for i, count in enumerate(counts.tolist()):
        begins = cu_seqlens[i]
        if count > room:
            if max_documents is not None:
                raise ValueError(
                    f"a batch of {num_rows} rows holds {count} documents; cu_seqlens has "
                    f"room for {room} with max_documents={max_documents}; pass a larger one"
                )
            here = slice(i, i + 1)
            of_rows = None if filled is None else filled[here]
            begins = _find_documents(continues[here], of_rows, num_rows * (length - 1))[0][0]
        padding = None if filled is None else filled[i]
        marks.append(DocumentMarks(loss_masks[i], begins, count, int(longest[i]), padding))
    return marks


def _find_documents(
    continues: np.ndarray, filled: np.ndarray | None, room: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`cu_seqlens` of each batch, its number of documents, and the length of the longest."""
    num_batches, num_rows, length = continues.shape
    cu_seqlens = np.empty((num_batches, room + 1), np.int32)
    counts = np.empty(num_batches, np.int64)
    longest = np.empty(num_batches, np.int64)
    if kernel.compiled is not None:
        kernel.compiled.mark_documents(cu_seqlens, counts, longest, continues, filled, length)
        return cu_seqlens, counts, longest
    num_inputs = num_rows * (length - 1)
    begins = ~continues[:, :, :-1]
    if filled is not None:  # of the padding, the first token only
        begins &= np.arange(length - 1) <= filled[:, :, None]
    begins[:, :, 0] = True
    cu_seqlens.fill(num_inputs)
    for i in range(num_batches):
        places = np.flatnonzero(begins[i])
        counts[i] = len(places)
        longest[i] = np.diff(places, append=num_inputs).max()
        cu_seqlens[i, : min(len(places), room)] = places[:room]
    return cu_seqlens, counts, longest


def find_in_spans(located: Located, low: int, high: int, length: int) -> np.ndarray:
    """(rows, length) bool: False where a document begins, with its begin token, or padding is."""
    spans = located.copies_of(low, high)
    flags = np.ones((spans.num_rows, length), bool)
    filled = spans.filled
    first = int(filled.min(initial=length))  # no column before it is padding in any row
    flags[:, first:] = np.arange(first, length) < filled[:, None]
    flags.reshape(-1)[spans.row * length + spans.column - spans.after_begin] = False
    return flags


class FindByIndex:
    """Finds the documents of windows, as far as the index has to be asked: once for many steps."""

    def __init__(self, datasets: Sequence[TokenDataset]) -> None:
        self._datasets = {
            source: data
            for source, data in enumerate(datasets)
            if _asks_for_all(data) or (len(data.shard_starts) > 2 and data.has_index)
        }
        self._latest: tuple[Located, np.ndarray] | None = None

    def __call__(self, located: Located, low: int, high: int, length: int) -> np.ndarray:
        """(rows, length) bool: False where the index says that a document begins."""
        if self._latest is None or self._latest[0] is not located:
            self._latest = located, self._begins(located, length)
        _, begins = self._latest
        first, end = (step * located.samples.shape[1] * length for step in (low, high))
        i, j = begins.searchsorted((first, end))
        flags = np.ones(end - first, bool)
        flags[begins[i:j] - first] = False
        return flags.reshape(-1, length)

    def _begins(self, located: Located, length: int) -> np.ndarray:
        """Where documents begin in the flat rows of all steps, ascending."""
        found = [np.empty(0, np.int64)]
        for source, data in self._datasets.items():
            rows = np.flatnonzero(located.spans.source == source)
            starts = located.spans.start[rows]
            if not _asks_for_all(data):
                next_edges = data.shard_starts[data.shard_starts.searchsorted(starts, "right")]
                across = next_edges < starts + length
                rows = rows[across]
                starts = starts[across]
            which, ends = data.document_ends_in_rows(starts, length)
            found.append(rows[which] * length + ends - starts[which])
        return np.sort(np.concatenate(found), kind="stable")


def _asks_for_all(data: TokenDataset) -> bool:
    """Return True if only the index says where documents are."""
    return data.end_of_text_id is None or data.has_forgotten
