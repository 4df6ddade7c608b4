"""The positions of an epoch that are served, where some are passed over; and back.

Only the fewer of the two are listed: those that are passed over, or those that are kept.
"""

import functools
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class KeptPositions:
    """Some of the positions 0 .. count-1."""

    count: int
    listed: np.ndarray
    """Positions, ascending."""
    lists_kept: bool = False
    """Whether these are the ones that are kept, and not those that are passed over."""

    def nth(self, number: np.ndarray) -> np.ndarray:
        """The position that is kept as the n-th, from 0.

        >>> KeptPositions(6, np.array([0, 3])).nth(np.arange(4)).tolist()
        [1, 2, 4, 5]
        """
        if self.lists_kept:
            kept: np.ndarray = self.listed[number]
            return kept
        if not number.size:
            return number
        # Numbers are mostly neighbours: few of those passed over are between them.
        ends = np.array([number.min(), number.max()])
        low, high = np.searchsorted(self._kept_before, ends, side="right").tolist()
        positions: np.ndarray = number + low
        if low == high:
            return positions
        between = self._kept_before[low:high]
        if number.ndim == 1 and (number[1:] >= number[:-1]).all():  # found the other way round
            edges = np.searchsorted(number, between, side="left")
            counts = np.diff(edges, prepend=0, append=len(number))
            return positions + np.arange(len(counts)).repeat(counts)
        return positions + np.searchsorted(between, number, side="right")

    def number_of(self, position: np.ndarray) -> np.ndarray:
        """How many positions before each are kept: the inverse of `nth` for one that is kept."""
        listed = np.searchsorted(self.listed, position, side="left")
        return listed if self.lists_kept else position - listed

    def has(self, position: np.ndarray) -> np.ndarray:
        """Whether a position is kept."""
        at = np.searchsorted(self.listed, position, side="left")
        is_listed: np.ndarray = np.append(self.listed, -1)[at] == position
        return is_listed if self.lists_kept else ~is_listed

    @functools.cached_property
    def _kept_before(self) -> np.ndarray:
        """How many are kept before each that is passed over."""
        before: np.ndarray = self.listed - np.arange(len(self.listed))
        return before
