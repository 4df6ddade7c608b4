"""Groups of equal numbers in an array."""

from collections.abc import Iterator

import numpy as np


def groups_of(keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each key of a 1-D array, in ascending order, and the positions it is at."""
    order = np.argsort(keys, kind="stable")
    values, firsts = np.unique(keys[order], return_index=True)
    return zip(values.tolist(), np.split(order, firsts[1:]), strict=False)
