"""A source whose data has grown: more tokens at its end, from one of its epochs on.

The epoch in which the data grew ends as it began; from the next one on the order is that of the
grown data. So the samples of the source are cut into stretches, each of whole epochs of one order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokenmill.base.groups import groups_of
from tokenmill.order.order import SourceOrder
from tokenmill.order.spans import Spans, join_rows


@dataclass(frozen=True)
class Stretch:
    """Samples of a source under one order, up to the next stretch; whole epochs."""

    first: int
    """The first sample."""
    epoch: int
    """The epoch of the first sample."""
    order: SourceOrder

    @property
    def shift(self) -> int:
        """Add it to a sample of the source: the sample of `order`."""
        return self.epoch * self.order.samples_per_epoch - self.first

    def first_of_epoch(self, epoch: int) -> int:
        return epoch * self.order.samples_per_epoch - self.shift

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        epochs: np.ndarray = (samples + self.shift) // self.order.samples_per_epoch
        return epochs


class GrownSource(SourceOrder):
    """The order of a source whose data has grown."""

    def __init__(self, stretches: tuple[Stretch, ...]) -> None:
        self.stretches = stretches
        self._firsts = np.array([stretch.first for stretch in stretches], np.int64)
        order = stretches[-1].order  # of the data as it is now
        self.name = order.name
        self.locality = order.locality
        self.block_size = order.block_size
        self.spans_per_row = order.spans_per_row
        self.order = order

    @classmethod
    def of(cls, source: SourceOrder, index: int, order: SourceOrder) -> "GrownSource":
        """Return the source whose data has grown before its sample `index`; its order is `order`.

        Data that grew before, but of which no epoch has begun, grew again.
        """
        begun = [stretch for stretch in stretches_of(source) if stretch.first <= index]
        epoch = -(-(index + begun[-1].shift) // begun[-1].order.samples_per_epoch)  # rounded up
        return cls((*begun, Stretch(begun[-1].first_of_epoch(epoch), epoch, order)))

    @property
    def samples_per_epoch(self) -> int:
        """Samples of an epoch of the data as it is now."""
        return self.order.samples_per_epoch

    def facts(self) -> dict[str, int]:
        return self.order.facts()

    def epoch_of(self, index: np.ndarray) -> np.ndarray:
        """The epoch of each sample."""
        flat = index.reshape(-1)
        epochs = np.empty(flat.shape, np.int64)
        for stretch, here in self._by_stretch(flat):
            epochs[here] = stretch.epoch_of(flat[here])
        return epochs.reshape(index.shape)

    def first_of_epoch(self, epoch: int) -> int:
        """The first sample of an epoch."""
        return self._stretch_of_epoch(epoch).first_of_epoch(epoch)

    def epochs_until(self, index: int) -> float:
        """How many epochs there are before a sample."""
        epoch = int(self.epoch_of(np.array(index)))
        first = self.first_of_epoch(epoch)
        following = self.first_of_epoch(epoch + 1)
        return epoch + (index - first) / (following - first)

    def rows(self, samples: np.ndarray) -> Spans:
        parts = []
        numbers = []
        for stretch, here in self._by_stretch(samples):
            parts.append(stretch.order.rows(samples[here] + stretch.shift))
            numbers.append(here)
        return join_rows(parts, numbers, len(samples)) if parts else self.order.rows(samples)

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        stretch = self._stretch_of_epoch(epoch)
        samples: np.ndarray = stretch.order.targeting(start, stop, epoch) - stretch.shift
        return samples

    def _stretch_of_epoch(self, epoch: int) -> Stretch:
        return [stretch for stretch in self.stretches if stretch.epoch <= epoch][-1]

    def _by_stretch(self, index: np.ndarray) -> Iterator[tuple[Stretch, np.ndarray]]:
        """Yield each stretch that has some of these samples, and their numbers in `index`."""
        for n, here in groups_of(np.searchsorted(self._firsts, index, side="right") - 1):
            yield self.stretches[n], here


def stretches_of(source: SourceOrder) -> tuple[Stretch, ...]:
    """The stretches of a source; of one that has not grown, one."""
    return source.stretches if isinstance(source, GrownSource) else (Stretch(0, 0, source),)
