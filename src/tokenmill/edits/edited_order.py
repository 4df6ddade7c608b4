"""The order of an edited run: another order with skips, an end, and bans.

A skip is a jump of the sample numbers. A ban changes no row; it is here so that `samples_targeting`
names only samples that train on what was asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tokenmill.edits.skips import Skips
from tokenmill.edits.source_bans import SourceBans
from tokenmill.order.order import Order, SourceOrder
from tokenmill.order.spans import Spans


class EditedOrder(Order):
    """An order after edits. A place is a sample number of the order before its skips."""

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
        return None if self.end is None else int(self.skips.count_before(np.array([self.end]))[0])

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
        skips = zip(self.skips.samples, self.skips.ranges(), strict=True)
        skipped = [place for at, places in skips if at <= sample for place in places]
        edges = [0, *skipped, self.skips.place(sample)]
        by_source = zip(*(self._order.counts_before(place) for place in edges), strict=True)
        return [list(zip(counts[::2], counts[1::2], strict=True)) for counts in by_source]

    def samples_targeting(
        self, source: int, start: int, stop: int, epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """As for any order; samples in which all of these targets are banned are left out."""
        pairs = []
        for epoch in epochs:
            samples = self.samples_of(source, self.sources[source].targeting(start, stop, epoch))
            samples = samples[samples >= 0]
            if source in self.bans:
                left = self.bans[source].leave(self.rows(samples), samples, start, stop)
                samples = samples[left]
            pairs += [(epoch, sample) for sample in samples.tolist()]
        return pairs

    def samples_in_epochs(self, source: int, epochs: int) -> int | None:
        last = self.sources[source].first_of_epoch(epochs) - 1
        if last < 0:
            return 0
        place = int(self._places_of(source, np.array([last]))[0])
        return None if place < 0 else int(self.skips.count_before(np.array([place + 1]))[0])


def skips_of(order: Order) -> Skips:
    """The skips of an order; of one without edits, none."""
    return order.skips if isinstance(order, EditedOrder) else Skips()


def bans_of(order: Order, source: int) -> SourceBans:
    """The bans of a source, by the numbers of samples within the source from which they hold."""
    if not isinstance(order, EditedOrder) or source not in order.bans:
        return SourceBans()
    bans = order.bans[source]
    return replace(bans, firsts=tuple(order.counts_before(at)[source] for at in bans.firsts))


def is_over(order: Order, sample: int) -> bool:
    """Return True if the order has ended before this sample."""
    if not isinstance(order, EditedOrder) or order.end is None:
        return False
    return order.skips.place(sample) > order.end
