"""Durations counted in buckets, eight to a power of two, in an array that never grows.

A quantile is the upper edge of its bucket, at most a tenth too large from 0.1 us on.
"""

from array import array
from math import log2

import numpy as np


class Histogram:
    """How many durations there were of which length, in seconds."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._largest = 0.0
        self._counts = array("Q", bytes(8 * 512))  # from 2^-50 to 2^14 seconds

    def add(self, seconds: float) -> None:
        """Count one duration, in 0.3 us."""
        self._counts[int(8 * log2(seconds + 1e-9) + 400) if seconds < 16e3 else 511] += 1
        self._seconds += seconds
        if seconds > self._largest:
            self._largest = seconds

    def summary(self) -> dict[str, float]:
        """Return count, sum, quantiles and maximum."""
        sums = np.cumsum(self._counts)
        count = int(sums[-1])
        ranks = np.searchsorted(sums, np.array([0.5, 0.95, 0.99]) * count)
        p50, p95, p99 = np.minimum(2.0 ** ((ranks - 399) / 8), self._largest).tolist()
        found = {"count": count, "seconds": self._seconds, "p50": p50, "p95": p95, "p99": p99}
        return {**found, "max": self._largest}
