"""Rows that are made of documents: where their pieces are, their tokens, and the marks of both.

What is in a row is arithmetic (order/row_order.py). Documents are always known here, so a batch of
such rows always has its document fields.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from tokenmill.batches.document_masks import DocumentMarks, mark_pieces
from tokenmill.batches.rows.gather_pieces import PieceReader, doubled_begin
from tokenmill.dataset import TokenDataset
from tokenmill.edits.banned_places import BannedPlaces, banned_in_pieces
from tokenmill.edits.grown_source import plain_order
from tokenmill.order.row_order import RowOrder, RowPieces
from tokenmill.order.sample_order import SampleOrder


class PiecePlaces(NamedTuple):
    """What is in the rows of some steps: tables of (steps, rows), and the pieces of all rows."""

    sources: np.ndarray
    starts: np.ndarray
    """The first token of each row."""
    pieces: RowPieces
    banned: BannedPlaces | None

    def steps(self, low: int, high: int) -> "PiecePlaces":
        rows = self.sources.shape[1]
        pieces = self.pieces.between(low * rows, min(high, len(self.sources)) * rows)
        banned = self.banned and self.banned.steps(low, high)
        return PiecePlaces(self.sources[low:high], self.starts[low:high], pieces, banned)

    def row_pieces(self, step: int) -> tuple[RowPieces, int]:
        """The pieces of all rows, and the first row of one of the steps."""
        return self.pieces, step * self.sources.shape[1]


class DocumentRows:
    """Documents as rows, of one dataset or of several by turns; a row is of one of them."""

    def __init__(
        self,
        datasets: Sequence[TokenDataset],
        order: SampleOrder,
        dtype: np.dtype[Any],
        max_documents: int | None,
        check_ids: bool,
    ) -> None:
        self._datasets, self._order, self._max_documents = datasets, order, max_documents
        self._length, stored = order.block_size + 1, {data.dtype for data in datasets}
        self._readers = [
            PieceReader(data, self._length, dtype, check_ids, order.begin_token)
            for data in datasets
        ]
        self._stored_dtype = stored.pop() if len(stored) == 1 else dtype
        plain = [cast("RowOrder", plain_order(rows)) for rows in order.rows_of_sources]
        self.pieces_per_row: float = max(
            rows.pieces.count_of.sum() / rows.samples_per_epoch for rows in plain
        )
        """On average, for the source that has most."""

    def in_any_order(self) -> "DocumentRows":
        """The same rows for one who asks for samples in an order of his own."""
        return self

    def locate(self, samples: np.ndarray) -> PiecePlaces:
        """The pieces of the row of each sample; (steps, rows) of samples."""
        sources, index = self._order.source_of(samples.reshape(-1))
        pieces = self._order.pieces_of(sources, index)
        starts = pieces.starts[pieces.firsts[:-1]]
        sources, starts = sources.reshape(samples.shape), starts.reshape(samples.shape)
        banned = banned_in_pieces(self._order, sources, index, pieces)
        return PiecePlaces(sources, starts, pieces, banned)

    def expect(self, places: PiecePlaces) -> bool:
        """These will be taken soon; whether all are here (TokenAxis.expect)."""
        sources, pieces = places.sources.reshape(-1), places.pieces
        answers = [
            data.expect(pieces.starts[sources[pieces.rows] == number])
            for number, data in enumerate(self._datasets)
        ]
        return all(answers)

    def take(self, places: PiecePlaces) -> tuple[np.ndarray, Sequence[DocumentMarks]]:
        """The tokens of each row of each batch, and where documents are in them."""
        stored = self._stored(places.sources.reshape(-1), places.pieces)
        batches = stored.reshape(*places.sources.shape, self._length)
        return batches, mark_pieces(places.pieces, batches.shape, self._max_documents)

    def _stored(self, sources: np.ndarray, pieces: RowPieces) -> np.ndarray:
        """The tokens of each row, as wide as the files have them."""
        if len(self._readers) == 1:
            return self._readers[0].take(pieces)
        stored = np.empty((len(sources), self._length), self._stored_dtype)
        for s, reader in enumerate(self._readers):
            mine = np.flatnonzero(sources == s)
            stored[mine] = reader.take(pieces.chosen(mine))
        return stored


def check_begin_token(data: TokenDataset, begin_token: int) -> None:
    """Refuse an id that is not one of this data, or that its documents begin with already."""
    size = data.stated_vocab_size
    largest = int(np.iinfo(data.dtype).max) if size is None else size - 1
    if not 0 <= begin_token <= largest:
        known = f"{data.dtype} ids" if size is None else "its vocabulary"
        raise ValueError(
            f"begin_token is {begin_token:,}, which is not among {known}: {data.path} has ids 0 "
            f"to {largest:,}"
        )
    if data.begin_token_id is not None:
        raise ValueError(
            f"begin_token is {begin_token:,}, but every document of {data.path} begins with the "
            f"begin token {data.begin_token_id:,} already: leave begin_token out"
        )
    if data.num_tokens and int(data[0]) == begin_token:
        raise doubled_begin(data, 0)
