"""One source that was edited: index -> epoch and position -> tokens; and back.

The samples that a run takes from a source are numbered 0, 1, 2, ...: the index. A change holds from
an index on. A ban passes over the windows or rows that hold nothing but banned targets; those that
are left keep their order, and an epoch gets shorter by what is passed over. A grown dataset, which
has more tokens at its end, holds from the next epoch on: the present one ends as it began.

So the indices are cut into segments, each with one order and one set of banned tokens. A segment
begins at a place, an epoch and a position in it, and ends where the next one begins. What is kept
in memory is a few numbers a segment, and tables for the few segments and epochs asked for last.
"""

import copy
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from tokenmill.edits.banned_tokens import BannedTokens, Parts, row_by_row
from tokenmill.edits.kept_positions import KeptPositions
from tokenmill.edits.rows_left import RowsLeft
from tokenmill.edits.windows_left import DrawsLeft, WindowsLeft
from tokenmill.order.document_pieces import groups_of
from tokenmill.order.row_order import RowOrder, RowPieces, join_rows
from tokenmill.order.source_order import SourceOrder

Order = SourceOrder | RowOrder
Here = np.ndarray | slice
"""Which of some samples: their numbers, or all of them."""
Left = WindowsLeft | DrawsLeft | RowsLeft
_AT_A_TIME = 4  # segments and epochs whose tables are kept


@dataclass(frozen=True)
class Segment:
    """Indices under one order and one set of banned tokens, up to the next segment."""

    index: int
    """The first one."""
    epoch: int
    position: int
    """Where it begins in that epoch."""
    order: Order
    num_bans: int
    """The first so many bans hold."""


