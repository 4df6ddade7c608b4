"""Binary search in a long table, for numbers in no order.

Each step of a plain binary search in a table of a million numbers is a miss of the cache: 1.5 us a
search. Here a second table says where each of some equal regions begins in the first one, and from
there it is a step or two: about a tenth of that.
"""

import functools

import numpy as np

_SHORT = 1 << 12  # as many are found at once in any case
_REGIONS_PER_NUMBER = 4
_STEPS = 8


class LongTable:
    """Numbers, ascending, all 0 or more."""

    def __init__(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def searchsorted(self, wanted: np.ndarray, side: str) -> np.ndarray:
        """What `np.searchsorted` gives; `wanted` is 1-D, with numbers of 0 or more."""
        if len(self.numbers) <= _SHORT:
            return np.searchsorted(self.numbers, wanted, side=side)  # type: ignore[call-overload, no-any-return]
        shift, before = self._regions
        found = before.take(wanted >> shift, mode="clip").astype(np.int64)
        comes_before = np.less_equal if side == "right" else np.less
        left = np.arange(len(wanted))
        for _ in range(_STEPS):
            at = found[left]
            left = left[comes_before(self._padded[at], wanted[left])]
            if not len(left):
                return found
            found[left] += 1
        # Where many numbers are in one region.
        found[left] = np.searchsorted(self.numbers, wanted[left], side=side)  # type: ignore[call-overload]
        return found

    @functools.cached_property
    def _padded(self) -> np.ndarray:
        return np.append(self.numbers, np.iinfo(np.int64).max)

    @functools.cached_property
    def _regions(self) -> tuple[int, np.ndarray]:
        """Regions of 2^shift: how many numbers are before each."""
        end = int(self.numbers[-1])
        shift = (end // (_REGIONS_PER_NUMBER * len(self.numbers))).bit_length()
        firsts = np.arange((end >> shift) + 1) << shift
        return shift, np.searchsorted(self.numbers, firsts).astype(np.int32)
