"""What a ban leaves of rows of documents: banned pieces become padding, rows of only such go.

A piece is banned when all its targets are (of a document of one token, that token). The pieces
after it move up in the row, so that padding stays at the end. The other rows keep their order.
"""

import functools
from dataclasses import dataclass

import numpy as np

from tokenmill.edits.banned_tokens import BannedTokens
from tokenmill.edits.kept_positions import KeptPositions
from tokenmill.order.row_order import RowOrder, RowPieces
from tokenmill.order.simple_orders import Sequential


@dataclass(frozen=True, eq=False)
class RowsLeft:
    """The rows of one source that hold a piece which is not banned."""

    order: RowOrder
    banned: BannedTokens

    @functools.cached_property
    def is_steady(self) -> bool:
        """Whether every epoch has the same number."""
        order = self.order
        same_rows = order.kind == "documents" or isinstance(order.arrangement, Sequential)
        return same_rows or not len(self._banned_pieces)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in any epoch."""
        return len(self._banned_pieces) == int(self.order.pieces.count_of.sum())

    def num_kept(self, epoch: int) -> int:
        return self._num_kept if self.is_steady else self._count(epoch)

    @functools.cached_property
    def _num_kept(self) -> int:
        """In every epoch, if that is steady."""
        return self._count(0)

    def _count(self, epoch: int) -> int:
        return self.order.samples_per_epoch - len(self._passed_over(epoch))

    def kept(self, epoch: int) -> KeptPositions:
        """The positions of the rows that are left."""
        rows, count = self._passed_over(epoch), self.order.samples_per_epoch
        lists_kept = 2 * len(rows) > count
        if lists_kept:
            rows = np.setdiff1d(np.arange(count), rows, assume_unique=True)
        return KeptPositions(count, np.sort(self.order.positions_of(rows, epoch)), lists_kept)

    def locate(self, positions: np.ndarray, epoch: int) -> RowPieces:
        """The pieces of the row at each position, without those that are banned."""
        pieces = self.order.locate(epoch * self.order.samples_per_epoch + positions)
        near = np.flatnonzero(self.banned.near(pieces.starts, self.order.pieces.capacity))
        first, stop = (edge[near] for edge in pieces.targets)
        gone = np.zeros(len(pieces.starts), bool)
        gone[near] = self.banned.hold(first, stop)
        return pieces.without(gone) if gone.any() else pieces

    def targeting(
        self, start: np.ndarray, length: np.ndarray, low: np.ndarray, high: np.ndarray, epoch: int
    ) -> np.ndarray:
        """The positions with a target among tokens of documents that are not banned.

        The arguments are those of `RowOrder.samples_targeting`.
        """
        which, lows, highs = self.banned.outside(start + low, start + high)
        start, length = start[which], length[which]
        samples = self.order.samples_targeting(start, length, lows - start, highs - start, epoch)
        return samples - epoch * self.order.samples_per_epoch

    def _passed_over(self, epoch: int) -> np.ndarray:
        """The rows all of whose pieces are banned."""
        rows = np.sort(self.order.row_of(self._banned_pieces, epoch))
        firsts = np.flatnonzero(np.diff(rows, prepend=-1))
        counts = np.diff(firsts, append=len(rows))
        rows = rows[firsts]
        only: np.ndarray = rows[counts == self.order.num_pieces(rows)]
        return only

    @functools.cached_property
    def _banned_pieces(self) -> np.ndarray:
        """Their numbers."""
        number, pieces = self.order.pieces_of_documents(*self.banned.documents)
        banned: np.ndarray = number[self.banned.hold(*pieces.targets)]
        return banned
