"""A source whose data has grown: more tokens at its end, from one of its epochs on.

The epoch in which the data grew ends as it began; from the next one on the order is that of the
grown data. So the samples of the source are cut into stretches, each of whole epochs of one order.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from tokenmill.base.groups import groups_of
from tokenmill.order.row_order import RowOrder, RowPieces, join_rows
from tokenmill.order.source_order import SourceOrder

Order = SourceOrder | RowOrder


@dataclass(frozen=True)
class Stretch:
    """Samples of a source under one order, up to the next stretch; whole epochs."""

    first: int
    """The first sample."""
    epoch: int
    """The epoch of the first sample."""
    order: Order

    @property
    def shift(self) -> int:
        """Add it to a sample of the source: the sample of `order`."""
        return self.epoch * self.order.samples_per_epoch - self.first

    def first_of_epoch(self, epoch: int) -> int:
        return epoch * self.order.samples_per_epoch - self.shift

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        epochs: np.ndarray = (samples + self.shift) // self.order.samples_per_epoch
        return epochs


class GrownSource:
    """What `SourceOrder` and `RowOrder` say of samples, for data that has grown."""

    def __init__(self, stretches: tuple[Stretch, ...]) -> None:
        self.stretches = stretches
        self._firsts = np.array([stretch.first for stretch in stretches], np.int64)

    @classmethod
    def of(cls, source: "Source", index: int, order: Order) -> "GrownSource":
        """Return the source whose data has grown before its sample `index`; its order is `order`.

        Data that grew before, but of which no epoch has begun, grew again.
        """
        stretches = (
            source.stretches if isinstance(source, GrownSource) else (Stretch(0, 0, source),)
        )
        begun = [stretch for stretch in stretches if stretch.first <= index]
        epoch = -(-(index + begun[-1].shift) // begun[-1].order.samples_per_epoch)  # rounded up
        return cls((*begun, Stretch(begun[-1].first_of_epoch(epoch), epoch, order)))

    @property
    def order(self) -> Order:
        """The order of the data as it is now."""
        return self.stretches[-1].order

    @property
    def name(self) -> str:
        return self.order.name

    @property
    def block_size(self) -> int:
        return self.order.block_size

    @property
    def samples_per_epoch(self) -> int:
        """Samples of an epoch of the data as it is now."""
        return self.order.samples_per_epoch

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
        first, following = self.first_of_epoch(epoch), self.first_of_epoch(epoch + 1)
        return epoch + (index - first) / (following - first)

    def starts(self, index: np.ndarray) -> np.ndarray:
        """The first token of the window of each sample."""
        flat = index.reshape(-1)
        starts = np.empty(flat.shape, np.int64)
        for stretch, here in self._by_stretch(flat):
            order = cast("SourceOrder", stretch.order)
            starts[here] = order.starts(flat[here] + stretch.shift)
        return starts.reshape(index.shape)

    def locate(self, index: np.ndarray) -> RowPieces:
        """The pieces in the row of each sample of a 1-D array."""
        parts = []
        rows = []
        for stretch, here in self._by_stretch(index):
            order = cast("RowOrder", stretch.order)
            parts.append(order.locate(index[here] + stretch.shift))
            rows.append(here)
        return join_rows(parts, rows) if parts else cast("RowOrder", self.order).locate(index)

    def samples_targeting(self, *where: Any) -> np.ndarray:
        """The samples of an epoch with a target among some tokens, ascending.

        `where` is what `samples_targeting` of the order takes; its last part is the epoch.
        """
        stretch = self._stretch_of_epoch(where[-1])
        samples: np.ndarray = stretch.order.samples_targeting(*where) - stretch.shift
        return samples

    def _stretch_of_epoch(self, epoch: int) -> Stretch:
        return [stretch for stretch in self.stretches if stretch.epoch <= epoch][-1]

    def _by_stretch(self, index: np.ndarray) -> Iterator[tuple[Stretch, np.ndarray]]:
        """Yield each stretch that has some of these samples, and their numbers in `index`."""
        for n, here in groups_of(np.searchsorted(self._firsts, index, side="right") - 1):
            yield self.stretches[n], here


Source = SourceOrder | RowOrder | GrownSource


def plain_order(source: Source) -> Order:
    """The order of a source as its data is now."""
    return source.order if isinstance(source, GrownSource) else source


def targets_of(source: Source, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The targets of some samples as ranges: number in `index`, first token, token after the last.

    A window has one range, a row of documents one for each piece.
    """
    if isinstance(plain_order(source), RowOrder):
        pieces = cast("RowOrder", source).locate(index)
        return pieces.rows, *pieces.targets
    firsts = cast("SourceOrder", source).starts(index) + 1
    return np.arange(len(index)), firsts, firsts + source.block_size
