"""Samples that were skipped: sample number -> place in the order, and back.

Without skips sample s is at place s of the order. A skip at sample s of n places means that sample
s and all after it are n places further on: what was at the n places is never served.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Skips:
    """Some skips, in the order of the samples at which they are."""

    samples: tuple[int, ...] = ()
    """The sample that is now served instead of the first one that was skipped."""
    lengths: tuple[int, ...] = ()
    """Places that each skips."""

    def and_at(self, sample: int, length: int) -> "Skips":
        """One more, at or after all the others.

        >>> Skips().and_at(2, 10).places(np.arange(4)).tolist()
        [0, 1, 12, 13]
        """
        assert not self.samples or sample >= self.samples[-1]
        return Skips((*self.samples, sample), (*self.lengths, length))

    @property
    def starts(self) -> np.ndarray:
        """(skips,): the first place that each skips."""
        lengths = np.array(self.lengths, np.int64)
        starts: np.ndarray = np.array(self.samples, np.int64) + np.cumsum(lengths) - lengths
        return starts

    def places(self, samples: np.ndarray) -> np.ndarray:
        """The place in the order of each sample."""
        before = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        places: np.ndarray = samples + before[np.searchsorted(self.samples, samples, side="right")]
        return places

    def place(self, sample: int) -> int:
        return int(self.places(np.array([sample]))[0])

    def samples_at(self, places: np.ndarray) -> np.ndarray:
        """The sample at each place of the order, or -1 where it is skipped; inverts `places`.

        >>> Skips().and_at(2, 10).samples_at(np.array([0, 1, 2, 11, 12])).tolist()
        [0, 1, -1, -1, 2]
        """
        samples = self.count_before(places)
        return np.where(self.places(samples) == places, samples, -1)

    def count_before(self, places: np.ndarray) -> np.ndarray:
        """Count the samples that are served from the places before each of these; 1-D."""
        lengths = np.array(self.lengths, np.int64)
        skipped = np.clip(places[:, None] - self.starts, 0, lengths)  # (places, skips)
        count: np.ndarray = places - skipped.sum(axis=1)
        return count

    def ranges(self) -> list[tuple[int, int]]:
        """The places that are skipped, as (first, stop)."""
        return [(s, s + n) for s, n in zip(self.starts.tolist(), self.lengths, strict=True)]
