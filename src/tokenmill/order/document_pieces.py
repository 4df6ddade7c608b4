"""Documents cut into pieces that fit into a row, numbered by length: all by arithmetic.

order.md ("Rows of documents", 1 and 2) says how. A document has full pieces and a rest; one
that fits is a rest without full pieces. Of one that is longer than a row, `long` keeps all pieces
("split"), the first ("cut") or none ("drop"). Only the histogram of lengths is needed, however many
documents there are.
"""

import functools
from dataclasses import dataclass

import numpy as np

from tokenmill import kernel
from tokenmill.order.spans import groups_of


@dataclass(frozen=True)
class DocumentsByLength:
    """Documents sorted by length; those of one length in the order of the axis. No empty ones."""

    lengths: np.ndarray
    """The lengths that occur, ascending."""
    counts: np.ndarray
    """How many documents have each."""
    starts: np.ndarray
    """The first token of each document on the axis."""
    fingerprint: str
    """A hash of the three."""


def find_documents(
    documents: DocumentsByLength, start: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """The numbers of the documents with these starts; `length` is that of each, or was.

    Data that has grown may have made its last document longer.
    """
    edges = np.concatenate([[0], np.cumsum(documents.counts)])
    classes = np.searchsorted(documents.lengths[:-1], length)
    number = np.empty(len(start), np.int64)
    for c, here in groups_of(classes):
        low, high = int(edges[c]), int(edges[c + 1])
        within = np.searchsorted(documents.starts[low:high], start[here])
        number[here] = low + np.minimum(within, high - low - 1)
    for place in np.flatnonzero(documents.starts[number] != start).tolist():
        number[place] = np.flatnonzero(documents.starts == start[place])[0]
    return number


class DocumentPieces:
    """The pieces of documents of these lengths, and their numbers."""

    def __init__(
        self,
        lengths: np.ndarray,
        counts: np.ndarray,
        *,
        block_size: int,
        begin: bool,
        long: str = "split",
    ) -> None:
        self.block_size = block_size
        self.begin = begin
        self.capacity = block_size + 1
        whole = lengths + begin
        self._full = (whole - 1) // block_size  # full pieces of a document of each length
        rest = whole - self._full * block_size
        has_rest = (self._full == 0) | (rest > 1)
        is_long = whole > self.capacity
        if long != "split":
            self._full[is_long] = 1 if long == "cut" else 0
            has_rest[is_long] = False
        self._num_pieces = self._full + has_rest  # of a document of each length
        self.num_long = int(counts[is_long].sum())
        """Documents that are longer than a row."""
        self.num_left_out = self.num_long if long == "drop" else 0
        """Documents that are in no row."""
        self._document_starts = np.concatenate([[0], np.cumsum(counts)])
        self.num_cut = int(counts[self._num_pieces > 1].sum())
        """Documents of more than one piece."""
        if counts.any() and not (counts * self._num_pieces).any():
            raise ValueError(
                f'long="drop" leaves no document: all are longer than a row of {self.capacity:,} '
                'tokens; give a larger block_size, or long="split"'
            )

        # One run of numbers for the rests, and one for the full pieces, of every length.
        rests = np.flatnonzero(has_rest)
        fulls = np.flatnonzero(self._full)
        length = np.concatenate([rest[rests], np.full(len(fulls), self.capacity)])
        order = np.argsort(length, kind="stable")
        self._length = length[order]
        self._class = np.concatenate([rests, fulls])[order]
        self._first = np.concatenate([self._full[rests], np.zeros(len(fulls), np.int64)])[order]
        self._each = np.concatenate([np.ones(len(rests), np.int64), self._full[fulls]])[order]
        sizes = counts[self._class] * self._each
        self._starts = np.concatenate([[0], np.cumsum(sizes)])
        # (2, lengths): the run of the full pieces, and of the rest, of a document of each length.
        self._run_of = np.full((2, len(lengths)), -1)
        is_rest = (order < len(rests)).astype(np.int64)
        self._run_of[is_rest, self._class] = np.arange(len(order))

        self.count_of = np.zeros(self.capacity + 1, np.int64)
        """How many pieces there are of each length, from 0 to `capacity`."""
        np.add.at(self.count_of, self._length, sizes)
        self.first_of = np.cumsum(self.count_of) - self.count_of
        """The number of the first piece of each length."""

    @property
    def lengths(self) -> np.ndarray:
        """The lengths that pieces have, ascending."""
        return np.flatnonzero(self.count_of)

    @property
    def num_tokens(self) -> int:
        """Tokens of all pieces: shared ones twice, begin tokens too."""
        return int((self.count_of * np.arange(self.capacity + 1)).sum())

    def locate(self, length: np.ndarray, nth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The document of each piece, as its number by length, and which of its pieces it is.

        The pieces, (pieces,) int64, are given by length and by number among those of this length.
        """
        if kernel.compiled is not None:
            document = np.empty(len(nth), np.int64)
            piece = np.empty(len(nth), np.int64)
            kernel.compiled.locate_pieces(document, piece, length, nth, *self._runs_by_length)
            return document, piece
        number = self.first_of[length] + nth
        run = np.searchsorted(self._starts, number, side="right") - 1
        document, piece = np.divmod(number - self._starts[run], self._each[run])
        document += self._document_starts[self._class[run]]
        return document, piece + self._first[run]

    @functools.cached_property
    def _runs_by_length(self) -> tuple[np.ndarray, ...]:
        """The runs as the kernel takes them; those of length l are runs[l] .. runs[l + 1] - 1."""
        runs = np.searchsorted(self._length, np.arange(self.capacity + 2))
        starts = self._starts[:-1] - self.first_of[self._length]
        return runs, starts, self._document_starts[self._class], self._first, self._each

    def are_there(self, document: np.ndarray, piece: np.ndarray) -> np.ndarray:
        """Return which pieces are in a row, as `long` may leave some out."""
        kind = np.searchsorted(self._document_starts, document, side="right") - 1
        there: np.ndarray = piece < self._num_pieces[kind]
        return there

    def number_of(self, document: np.ndarray, piece: np.ndarray) -> np.ndarray:
        """The number of each piece among all: the inverse of `locate`."""
        kind = np.searchsorted(self._document_starts, document, side="right") - 1
        is_rest = piece == self._full[kind]
        run = self._run_of[is_rest.astype(np.int64), kind]
        within = (document - self._document_starts[kind]) * self._each[run]
        number: np.ndarray = self._starts[run] + within + np.where(is_rest, 0, piece)
        return number

    def length_of(self, number: np.ndarray) -> np.ndarray:
        """The length of each piece."""
        length: np.ndarray = self._length[np.searchsorted(self._starts, number, side="right") - 1]
        return length
