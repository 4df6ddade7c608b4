"""What a ban leaves of windows: those with nothing but banned targets are passed over.

The other windows keep their order, so an epoch gets shorter by those that are passed over. `random`
has no epochs to shorten: there a draw that would have nothing but banned targets is drawn again,
from the starts that are left, and all other draws stay as they are.
"""

import functools
from dataclasses import dataclass

import numpy as np

from tokenmill.edits.banned_tokens import BannedTokens, TokenRanges
from tokenmill.edits.kept_positions import KeptPositions
from tokenmill.order.row_order import runs
from tokenmill.order.simple_orders import draw
from tokenmill.order.source_order import DRAWS_AT_ONCE, SourceOrder


@dataclass(frozen=True, eq=False)
class WindowsLeft:
    """The windows of one source that have a target which is not banned."""

    order: SourceOrder
    banned: BannedTokens

    @functools.cached_property
    def is_steady(self) -> bool:
        """Whether every epoch has the same number."""
        windows = self.order.windows
        return not windows.phase or self.banned.longest < windows.block_size

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left in any epoch."""
        if self.is_steady:
            return not self.num_kept(0)
        targets = np.array([1]), np.array([self.order.windows.num_tokens])
        return bool(self.banned.hold(*targets)[0])

    def num_kept(self, epoch: int) -> int:
        return self._num_kept if self.is_steady else self._count(epoch)

    @functools.cached_property
    def _num_kept(self) -> int:
        """In every epoch, if that is steady."""
        return self._count(0)

    def _count(self, epoch: int) -> int:
        first, stop = self._passed_over(epoch)
        return self.order.samples_per_epoch - int((stop - first).sum())

    def kept(self, epoch: int) -> KeptPositions:
        """The positions of the windows that are left."""
        first, stop = self._passed_over(epoch)
        count = self.order.samples_per_epoch
        lists_kept = 2 * int((stop - first).sum()) > count
        if lists_kept:
            first, stop = np.append(0, stop), np.append(first, count)
        windows = runs(first, stop - first)[1]
        return KeptPositions(count, np.sort(self._positions_of(windows, epoch)), lists_kept)

    def starts(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        """The first token of the window at each position."""
        return self.order.starts_in(positions, epoch)

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """The positions with a target among the tokens start .. stop-1 that are not banned."""
        windows = self.order.windows
        lows, highs = np.array([max(start, 1)]), np.array([min(stop, windows.num_tokens)])
        _, lows, highs = self.banned.outside(lows, highs)
        offset, size = windows.offset(epoch), windows.block_size
        first = np.maximum((lows - 1 - offset) // size, 0)
        last = np.minimum((highs - 2 - offset) // size, windows.count - 1)
        found = np.unique(runs(first, np.maximum(last - first + 1, 0))[1])
        return self._positions_of(found, epoch)

    def _positions_of(self, windows: np.ndarray, epoch: int) -> np.ndarray:
        arrangement, axis = self.order.arrangement, self.order.windows
        assert arrangement is not None
        return arrangement.position_of(windows, axis.count, axis.seed, epoch)

    def _passed_over(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """Runs of windows all of whose targets are banned: the first, and the one after."""
        windows, banned = self.order.windows, self.banned
        # Window k targets kT + 1 .. kT + T, counted from the offset.
        size, offset = windows.block_size, windows.offset(epoch)
        first = np.maximum(-((offset + 1 - banned.starts) // size), 0)
        stop = np.minimum((banned.stops - 1 - offset) // size, windows.count)
        some = first < stop
        return first[some], stop[some]


@dataclass(frozen=True, eq=False)
class DrawsLeft:
    """The draws of `random`, from starts that have a target which is not banned."""

    order: SourceOrder
    banned: BannedTokens
    is_steady = True

    @property
    def is_empty(self) -> bool:
        return not self._num_left

    def num_kept(self, epoch: int) -> int:
        return self.order.samples_per_epoch

    def kept(self, epoch: int) -> KeptPositions:
        return KeptPositions(self.order.samples_per_epoch, np.empty(0, np.int64))

    def starts(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        samples = epoch * self.order.samples_per_epoch + positions
        starts = self.order.starts(samples)
        size = self.order.windows.block_size
        again = np.flatnonzero(self.banned.near(starts, size + 1))
        targets = starts[again] + 1
        again = again[self.banned.hold(targets, targets + size)]
        starts[again] = self._draw_again(samples[again])
        return starts

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        _, lows, highs = self.banned.outside(np.array([start]), np.array([stop]))
        wanted, size = TokenRanges(lows, highs), self.order.windows.block_size
        hits = [np.empty(0, np.int64)]
        for at in range(0, self.order.samples_per_epoch, DRAWS_AT_ONCE):
            end = min(at + DRAWS_AT_ONCE, self.order.samples_per_epoch)
            positions = np.arange(at, end, dtype=np.int64)
            targets = self.starts(positions, epoch) + 1
            hits.append(positions[wanted.touch(targets, targets + size)])
        return np.concatenate(hits)

    def _draw_again(self, samples: np.ndarray) -> np.ndarray:
        starts, stops = self._starts_out
        number = draw(samples, self._num_left, seed=self.order.windows.seed, again=True)
        out_before = np.append(0, np.cumsum(stops - starts))
        left_before = starts - out_before[:-1]
        nth: np.ndarray = number + out_before[np.searchsorted(left_before, number, side="right")]
        return nth

    @functools.cached_property
    def _num_left(self) -> int:
        """Starts that may be drawn."""
        windows, (starts, stops) = self.order.windows, self._starts_out
        return windows.num_tokens - windows.block_size - int((stops - starts).sum())

    @functools.cached_property
    def _starts_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Ranges of starts all of whose targets are banned."""
        windows, banned = self.order.windows, self.banned
        size = windows.block_size
        starts = np.maximum(banned.starts - 1, 0)
        stops = np.minimum(banned.stops, windows.num_tokens) - size
        some = starts < stops
        return starts[some], stops[some]
