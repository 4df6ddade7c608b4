"""Arrays used again once nobody holds them: the memory of a batch is already there for a later one.

A batch of 64 rows of 1024 is half a megabyte. Given back and asked for again, the kernel hands it
out page by page, zeroed, which takes as long as filling it. An array is only used again when the
one reference to it is ours: a view, a tensor over it, or an exported buffer keeps it from that.
"""

import sys
from typing import Any

import numpy as np

KEPT = 8
_OURS_ALONE = 3  # the list, the name in the loop, and the argument of getrefcount


class Spares:
    """Arrays of one shape and type."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array with anything in it, that nobody else has."""
        for array in self._arrays:
            if sys.getrefcount(array) == _OURS_ALONE and array.shape == shape:
                return array
        array = np.empty(shape, dtype)
        if len(self._arrays) == KEPT:
            self._arrays.pop(0)
        self._arrays.append(array)
        return array

    def __getstate__(self) -> dict[str, Any]:
        return {"_arrays": []}
