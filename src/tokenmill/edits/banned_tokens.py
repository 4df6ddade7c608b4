"""Tokens that are not to be trained on: ranges of the axis of one source, ascending, with gaps.

A ban of documents becomes the ranges of their tokens; neighbours become one range. All questions
are answered for many ranges at once, by binary search; a table of flags for the regions of the axis
answers most of them before (`near`), so that rows far from any ban cost one look.
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.edits.long_table import LongTable
from tokenmill.order.row_order import runs

_REGIONS_PER_RANGE, _LEAST_REGIONS = 32, 1 << 16  # so that few rows have to be searched for

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Parts of some ranges: the number of the range, the first token and the one after the last."""


def row_by_row(parts: Sequence[Parts]) -> Parts:
    """Several tables as one, in the order of the numbers."""
    which, lows, highs = (np.concatenate(table) for table in zip(*parts, strict=True))
    order = np.argsort(which, kind="stable")
    return which[order], lows[order], highs[order]


class TokenRanges:
    """Ranges of tokens, ascending, with a gap between neighbours."""

    def __init__(self, starts: np.ndarray, stops: np.ndarray) -> None:
        """From ranges in any order, which may overlap."""
        some = np.flatnonzero(starts < stops)
        order = some[np.argsort(starts[some], kind="stable")]
        firsts = starts[order].astype(np.int64)
        ends = np.maximum.accumulate(stops[order].astype(np.int64))
        begins = np.ones(len(firsts) + 1, bool)  # whether a range begins here; then the end
        np.greater(firsts[1:], ends[:-1], out=begins[1:-1])
        self.starts: np.ndarray = firsts[begins[:-1]]
        self.stops: np.ndarray = ends[begins[1:]]
        self._starts, self._stops = LongTable(self.starts), LongTable(self.stops)
        self._near: dict[int, tuple[int, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def longest(self) -> int:
        return int((self.stops - self.starts).max(initial=0))

    def hold(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Whether all tokens start .. stop-1, one at least, are in a range."""
        last = self._starts.searchsorted(starts, "right") - 1
        held: np.ndarray = np.append(self.stops, -1)[last] >= stops
        return held

    def touch(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Whether a token of start .. stop-1 is in a range."""
        _, counts = self._between(starts, stops)
        touched: np.ndarray = counts > 0
        return touched

    def near(self, starts: np.ndarray, length: int) -> np.ndarray:
        """False where no token of start .. start+length-1 is in a range; True where one may be."""
        if length not in self._near:
            self._near[length] = self._regions(length)
        shift, flags = self._near[length]
        near: np.ndarray = flags.take(starts >> shift, mode="clip")
        return near

    def inside(self, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """The parts of start .. stop-1 that are in a range."""
        which, number = runs(*self._between(starts, stops))
        return (
            which,
            np.maximum(self.starts[number], starts[which]),
            np.minimum(self.stops[number], stops[which]),
        )

    def outside(self, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """The parts of start .. stop-1 that are in no range."""
        most = np.iinfo(np.int64).max
        gaps = TokenRanges(np.append(0, self.stops), np.append(self.starts, most))
        return gaps.inside(starts, stops)

    def _between(self, starts: np.ndarray, stops: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The first range with a token of start .. stop-1, and how many there are."""
        first = self._stops.searchsorted(starts, "right")
        after = self._starts.searchsorted(stops, "left")
        return first, np.where(starts < stops, np.maximum(after - first, 0), 0)

    def _regions(self, length: int) -> tuple[int, np.ndarray]:
        """Regions of 2^shift tokens: whether a row that begins there may have one of a range."""
        end = int(self.stops[-1]) if len(self) else 0
        num_regions = max(_LEAST_REGIONS, _REGIONS_PER_RANGE * len(self))
        shift = max(length // 2, end // num_regions).bit_length()
        flags = np.zeros((end >> shift) + 2, bool)  # the last one is for all after it
        first = np.maximum(self.starts - length + 1, 0) >> shift
        flags[runs(first, ((self.stops - 1) >> shift) - first + 1)[1]] = True
        return shift, flags


class BannedTokens(TokenRanges):
    """Banned tokens; for rows of documents also the documents that have some of them."""

    def __init__(
        self,
        starts: np.ndarray,
        stops: np.ndarray,
        documents: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> None:
        """`documents`: the first token of each, and its length."""
        super().__init__(starts, stops)
        empty = np.empty(0, np.int64)
        self.documents = documents or (empty, empty)

    @classmethod
    def of_all(cls, bans: Sequence["BannedTokens"]) -> "BannedTokens":
        """Several bans as one."""
        if not bans:
            return NO_TOKENS
        if len(bans) == 1:
            return bans[0]
        starts, stops = (
            np.concatenate([getattr(ban, name) for ban in bans]) for name in ("starts", "stops")
        )
        tables = zip(*(ban.documents for ban in bans), strict=True)
        firsts, lengths = (np.concatenate(table) for table in tables)
        firsts, which = np.unique(firsts, return_index=True)
        return cls(starts, stops, (firsts, lengths[which]))


NO_TOKENS = BannedTokens(np.empty(0, np.int64), np.empty(0, np.int64))
