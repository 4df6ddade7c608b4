"""Rows made of whole documents: sample number -> row -> one span per piece of a document; and back.

The arrangement says which row is at a position, as for windows; the recipe of the row, which
lengths are in it; a keyed permutation for every length and epoch, which documents these are. So
other documents meet in every epoch, and nothing is stored but the table of recipes.
"""

import functools
from collections.abc import Callable

import numpy as np

from tokenmill.base.suggest import check_at_least_one
from tokenmill.order.document_pieces import DocumentPieces, DocumentsByLength, find_documents
from tokenmill.order.order import ANYWHERE, SourceOrder, by_epoch
from tokenmill.order.permutation import mix, permute_each, round_keys
from tokenmill.order.recipes import Recipes, one_each, pack
from tokenmill.order.spans import Spans, join_rows, runs
from tokenmill.order.window_order import Arrangement, Sequential

_KEYS_OF_PIECES = 7  # unlike those of the other orders


class RowOrder(SourceOrder):
    """Packed documents (`rows="packed"`), or one document per row (`rows="documents"`)."""

    locality = ANYWHERE

    def __init__(
        self,
        documents: DocumentsByLength,
        document_edges: Callable[[int, int], np.ndarray],
        rows: str,
        arrangement: Arrangement,
        block_size: int,
        seed: int,
        begin: bool,
        long: str = "split",
    ) -> None:
        """`document_edges(start, stop)`: where the documents with these tokens begin and end."""
        check_at_least_one(block_size=block_size)
        if not len(documents.lengths):
            raise ValueError(f'rows="{rows}" need a document, and this data has no tokens')
        self.documents = documents
        self._document_edges = document_edges
        self.kind = rows
        self.arrangement = arrangement
        self.name = arrangement.name
        self.block_size = block_size
        self.seed = seed
        self.pieces = DocumentPieces(
            documents.lengths, documents.counts, block_size=block_size, begin=begin, long=long
        )
        lengths = self.pieces.lengths
        counts = self.pieces.count_of[lengths].tolist()
        self.recipes: Recipes = (
            pack(lengths.tolist(), counts, block_size + 1)
            if rows == "packed"
            else one_each(lengths.tolist(), counts)
        )
        self.spans_per_row = float(self.pieces.count_of.sum() / self.samples_per_epoch)

    @property
    def samples_per_epoch(self) -> int:
        return self.recipes.num_rows

    @functools.cached_property
    def num_tokens(self) -> int:
        """Tokens of the axis."""
        return int((self.documents.lengths * self.documents.counts).sum())

    def facts(self) -> dict[str, int]:
        pieces = self.pieces
        return {
            "rows_per_epoch": self.samples_per_epoch,
            "documents": int(self.documents.counts.sum()),
            "cut_documents": pieces.num_cut,
            "long_documents": pieces.num_long,
            "documents_left_out": pieces.num_left_out,
            # Of every piece all tokens but the first are targets.
            "targets_per_epoch": pieces.num_tokens - int(pieces.count_of.sum()),
            "padding_per_epoch": self.samples_per_epoch * pieces.capacity - pieces.num_tokens,
        }

    def rows(self, samples: np.ndarray) -> Spans:
        groups = by_epoch(samples, self.samples_per_epoch)
        parts = [
            self._spans_of(self._rows_at(positions, epoch), epoch) for epoch, _, positions in groups
        ]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return self._spans_of(samples, 0)
        return join_rows(parts, [mine for _, mine, _ in groups], len(samples))

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """Tokens after the end of this axis, in data that has grown since, are in no sample."""
        stop = min(stop, self.num_tokens)
        if start >= stop:
            return np.empty(0, np.int64)
        edges = self._document_edges(start, stop)
        first_tokens = edges[:-1]
        lengths = np.minimum(edges[1:], self.num_tokens) - first_tokens
        # Piece j targets the tokens jT + 1 .. jT + T, counted with the begin token.
        begin = self.pieces.begin
        first = np.maximum(start - first_tokens + begin, 1) - 1
        last = np.minimum(stop - first_tokens, lengths) + begin - 2
        some = first <= last
        first_piece = first[some] // self.block_size
        last_piece = last[some] // self.block_size
        document = find_documents(self.documents, first_tokens[some], lengths[some])
        counts = last_piece - first_piece + 1
        piece = runs(first_piece, counts)
        document = document.repeat(counts)
        there = self.pieces.are_there(document, piece)
        rows = self.row_of(self.pieces.number_of(document[there], piece[there]), epoch)
        if self._in_disk_order:
            positions = np.argsort(self._rows_by_place)[rows]
        else:
            positions = self.arrangement.position_of(rows, self.samples_per_epoch, self.seed, epoch)
        return np.unique(positions) + epoch * self.samples_per_epoch

    # Which row is at a position

    @property
    def _in_disk_order(self) -> bool:
        return self.kind == "documents" and isinstance(self.arrangement, Sequential)

    def _rows_at(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        if self._in_disk_order:
            rows: np.ndarray = self._rows_by_place[positions]
            return rows
        return self.arrangement.window_at(positions, self.samples_per_epoch, self.seed, epoch)

    @functools.cached_property
    def _rows_by_place(self) -> np.ndarray:
        """All rows of `documents` in the order of the axis; made when first needed."""
        spans = self._spans_of(np.arange(self.samples_per_epoch), 0)
        return np.argsort(spans.start, kind="stable")

    # What is in a row

    def _spans_of(self, rows: np.ndarray, epoch: int) -> Spans:
        pieces = self.recipes.expand(rows)
        nth = self._permute(pieces.number, pieces.length, epoch)
        document, piece = self.pieces.locate(pieces.length, nth)
        start = self.documents.starts[document].astype(np.int64) + piece * self.block_size
        column = pieces.column
        length = pieces.length
        if self.pieces.begin:
            # The begin token takes a column before the first piece; the others begin one earlier.
            is_first = piece == 0
            start -= ~is_first
            column = column + is_first
            length = length - is_first
        source = np.zeros(len(start), np.int64)
        return Spans(len(rows), pieces.row, column, source, start, length)

    def row_of(self, number: np.ndarray, epoch: int) -> np.ndarray:
        """The row that holds each piece."""
        recipes = self.recipes
        pieces = self.pieces
        length = pieces.length_of(number)
        first = pieces.first_of[length]
        number = first + self._permute(number - first, length, epoch, inverse=True)
        order, starts = self._entries_by_piece
        entry = order[np.searchsorted(starts, number, side="right") - 1]
        within = number - first - recipes.first[entry]
        recipe = np.searchsorted(recipes.entry_starts, entry, side="right") - 1
        row: np.ndarray = recipes.row_starts[recipe] + within // recipes.count[entry]
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
