"""The order of an edited run: another order with skips, an end, and bans; and of grown data.

A place is a sample number of the order before its skips: after a skip of n places all samples are n
places further on. A ban changes no row; it is here so that `samples_targeting` names only samples
that train on what was asked for.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tokenmill.edits.bans import NO_BANS, SourceBans
from tokenmill.order.order import Order, SourceOrder, TargetRanges
from tokenmill.order.spans import Spans, join_rows


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
        return self.end is not None and self.skips.place(sample) > self.end

    def rows(self, samples: np.ndarray) -> Spans:
        return self._order.rows(self.skips.places(samples))

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._order.deal(self.skips.places(samples))

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        places = self._order.samples_of(source, index)
        is_served = places >= 0
        if self.end is not None:
            is_served &= places < self.end
        return np.where(is_served, self.skips.samples_at(places), -1)

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
        place = self._order.samples_in_epochs(source, epochs)
        if place is None or (self.end is not None and place > self.end):
            return None
        return self.skips.sample(place)

    def bans_of(self, source: int) -> SourceBans:
        """The bans of a source, by numbers within the source."""
        bans = self.bans.get(source, NO_BANS)
        return bans.counted_by(lambda sample: self.counts_before(sample)[source])


class GrownSource(SourceOrder):
    """The order of a source whose data has grown: more tokens at its end.

    The epoch in which it grew ends as it began; from the next one on the order is another one.
    """

    def __init__(self, before: SourceOrder, index: int, after: SourceOrder) -> None:
        """`index` is the next sample of the source when its data had grown."""
        if isinstance(before, GrownSource) and index <= before.first:
            before = before.before  # no epoch of the data as it was then has begun
        self.before: SourceOrder = before
        self.after = after
        self.epoch = int(before.epoch_of(np.array(index)))
        """The first epoch of the grown data."""
        self.epoch += before.first_of_epoch(self.epoch) < index
        self.first: int = before.first_of_epoch(self.epoch)
        """Its first sample."""
        self._shift = after.first_of_epoch(self.epoch) - self.first  # to samples of `after`
        self.name = after.name
        self.locality = after.locality
        self.block_size = after.block_size
        self.spans_per_row = after.spans_per_row

    @property
    def samples_per_epoch(self) -> int:
        return self.after.samples_per_epoch

    def facts(self) -> dict[str, int]:
        return self.after.facts()

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        after = self.after.epoch_of(samples + self._shift)
        return np.where(samples < self.first, self.before.epoch_of(samples), after)

    def first_of_epoch(self, epoch: int) -> int:
        if epoch < self.epoch:
            return self.before.first_of_epoch(epoch)
        return self.after.first_of_epoch(epoch) - self._shift

    def epochs_until(self, index: int) -> float:
        if index < self.first:
            return self.before.epochs_until(index)
        return self.after.epochs_until(index + self._shift)

    def rows(self, samples: np.ndarray) -> Spans:
        is_before = samples < self.first
        numbers = [is_before.nonzero()[0], (~is_before).nonzero()[0]]
        parts = [
            self.before.rows(samples[is_before]),
            self.after.rows(samples[~is_before] + self._shift),
        ]
        return join_rows(parts, numbers, len(samples))

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        if epoch < self.epoch:
            return self.before.targeting(start, stop, epoch)
        samples: np.ndarray = self.after.targeting(start, stop, epoch) - self._shift
        return samples

    def target_ranges(self, first: int, stop: int) -> Iterator[TargetRanges]:
        yield from self.before.target_ranges(first, min(stop, self.first))
        low = max(first, self.first)
        yield from self.after.target_ranges(low + self._shift, max(stop, low) + self._shift)

    def possible_targets(self) -> Iterator[TargetRanges]:
        return self.after.possible_targets()