class EditedSource:
    """What `SourceOrder` and `RowOrder` say of samples, for a source with changes."""

    def __init__(self, order: Order) -> None:
        """A source without changes so far."""
        self._bans: list[BannedTokens] = []
        self._settled = [Segment(0, 0, 0, order, 0)]
        self._grown: tuple[int, Order] | None = None
        """The epoch with which the order of the grown data begins."""
        self._lefts: dict[int, Left] = {}
        self._kepts: dict[tuple[int, int], KeptPositions] = {}
        self._origins: dict[int, list[int]] = {}
        self._end_segments()

    def changed(self, index: int, change: BannedTokens | Order) -> "EditedSource":
        """This source with one more change from an index on, at or after all others.

        A change is a ban, or the order of the grown data.
        """
        source = copy.copy(self)
        source._bans, source._settled = [*self._bans], [*self._settled]
        known = len(source._settled)  # what is known of the segment after these is forgotten
        source._lefts = {n: left for n, left in self._lefts.items() if n < known}
        source._kepts = {key: kept for key, kept in self._kepts.items() if key[0] < known}
        source._origins = {n: found for n, found in self._origins.items() if n < known}
        if self._grown is not None and self.first_of_epoch(self._grown[0]) <= index:
            source._settled, source._grown = [*self._segments], None
        source._begin_segment(index, change)
        source._end_segments()
        return source

    @property
    def order(self) -> Order:
        """The order after the last change."""
        return self._segments[-1].order

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def samples_per_epoch(self) -> int:
        """Of the epoch of the last change, had it been there from the start; others may differ."""
        return max(1, self._left(len(self._segments) - 1).num_kept(self._segments[-1].epoch))

    @property
    def stretches(self) -> list[tuple[int, Order, BannedTokens]]:
        """The index from which each order holds, with the banned tokens."""
        numbered = enumerate(self._segments)
        return [(each.index, each.order, self._left(number).banned) for number, each in numbered]

    # Epochs

    def epoch_of(self, index: np.ndarray) -> np.ndarray:
        """The epoch of each sample."""
        flat = index.reshape(-1)
        epochs = np.empty(flat.shape, np.int64)
        for number, here in self._by_segment(flat):
            epochs[here] = self._epochs_in(number, flat[here])
        return epochs.reshape(index.shape)

    def first_of_epoch(self, epoch: int) -> int:
        """The index of the first sample of an epoch."""
        places = [(segment.epoch, segment.position) for segment in self._segments]
        return self._origin(bisect_right(places, (epoch, 0)) - 1, epoch)

    def num_samples(self, epoch: int) -> int:
        """How many samples an epoch has."""
        return self.first_of_epoch(epoch + 1) - self.first_of_epoch(epoch)

    def epochs_until(self, index: int) -> float:
        """How many epochs there are before a sample."""
        epoch = int(self.epoch_of(np.array(index)))
        first, following = self.first_of_epoch(epoch), self.first_of_epoch(epoch + 1)
        return epoch + (index - first) / (following - first)

    # Tokens

    def starts(self, index: np.ndarray) -> np.ndarray:
        """The first token of the window of each sample."""
        flat = index.reshape(-1)
        starts = np.empty(flat.shape, np.int64)
        for left, here, positions, epoch in self._places(flat):
            assert not isinstance(left, RowsLeft)
            starts[here] = left.starts(positions, epoch)
        return starts.reshape(index.shape)

    def locate(self, index: np.ndarray) -> RowPieces:
        """The pieces in the row of each sample of a 1-D array, without those that are banned."""
        parts, places = [], []
        for left, here, positions, epoch in self._places(index):
            assert isinstance(left, RowsLeft)
            parts.append(left.locate(positions, epoch))
            places.append(here)
        if not parts:
            return cast("RowOrder", self.order).locate(index)
        return parts[0] if len(parts) == 1 else join_rows(parts, cast("list[np.ndarray]", places))

    def banned_parts(
        self, index: np.ndarray, starts: np.ndarray, lengths: np.ndarray | int
    ) -> Parts:
        """The banned tokens among start .. start+length-1 in the rows of these samples; 1-D."""
        lengths = np.broadcast_to(lengths, starts.shape)
        found = [(np.empty(0, np.int64),) * 3]
        for number, here in self._by_segment(index):
            banned = self._left(number).banned
            near = np.flatnonzero(banned.near(starts[here], self.order.block_size + 1))
            rows = near if isinstance(here, slice) else here[near]
            which, lows, highs = banned.inside(starts[rows], starts[rows] + lengths[rows])
            found.append((rows[which], lows, highs))
        return row_by_row(found)

    def samples_targeting(self, *where: Any) -> np.ndarray:
        """The samples of an epoch with a target among some tokens that is not banned, ascending.

        `where` is what `samples_targeting` of the order takes; its last part is the epoch.
        """
        epoch = where[-1]
        found = [np.empty(0, np.int64)]
        for number, low, high in self._segments_in(epoch):
            positions = self._left(number).targeting(*where)
            kept = self._kept(number, epoch)
            inside = (positions >= low) & (positions < high) & kept.has(positions)
            found.append(self._origin(number, epoch) + kept.number_of(positions[inside]))
        return np.sort(np.concatenate(found))

    # From an index to its place

    def _by_segment(self, index: np.ndarray) -> Iterator[tuple[int, Here]]:
        """Each segment that has some of these indices, and which ones."""
        return _groups(index, lambda some: np.searchsorted(self._firsts, some, side="right") - 1)

    def _places(self, index: np.ndarray) -> Iterator[tuple[Left, Here, np.ndarray, int]]:
        """For each segment and epoch: what is left in it, which of the indices, and positions."""
        for number, mine in self._by_segment(index):
            for epoch, within in _groups(index[mine], partial(self._epochs_in, number)):
                here = within if isinstance(mine, slice) else mine[within]
                nth = index[here] - self._origin(number, epoch)
                yield self._left(number), here, self._kept(number, epoch).nth(nth), epoch

    def _epochs_in(self, number: int, index: np.ndarray) -> np.ndarray:
        """The epoch of each index of a segment."""
        first, left = self._segments[number].epoch, self._left(number)
        if left.is_steady:
            count, origin = left.num_kept(first), self._origin(number, first)
            epochs: np.ndarray = first + (index - origin) // count
            return epochs
        origins, last = self._some_origins(number), int(index.max())
        while (missing := last - origins[-1]) >= 0:
            more = missing // left.order.samples_per_epoch + 1  # at least so many epochs
            origins = self._some_origins(number, len(origins) + more)
        return first + np.searchsorted(origins, index, side="right") - 1

    def _origin(self, number: int, epoch: int) -> int:
        """The index of the first sample of an epoch, had the segment begun with this epoch."""
        segment, left = self._segments[number], self._left(number)
        passed = epoch - segment.epoch
        if left.is_steady:
            count = left.num_kept(epoch) if passed else 0
            return self._some_origins(number)[0] + passed * count
        return self._some_origins(number, passed + 1)[passed]

    def _some_origins(self, number: int, count: int = 1) -> list[int]:
        """The origins of at least so many epochs of a segment, from its first one on."""
        segment, left = self._segments[number], self._left(number)
        origins = list(self._origins.get(number, ()))
        if not origins:
            before = 0
            if segment.position:
                kept = self._kept(number, segment.epoch)
                before = int(kept.number_of(np.array(segment.position)))
            origins = [segment.index - before]
        if len(origins) < count:
            epochs = range(segment.epoch + len(origins) - 1, segment.epoch + count - 1)
            sizes = [left.num_kept(epoch) for epoch in epochs]
            origins += (origins[-1] + np.cumsum(sizes)).tolist()
        self._origins[number] = origins  # replaced whole: a thread may ask at the same time
        return origins

    def _segments_in(self, epoch: int) -> Iterator[tuple[int, int, int]]:
        """Each segment that has positions of an epoch, the first of them and the one after."""
        for number, segment in enumerate(self._segments):
            low, high = segment.position if segment.epoch == epoch else 0, 1 << 62
            if number + 1 < len(self._segments):
                following = self._segments[number + 1]
                if following.epoch <= epoch:
                    high = following.position if following.epoch == epoch else 0
            if segment.epoch <= epoch and low < high:
                yield number, low, high

    # Tables of the segments and epochs asked for last

    def _left(self, number: int) -> Left:
        found = self._lefts.get(number)
        if found is None:
            segment = self._segments[number]
            banned = BannedTokens.of_all(self._bans[: segment.num_bans])
            found = _left_of(segment.order, banned)
            self._lefts = _with_latest(self._lefts, number, found)
        return found

    def _kept(self, number: int, epoch: int) -> KeptPositions:
        found = self._kepts.get((number, epoch))
        if found is None:
            found = self._left(number).kept(epoch)
            self._kepts = _with_latest(self._kepts, (number, epoch), found)
        return found

    # The segments

    def _begin_segment(self, index: int, change: BannedTokens | Order) -> None:
        self._segments = self._settled
        number = len(self._segments) - 1
        last = self._segments[number]
        assert index >= last.index
        epoch = int(self._epochs_in(number, np.array([index]))[0])
        nth, position = index - self._origin(number, epoch), 0
        if index == last.index and epoch == last.epoch:
            position = last.position
        elif nth:
            position = int(self._kept(number, epoch).nth(np.array(nth)))
        if isinstance(change, BannedTokens):
            self._bans.append(change)
            self._segments.append(Segment(index, epoch, position, last.order, len(self._bans)))
        else:
            self._grown = epoch + (position > 0), change

    def _end_segments(self) -> None:
        """Put the segment of the grown data after the others; refuse if nothing is left."""
        self._segments = [*self._settled]
        if self._grown is not None:
            epoch, order = self._grown
            first = self.first_of_epoch(epoch)
            self._segments.append(Segment(first, epoch, 0, order, len(self._bans)))
        self._firsts = np.array([segment.index for segment in self._segments], np.int64)
        if self._left(len(self._segments) - 1).is_empty:
            raise ValueError("the ban leaves nothing of the source to be trained on")


def plain_order(source: Order | EditedSource) -> Order:
    """The order of a source without its bans."""
    return source.order if isinstance(source, EditedSource) else source


def _groups(
    index: np.ndarray, key: Callable[[np.ndarray], np.ndarray]
) -> Iterator[tuple[int, Here]]:
    """The indices by a key that rises with them: each key, and which of them have it."""
    if not index.size:
        return iter(())
    first, last = key(np.array([index.min(), index.max()])).tolist()
    if first == last:  # the usual case, at no cost
        return iter([(first, slice(None))])
    return groups_of(key(index))


def _left_of(order: Order, banned: BannedTokens) -> Left:
    if isinstance(order, RowOrder):
        return RowsLeft(order, banned)
    return (DrawsLeft if order.arrangement is None else WindowsLeft)(order, banned)


def _with_latest(table: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """The few latest entries; a new table, since a thread may look at the old one."""
    return dict([*table.items(), (key, value)][-_AT_A_TIME:])
