"""Where documents are in a batch: ids, positions, sequence lengths and a loss mask.

All of it follows from one question, asked of the tokens of each row: does it continue the
document of the token before? window_documents.py answers it for windows, spans for rows of
documents; the rest is done here for several batches at once: a NumPy call costs the same for one
as for many.

A row begins in the middle of a document more often than not; that piece is document 0 of the row
and its positions start at 0 like those of the others.
"""

import functools
import itertools
import math
from dataclasses import dataclass

import numpy as np

from tokenmill import kernel
from tokenmill.order.spans import Spans

_EIGHT_TRUE = np.uint64(0x0101010101010101)


class DocumentSpans:
    """Where documents are in the rows of several batches."""

    def __init__(self, places: np.ndarray, length: int) -> None:
        """`places`: tokens of all rows where a document (or padding) begins; then their number."""
        rows = places // length
        columns = places - rows * length
        inside = columns < length - 1  # the last target of a row is no input
        self.begins = (places - rows)[inside]
        """Where each document begins among the inputs of all rows; then the end."""
        self.lengths = self.begins[1:] - self.begins[:-1]
        (self.firsts,) = (columns[inside] == 0).nonzero()
        """The first document of each row; then the end."""

    @functools.cached_property
    def numbers(self) -> np.ndarray:
        """The number of each document in its row."""
        numbers = np.arange(len(self.lengths))
        numbers -= self.firsts[:-1].repeat(self.firsts[1:] - self.firsts[:-1])
        return numbers.astype(np.int32)


@dataclass(eq=False)
class DocumentMarks:
    """The fields that a Batch gets with `documents=True`; see batch.py.

    `document_ids` and `positions`, as large as the batch itself, are made when first read: who
    attends by `cu_seqlens` never pays for them.
    """

    _spans: DocumentSpans
    _documents: slice
    """Those of this batch among those of the spans."""
    loss_mask: np.ndarray
    cu_seqlens: np.ndarray
    max_seqlen: int
    padding_from: np.ndarray | None = None
    """The column where the padding of each row begins; None: there is none in any row."""
    # Not cached_property, which takes a lock: 2 us for both, of 10 for a small batch.
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
            # Filled document by document: the obvious cumulative sums take ten times as long.
            numbers = self._spans.numbers[self._documents]
            ids = self._document_ids = np.empty(self.loss_mask.shape, np.int32)
            if kernel.compiled is None:
                ids[:] = numbers.repeat(self._lengths).reshape(ids.shape)
            else:
                kernel.compiled.fill_spans(ids, self._lengths, numbers)
        return self._document_ids

    @property
    def positions(self) -> np.ndarray:
        if self._positions is None:
            positions = self._positions = np.empty(self.loss_mask.shape, np.int32)
            if kernel.compiled is None:
                begins = self._spans.begins[self._documents]
                counted = np.arange(positions.size) - (begins - begins[0]).repeat(self._lengths)
                positions[:] = counted.reshape(positions.shape)
            else:
                kernel.compiled.count_spans(positions, self._lengths)
        return self._positions

    @property
    def _lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._spans.lengths[self._documents]
        return lengths


def mark_windows(
    flags: np.ndarray, shape: tuple[int, ...], max_documents: int | None
) -> list[DocumentMarks]:
    """Return the fields of each batch of windows, (batches, rows, length).

    `flags` are True for each token that continues the document of the one before it; those of the
    first tokens of rows mean nothing. There is one for the end, and they are whole words of 8.
    """
    *_, length = shape
    size = math.prod(shape)
    flags[size:] = True
    flags[: size + 1 : length] = False  # each row begins a document, and so does the end
    spans = DocumentSpans(_places_of_false(flags), length)
    # No loss where the target begins another document: nothing before it predicts that.
    return _marks(spans, flags[:size].reshape(shape)[:, :, 1:], max_documents, None)


def mark_spans(spans: Spans, tokens: np.ndarray, max_documents: int | None) -> list[DocumentMarks]:
    """Return the fields of each batch of rows of documents; `tokens` are (batches, rows, length).

    Every span is a document of its row, with the begin token before it; padding is one more.
    """
    num_batches, num_rows, length = tokens.shape
    filled = spans.filled
    places = spans.row * length + spans.column - spans.after_begin  # (spans,) in the flat rows
    padded = np.flatnonzero(filled < length)
    begins = np.insert(places, spans.firsts[1:][padded], padded * length + filled[padded])
    documents = DocumentSpans(np.append(begins, num_batches * num_rows * length), length)
    # No loss where the target begins another document, or is padding.
    counted = np.ones((num_batches * num_rows, length), bool)
    targets = np.arange(length, dtype=np.int32)
    counted[padded] = targets < filled[padded].astype(np.int32)[:, None]
    counted.reshape(-1)[places] = False
    counted = counted.reshape(tokens.shape)[:, :, 1:]
    return _marks(documents, counted, max_documents, filled.reshape(num_batches, num_rows))


def mark_begins(
    begins: np.ndarray, counted: np.ndarray, filled: np.ndarray, max_documents: int | None
) -> DocumentMarks:
    """Return the fields of one batch of B rows of T inputs.

    `begins`: where documents and padding begin in the flat rows of T + 1 tokens; `counted` is
    (B, T) bool, the loss mask; `filled` (B,) the tokens of each row before its padding.
    """
    num_rows, block_size = counted.shape
    places = np.append(begins, num_rows * (block_size + 1))
    spans = DocumentSpans(places, block_size + 1)
    (marks,) = _marks(spans, counted[None], max_documents, filled[None])
    return marks


def _marks(
    spans: DocumentSpans,
    loss_masks: np.ndarray,
    max_documents: int | None,
    padding_from: np.ndarray | None,
) -> list[DocumentMarks]:
    """Return the fields of each batch.

    `cu_seqlens` has n * max_documents + 1 entries, so that compiled code sees one shape; those not
    needed repeat the last. A batch with more documents is an error. If no number is given there is
    room for one document in 8 inputs, and the rare batch of crumbs gets room for any number.
    """
    num_batches, num_rows, block_size = loss_masks.shape
    num_inputs = num_rows * block_size
    room = num_rows * (max_documents or -(-block_size // 8))
    cu_seqlens = np.empty((num_batches, room + 1), np.int32)
    cu_seqlens.fill(num_inputs)
    begins = (spans.begins % num_inputs).astype(np.int32)
    cuts = spans.firsts[::num_rows]
    longest = np.maximum.reduceat(spans.lengths, cuts[:-1]).tolist()
    marks = []
    for i, (first, last) in enumerate(itertools.pairwise(cuts.tolist())):
        lengths = cu_seqlens[i]
        if last - first > room:
            if max_documents is not None:
                raise ValueError(
                    f"a batch of {num_rows} rows holds {last - first} documents; cu_seqlens has "
                    f"room for {room} with max_documents={max_documents}; pass a larger one"
                )
            lengths = np.full(num_inputs + 1, num_inputs, np.int32)
        lengths[: last - first] = begins[first:last]
        padding = None if padding_from is None else padding_from[i]
        marks.append(
            DocumentMarks(spans, slice(first, last), loss_masks[i], lengths, longest[i], padding)
        )
    return marks


def _places_of_false(flags: np.ndarray) -> np.ndarray:
    """Where flags are False, found eight at a time: documents are few among tokens."""
    words = flags.view(np.uint64)
    (some,) = (words != _EIGHT_TRUE).nonzero()
    (found,) = (~words[some].view(bool)).nonzero()
    places: np.ndarray = some[found >> 3] * 8 + (found & 7)
    return places
