"""Arrays used again once nobody holds them: the memory of a batch is already there for a later one.

A batch of 64 rows of 1024 is half a megabyte. Given back and asked for again, the kernel hands it
out page by page, zeroed, which takes as long as filling it. An array is only used again when the
one reference to it is ours: a view, a tensor over it, or an exported buffer keeps it from that.
"""

import sys
from typing import Any

import numpy as np

KEPT = 8


class Spares:
    """Arrays of one shape and type."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """An array with anything in it, that nobody else has."""
        spare = _held_by(self._arrays, _OURS_ALONE, shape)
        if spare is not None:
            return spare
        array = np.empty(shape, dtype)
        if len(self._arrays) == KEPT:
            self._arrays.pop(0)
        self._arrays.append(array)
        return array

    def __getstate__(self) -> dict[str, Any]:
        return {"_arrays": []}


def _held_by(
    arrays: list[np.ndarray], references: int, shape: tuple[int, ...]
) -> np.ndarray | None:
    """The first array of that shape with so many references, those of this loop among them.

    Two threads that look at one array both see one reference too many, and pass it by.
    """
    for array in arrays:
        if sys.getrefcount(array) == references and array.shape == shape:
            return array
    return None


# Versions of Python count the references of this loop differently.
_OURS_ALONE = next(n for n in range(1, 9) if _held_by([np.empty(0)], n, (0,)) is not None)
