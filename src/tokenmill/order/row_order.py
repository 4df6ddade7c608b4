"""The order of rows made of whole documents: sample number -> row -> pieces of documents; and back.

An epoch has R rows, and sample g = e * R + p is position p of epoch e. Which row is at a position
is said by the arrangement, as for windows. What is in a row is said by its recipe: pieces of some
lengths, each by its number among all pieces of that length. Which document has that number is a
keyed permutation of its own for every length, another one each epoch. So other documents meet in
every epoch, each is in exactly one row (or its pieces are, in one row each), and nothing is stored
but the table of recipes.

With `sequential` the numbers are not permuted: every epoch is the same.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.order.document_pieces import DocumentPieces, DocumentsByLength, find_documents
from tokenmill.order.permutation import mix, permute_each, round_keys
from tokenmill.order.recipes import Recipes, one_each, pack
from tokenmill.order.simple_orders import Arrangement, Sequential
from tokenmill.order.source_order import EqualEpochs
from tokenmill.order.windows import check_at_least_one

ROWS = ("windows", "packed", "documents")
_KEYS_OF_PIECES = 7  # unlike those of the other orders


@dataclass(frozen=True)
class RowPieces:
    """What is in some rows: pieces of documents, one after the other, then padding."""

    firsts: np.ndarray
    """The first piece of each row; then the number of pieces."""
    columns: np.ndarray
    """Where each piece begins in its row."""
    starts: np.ndarray
    """The first token of each piece on the axis, after a begin token that is put in."""
    lengths: np.ndarray
    """Tokens of each piece in the row, with a begin token that is put in."""
    begins: np.ndarray
    """Whether a begin token is put in at the front of the piece."""

    @property
    def num_rows(self) -> int:
        return len(self.firsts) - 1

    @property
    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """The targets of each piece on the axis: the first, and the token after the last."""
        first = self.starts + ~self.begins  # its first token is a target after a begin token
        return first, self.starts + self.lengths - self.begins

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """The row of each piece."""
        return np.arange(self.num_rows).repeat(np.diff(self.firsts))

    @functools.cached_property
    def filled(self) -> np.ndarray:
        """Tokens of each row before its padding."""
        last = self.firsts[1:] - 1
        filled: np.ndarray = self.columns[last] + self.lengths[last]
        return filled

    def between(self, low: int, high: int) -> "RowPieces":
        """The rows low .. high-1."""
        here = slice(int(self.firsts[low]), int(self.firsts[high]))
        firsts = self.firsts[low : high + 1] - self.firsts[low]
        return RowPieces(firsts, *(each[here] for each in self._of_pieces))

    def chosen(self, rows: np.ndarray) -> "RowPieces":
        """Some of the rows, by number."""
        counts = np.diff(self.firsts)[rows]
        _, which = runs(self.firsts[rows], counts)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        return RowPieces(firsts, *(each[which] for each in self._of_pieces))

    @property
    def _of_pieces(self) -> tuple[np.ndarray, ...]:
        return self.columns, self.starts, self.lengths, self.begins


def join_rows(parts: Sequence[RowPieces], places: Sequence[np.ndarray]) -> RowPieces:
    """One table of all rows, where row i of parts[k] comes at places[k][i]."""
    rows = np.concatenate([where[part.rows] for part, where in zip(parts, places, strict=True)])
    order = np.argsort(rows, kind="stable")
    num_rows = sum(len(where) for where in places)
    firsts = np.searchsorted(rows[order], np.arange(num_rows + 1))
    tables = zip(*(part._of_pieces for part in parts), strict=True)
    return RowPieces(firsts, *(np.concatenate(table)[order] for table in tables))


class RowOrder(EqualEpochs):
    """Which pieces of documents each sample number of one source means."""

    def __init__(
        self,
        documents: DocumentsByLength,
        rows: str,
        arrangement: Arrangement,
        block_size: int,
        seed: int,
        begin: bool,
    ) -> None:
        check_at_least_one(block_size=block_size)
        if not len(documents.lengths):
            raise ValueError(f'rows="{rows}" need a document, and this data has no tokens')
        self.documents, self.seed, self.kind = documents, seed, rows
        self.arrangement = arrangement
        self.pieces = DocumentPieces(
            documents.lengths, documents.counts, block_size=block_size, begin=begin
        )
        lengths = self.pieces.lengths
        counts = self.pieces.count_of[lengths].tolist()
        self.recipes: Recipes = (
            pack(lengths.tolist(), counts, block_size + 1)
            if rows == "packed"
            else one_each(lengths.tolist(), counts)
        )

    @property
    def name(self) -> str:
        return self.arrangement.name

    @property
    def block_size(self) -> int:
        return self.pieces.block_size

    @property
    def samples_per_epoch(self) -> int:
        """R, the number of rows."""
        return self.recipes.num_rows

    @functools.cached_property
    def num_tokens(self) -> int:
        """Tokens of the axis."""
        return int((self.documents.lengths * self.documents.counts).sum())

    @property
    def num_padding(self) -> int:
        """Tokens of padding in an epoch."""
        return self.samples_per_epoch * self.pieces.capacity - self.pieces.num_tokens

    @property
    def num_targets(self) -> int:
        """Targets in an epoch: of every piece all tokens but the first."""
        return self.pieces.num_tokens - int(self.pieces.count_of.sum())

    def locate(self, samples: np.ndarray) -> RowPieces:
        """The pieces of each sample of a 1-D array, one row each."""
        epochs, positions = np.divmod(samples, self.samples_per_epoch)
        found = np.unique(epochs).tolist()
        if len(found) == 1:  # the usual case
            return self._pieces_of(self._rows_at(positions, found[0]), found[0])
        places = [np.flatnonzero(epochs == epoch) for epoch in found]
        parts = [
            self._pieces_of(self._rows_at(positions[where], epoch), epoch)
            for where, epoch in zip(places, found, strict=True)
        ]
        if not parts:
            return self._pieces_of(positions, 0)
        return join_rows(parts, places)

    def samples_targeting(
        self, start: np.ndarray, length: np.ndarray, low: np.ndarray, high: np.ndarray, epoch: int
    ) -> np.ndarray:
        """The samples of an epoch in which a token low .. high-1 of these documents is a target.

        Ascending, each once. `low` and `high` count from the start of each document. What is after
        the end of this axis, in data that has grown since, is in none.
        """
        size, begin = self.pieces.block_size, self.pieces.begin
        length = np.minimum(length, self.num_tokens - start)
        # Piece j targets the tokens jT + 1 .. jT + T, counted with the begin token.
        first = np.maximum(low + begin, 1) - 1
        last = np.minimum(high, length) + begin - 2
        some = first <= last
        first, last = first[some] // size, last[some] // size
        document = find_documents(self.documents, start[some], length[some])
        which, piece = runs(first, last - first + 1)
        rows = self.row_of(self.pieces.number_of(document[which], piece), epoch)
        return np.unique(self.positions_of(rows, epoch)) + epoch * self.samples_per_epoch

    # Which row is at a position

    @property
    def _in_disk_order(self) -> bool:
        return self.kind == "documents" and isinstance(self.arrangement, Sequential)

    def _rows_at(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        if self._in_disk_order:
            rows: np.ndarray = self._rows_by_place[positions]
            return rows
        return self.arrangement.window_at(positions, self.samples_per_epoch, self.seed, epoch)

    def positions_of(self, rows: np.ndarray, epoch: int) -> np.ndarray:
        """The position of each row in this epoch."""
        if self._in_disk_order:
            positions = np.empty_like(self._rows_by_place)
            positions[self._rows_by_place] = np.arange(len(positions))
            found: np.ndarray = positions[rows]
            return found
        return self.arrangement.position_of(rows, self.samples_per_epoch, self.seed, epoch)

    @functools.cached_property
    def _rows_by_place(self) -> np.ndarray:
        """All rows of `documents` in the order of the axis; made when first needed."""
        rows = self._pieces_of(np.arange(self.samples_per_epoch), 0)
        return np.lexsort((~rows.begins, rows.starts))

    # What is in a row

    def _pieces_of(self, rows: np.ndarray, epoch: int) -> RowPieces:
        pieces = self.recipes.expand(rows)
        nth = self._permute(pieces.number, pieces.length, epoch)
        start, begins = self._places_of(*self.pieces.find(pieces.length, nth))
        firsts = np.searchsorted(pieces.row, np.arange(len(rows) + 1))
        return RowPieces(firsts, pieces.column, start, pieces.length, begins)

    def _places_of(self, document: np.ndarray, piece: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first token of each piece, and whether a begin token is put in before it."""
        pieces = self.pieces
        start = self.documents.starts[document].astype(np.int64)
        start += piece * pieces.block_size - (pieces.begin & (piece > 0))
        return start, (piece == 0) & pieces.begin

    def row_of(self, number: np.ndarray, epoch: int) -> np.ndarray:
        """The row that holds each piece."""
        recipes, pieces = self.recipes, self.pieces
        length = pieces.length_of(number)
        first = pieces.first_of[length]
        number = first + self._permute(number - first, length, epoch, inverse=True)
        order, starts = self._entries_by_piece
        entry = order[np.searchsorted(starts, number, side="right") - 1]
        within = number - first - recipes.first[entry]
        row: np.ndarray = (
            recipes.row_starts[recipes.recipe_of_entry[entry]] + within // recipes.count[entry]
        )
        return row

    @functools.cached_property
    def _entries_by_piece(self) -> tuple[np.ndarray, np.ndarray]:
        """The entries of all recipes in the order of the pieces they place, and their first one."""
        starts = self.pieces.first_of[self.recipes.length] + self.recipes.first
        order = np.argsort(starts)
        return order, starts[order]

    def _permute(
        self, number: np.ndarray, length: np.ndarray, epoch: int, *, inverse: bool = False
    ) -> np.ndarray:
        """Exchange pieces of one length for each other."""
        if isinstance(self.arrangement, Sequential):
            return number
        keys = _keys_of_lengths(self.seed, epoch, self.pieces.capacity)
        return permute_each(number, length, self.pieces.count_of, keys, inverse=inverse)


@functools.lru_cache(maxsize=4)
def _keys_of_lengths(seed: int, epoch: int, capacity: int) -> np.ndarray:
    """(capacity + 1, rounds): the keys of the permutation of every length, from 0."""
    lengths = np.arange(capacity + 1, dtype=np.uint64)
    return mix(round_keys(seed, epoch, _KEYS_OF_PIECES) + lengths[:, None])


def runs(starts: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs start, start + 1, ... of these lengths in one array; first the number of each run."""
    which = np.arange(len(counts)).repeat(counts)
    before = np.cumsum(counts) - counts
    return which, np.arange(len(which)) + (starts - before)[which]
