"""The protocol of orders: sample number -> spans of tokens, and back.

`SourceOrder` is the order of one source: windows, random draws, rows of documents. `MixtureOrder`
deals samples to several of them; an edited run (edits/) is one more `Order`. A loader asks nothing
else, whichever it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tokenmill.order.spans import Spans, groups_of, join_rows


class Locality(NamedTuple):
    """What a reader may expect of an order when it is chosen."""

    num_blocks: int
    """Stretches of the axis that are in use at a time; 0: any row may be next."""
    block_tokens: int = 0
    """Length of the longest of them."""


ANYWHERE = Locality(0)
SPANS_AT_ONCE = 1 << 18  # in memory, where many samples are looked at


class TargetRanges(NamedTuple):
    """Ranges of tokens of a source that are targets, each first .. stop-1."""

    firsts: np.ndarray
    stops: np.ndarray
    times: int = 1
    """How often each of them comes."""


class Order(ABC):
    """Which tokens of which source are sample g; and which samples have given tokens as targets."""

    block_size: int
    """Inputs, and targets, of a row."""
    spans_per_row: float = 1.0
    """On average."""

    @property
    @abstractmethod
    def sources(self) -> Sequence["SourceOrder"]:
        """The order of each source."""

    @abstractmethod
    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The source of each sample, and its number within that source."""

    @abstractmethod
    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        """The sample that is number `index` of a source, -1 if there is none: undoes `deal`."""

    @abstractmethod
    def counts_before(self, sample: int) -> list[int]:
        """How many samples of each source come before this one."""

    @property
    def num_samples(self) -> int | None:
        """Samples before the order ends; None: it is endless."""
        return None

    def rows(self, samples: np.ndarray) -> Spans:
        """The tokens of each sample of a 1-D array, one row each."""
        source, index = self.deal(samples)
        numbers = [np.flatnonzero(source == s) for s in range(len(self.sources))]
        parts = []
        for s, (order, mine) in enumerate(zip(self.sources, numbers, strict=True)):
            spans = order.rows(index[mine])
            parts.append(replace(spans, source=np.full_like(spans.source, s)))
        return join_rows(parts, numbers, len(samples))

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        """The epoch of its source that each sample belongs to."""
        source, index = self.deal(samples)
        epochs = np.empty(samples.shape, np.int64)
        for s in np.unique(source).tolist():
            epochs[source == s] = self.sources[s].epoch_of(index[source == s])
        return epochs

    def epochs_before(self, sample: int) -> list[int]:
        """The epoch of each source that the next of its samples belongs to."""
        counts = zip(self.sources, self.counts_before(sample), strict=True)
        return [int(source.epoch_of(np.array(count))) for source, count in counts]

    def served_ranges(self, sample: int) -> list[list[tuple[int, int]]]:
        """Numbers within each source that were served before this sample, as (first, stop)."""
        return [[(0, count)] for count in self.counts_before(sample)]

    def samples_targeting(
        self, source: int, start: int, stop: int, epochs: Iterable[int]
    ) -> list[tuple[int, int]]:
        """(epoch of the source, sample) of all samples with a target among tokens start .. stop-1.

        A sample that has several of them is named once.
        """
        pairs = []
        for epoch in epochs:
            index = self.sources[source].targeting(start, stop, epoch)
            samples = self.samples_of(source, index).tolist()
            pairs += [(epoch, sample) for sample in samples if sample >= 0]
        return pairs

    def samples_in_epochs(self, source: int, epochs: int) -> int | None:
        """Samples until a source has had this many epochs; None: it never has."""
        last = self.sources[source].first_of_epoch(epochs) - 1
        if last < 0:
            return 0
        sample = int(self.samples_of(source, np.array([last]))[0])
        return None if sample < 0 else sample + 1


class SourceOrder(Order):
    """The order of one source, in epochs of equal size: sample g = e * K + p is position p."""

    name: str
    """As a saved state calls this order."""
    locality: Locality
    tail: int = 0
    """Tokens that are a target in no row of an epoch, though they are after others."""

    def facts(self) -> dict[str, int]:
        """What an epoch is made of, for `stats()`, where that is not plain."""
        return {}

    @property
    @abstractmethod
    def samples_per_epoch(self) -> int:
        """K, the number of rows of an epoch."""

    @abstractmethod
    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """Samples of an epoch with a target among tokens start .. stop-1: ascending, each once."""

    @property
    def sources(self) -> Sequence["SourceOrder"]:
        return (self,)

    def deal(self, samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(samples.shape, np.int64), samples

    def samples_of(self, source: int, index: np.ndarray) -> np.ndarray:
        return index

    def counts_before(self, sample: int) -> list[int]:
        return [sample]

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        epochs: np.ndarray = samples // self.samples_per_epoch
        return epochs

    def epochs_until(self, index: int) -> float:
        """Epochs before a sample, with the part of the current one."""
        return index / self.samples_per_epoch

    def first_of_epoch(self, epoch: int) -> int:
        """The first sample of an epoch."""
        return epoch * self.samples_per_epoch

    def target_ranges(self, first: int, stop: int) -> Iterator[TargetRanges]:
        """Yield the targets of samples first .. stop-1, those of whole epochs at little cost."""
        low = -(-first // self.samples_per_epoch)
        high = stop // self.samples_per_epoch
        if low >= high:
            yield from self._located_targets(first, stop)
            return
        yield from self._located_targets(first, self.first_of_epoch(low))
        yield from self.targets_of_epochs(range(low, high))
        yield from self._located_targets(self.first_of_epoch(high), stop)

    def targets_of_epochs(self, epochs: range) -> Iterator[TargetRanges]:
        """Yield the targets of whole epochs, at least one; here, all have the same."""
        first, stop = (self.first_of_epoch(epochs.start + i) for i in (0, 1))
        for ranges in self._located_targets(first, stop):
            yield ranges._replace(times=len(epochs))

    def possible_targets(self) -> Iterator[TargetRanges]:
        """Yield the tokens that are a target in some epoch."""
        return self.targets_of_epochs(range(1))

    def _located_targets(self, first: int, stop: int) -> Iterator[TargetRanges]:
        """Yield the targets of samples first .. stop-1, each of which is located."""
        at_once = max(1, int(SPANS_AT_ONCE / self.spans_per_row))
        for low in range(first, stop, at_once):
            samples = np.arange(low, min(low + at_once, stop), dtype=np.int64)
            yield TargetRanges(*self.rows(samples).targets)


def by_epoch(
    samples: np.ndarray, samples_per_epoch: int
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Each epoch of some samples, which of them belong to it, and their positions in it."""
    epochs, positions = np.divmod(samples, samples_per_epoch)
    if len(epochs) and (epochs == epochs[0]).all():  # the usual case
        return [(int(epochs[0]), np.arange(len(samples)), positions)]
    return [(epoch, mine, positions[mine]) for epoch, mine in groups_of(epochs)]
