"""A source whose data has grown: more tokens at its end, from one of its epochs on.

The epoch in which the data grew ends as it began; from the next one on the order is that of the
grown data.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.order.order import SourceOrder, TargetRanges
from tokenmill.order.spans import Spans, join_rows


class GrownSource(SourceOrder):
    """One order up to the end of an epoch, and another one, of more data, from there on."""

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
        """Samples of an epoch of the data as it is now."""
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
