"""Ranges of tokens on the axis of one source: the tokens that are banned.

Questions are answered for many rows at once, by binary search. A table of flags, one for each
region of the axis, answers most of them first (`near`): rows far from any range cost one look-up.
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.order.spans import runs

_REGIONS_PER_RANGE = 32  # so that few rows have to be searched for
_LEAST_REGIONS = 1 << 16

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Parts of some rows, (parts,) each: number of the row, first token, token after the last."""


def row_by_row(parts: Sequence[Parts]) -> Parts:
    """Join several tables into one, in the order of the rows."""
    which, lows, highs = (np.concatenate(table) for table in zip(*parts, strict=True))
    order = np.argsort(which, kind="stable")
    return which[order], lows[order], highs[order]


class TokenRanges:
    """Ranges of tokens, ascending, with a gap between neighbours."""

    def __init__(self, starts: np.ndarray, stops: np.ndarray) -> None:
        """Take ranges in any order, which may overlap."""
        some = np.flatnonzero(starts < stops)
        order = some[np.argsort(starts[some], kind="stable")]
        firsts = starts[order].astype(np.int64)
        ends = np.maximum.accumulate(stops[order].astype(np.int64))
        begins = np.ones(len(firsts) + 1, bool)  # True where a range begins; then the end
        np.greater(firsts[1:], ends[:-1], out=begins[1:-1])
        self.starts: np.ndarray = firsts[begins[:-1]]
        self.stops: np.ndarray = ends[begins[1:]]
        self._near: dict[int, tuple[int, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def count(self) -> int:
        """Tokens in all ranges."""
        return int((self.stops - self.starts).sum())

    def hold(self, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
        """Return True where all tokens start .. stop-1 are in a range; one token at least."""
        last = np.searchsorted(self.starts, starts, side="right") - 1
        held: np.ndarray = np.append(self.stops, -1)[last] >= stops
        return held

    def near(self, starts: np.ndarray, length: int) -> np.ndarray:
        """Return False only where no token of start .. start+length-1 is in a range."""
        if length not in self._near:
            self._near[length] = self._regions(length)
        shift, flags = self._near[length]
        near: np.ndarray = flags.take(starts >> shift, mode="clip")
        return near

    def inside(self, starts: np.ndarray, stops: np.ndarray) -> Parts:
        """Return the parts of start .. stop-1 that are in a range."""
        first = np.searchsorted(self.stops, starts, side="right")
        after = np.searchsorted(self.starts, stops, side="left")
        counts = np.where(starts < stops, np.maximum(after - first, 0), 0)
        which, number = runs(first, counts)
        return (
            which,
            np.maximum(self.starts[number], starts[which]),
            np.minimum(self.stops[number], stops[which]),
        )

    def _regions(self, length: int) -> tuple[int, np.ndarray]:
        """Flags of regions of 2^shift tokens: True if a row that begins there may reach a range."""
        end = int(self.stops[-1]) if len(self) else 0
        num_regions = max(_LEAST_REGIONS, _REGIONS_PER_RANGE * len(self))
        shift = max(length // 2, end // num_regions).bit_length()
        flags = np.zeros((end >> shift) + 2, bool)  # the last one is for all after it
        first = np.maximum(self.starts - length + 1, 0) >> shift
        flags[runs(first, ((self.stops - 1) >> shift) - first + 1)[1]] = True
        return shift, flags


NO_TOKENS = TokenRanges(np.empty(0, np.int64), np.empty(0, np.int64))
