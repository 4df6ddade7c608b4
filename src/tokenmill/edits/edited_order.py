"""The order of an edited run: another order with skips, an end, and bans.

A place is a sample number of the order before its skips. Without skips sample s is at place s; a
skip at sample s of n places means that sample s and all after it are n places further on: what was
at the n places is never served. A ban changes no row; it is here so that `samples_targeting` names
only samples that train on what was asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tokenmill.edits.bans import SourceBans
from tokenmill.order.order import Order, SourceOrder
from tokenmill.order.spans import Spans


class Skips:
    """Some skips, in the order of the samples at which they are."""

    def __init__(self, skips: Sequence[tuple[int, int]] = ()) -> None:
        """`skips`: the sample that is served instead of the first skipped one, and the length."""
        table = np.array(skips, np.int64).reshape(-1, 2)
        self.samples, self._lengths = table.T
        self._before = np.append(0, np.cumsum(self._lengths))  # places skipped before each
        self.starts = self.samples + self._before[:-1]
        """(skips,): the first place that each skips."""
        self.stops = self.starts + self._lengths

    def places(self, samples: np.ndarray) -> np.ndarray:
        """The place in the order of each sample.

        >>> Skips([(2, 10)]).places(np.arange(4)).tolist()
        [0, 1, 12, 13]
        """
        places: np.ndarray = samples + self._before[self.samples.searchsorted(samples, "right")]
        return places

    def place(self, sample: int) -> int:
        return int(self.places(np.array([sample]))[0])

    def samples_at(self, places: np.ndarray) -> np.ndarray:
        """The sample at each place of the order, or -1 where it is skipped; inverts `places`.

        >>> Skips([(2, 10)]).samples_at(np.array([0, 1, 2, 11, 12])).tolist()
        [0, 1, -1, -1, 2]
        """
        samples = self.count_before(places)
        return np.where(self.places(samples) == places, samples, -1)

    def count_before(self, places: np.ndarray) -> np.ndarray:
        """Count the samples that are served from the places before each of these."""
        number = self.starts.searchsorted(places, "right")  # skips that begin at or before it
        after_last = np.append(0, self.stops)[number]
        # A place inside a skip counts as its end does.
        count: np.ndarray = np.maximum(places, after_last) - self._before[number]
        return count

    def sample(self, place: int) -> int:
        """Count the samples that are served from the places before this one."""
        return int(self.count_before(np.array([place]))[0])


class EditedOrder(Order):
    """An order after edits."""

    def __init__(
        self, order: Order, skips: Skips, end: int | None, bans: Mapping[int, SourceBans]
    ) -> None:
        self._order = order
        self.block_size = order.block_size
        self.spans_per_row = order.spans_per_row
        self.skips = skips
        self.end = end
        """The place where the order ends; None: it does not."""
        self.bans = bans
        """The bans of each source that has some."""

    @property
    def sources(self) -> Sequence[SourceOrder]:
        return self._order.sources

    @property
    def num_samples(self) -> int | None:
        return None if self.end is None else self.skips.sample(self.end)

    def is_over(self, sample: int) -> bool:
        """Return True if the order has ended before this sample."""
        return self.end is not None and self.skips.place(sample) > self.end

    def rows(self, samples: np.ndarray) -> Spans:
        return self._order.rows(self.skips.places(samples))

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._order.deal(self.skips.places(samples))

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        places = self._places_of(source, index)
        return np.where(places < 0, -1, self.skips.samples_at(places))

    def _places_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The place of each number of a source, -1 if it is after the end."""
        places = self._order.samples_of(source, index)
        return places if self.end is None else np.where(places < self.end, places, -1)

    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source come before this one, served or skipped."""
        return self._order.counts_before(self.skips.place(sample))

    def served_ranges(self, sample: int) -> list[list[tuple[int, int]]]:
        made = self.skips.samples <= sample
        skipped = np.stack([self.skips.starts[made], self.skips.stops[made]], axis=1)
        edges = [0, *skipped.reshape(-1).tolist(), self.skips.place(sample)]
        by_source = zip(*map(self._order.counts_before, edges), strict=True)
        return [list(zip(counts[::2], counts[1::2], strict=True)) for counts in by_source]

    def samples_targeting(
        self, source: int, start: int, stop: int, epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """As for any order; samples in which all of these targets are banned are left out."""
        pairs = super().samples_targeting(source, start, stop, epochs)
        if source not in self.bans:
            return pairs
        samples = np.array([sample for _, sample in pairs], np.int64)
        spans = self.rows(samples)
        first, end = spans.targets
        lows = np.maximum(first, start)
        highs = np.maximum(np.minimum(end, stop), lows)
        which, *banned = self.bans[source].inside(samples[spans.row], lows, highs)
        left = np.bincount(spans.row, highs - lows, len(pairs))
        left -= np.bincount(spans.row[which], banned[1] - banned[0], len(pairs))
        return [pair for pair, count in zip(pairs, left.tolist(), strict=True) if count]

    def samples_in_epochs(self, source: int, epochs: int) -> int | None:
        last = self.sources[source].first_of_epoch(epochs) - 1
        if last < 0:
            return 0
        place = int(self._places_of(source, np.array([last]))[0])
        return None if place < 0 else self.skips.sample(place + 1)

    def bans_of(self, source: int) -> SourceBans:
        """The bans of a source, by numbers within the source."""
        bans = self.bans.get(source, SourceBans())
        firsts = (self.counts_before(first)[source] for first in bans.firsts)
        return replace(bans, firsts=tuple(firsts))
