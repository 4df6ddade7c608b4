"""Windows of one source as rows: sample number -> epoch and position -> window -> one span.

Sample numbers count over all epochs without end, so one integer says how far a run has come.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.order.arrangement import Arrangement, Shuffle, draw
from tokenmill.order.order import SourceOrder, TargetRanges, by_epoch
from tokenmill.order.spans import Spans, whole_rows
from tokenmill.order.windows import Windows

DRAWS_AT_ONCE = 1 << 20


class WindowOrder(SourceOrder):
    """The windows of each epoch, in the order that an arrangement gives them."""

    def __init__(self, windows: Windows, arrangement: Arrangement) -> None:
        self.windows = windows
        self.arrangement = arrangement
        self.block_size = windows.block_size
        self.tail = windows.slack
        self.name = arrangement.name
        self.locality = arrangement.locality(windows.block_size)

    @property
    def samples_per_epoch(self) -> int:
        return self.windows.count

    def rows(self, samples: np.ndarray) -> Spans:
        return whole_rows(self.starts(samples), self.block_size + 1)

    def starts(self, samples: np.ndarray) -> np.ndarray:
        """The first token of each sample of a 1-D array."""
        windows = self.windows
        starts = np.empty(len(samples), np.int64)
        for epoch, mine, positions in by_epoch(samples, windows.count):
            window = self.arrangement.window_at(positions, windows.count, windows.seed, epoch)
            starts[mine] = windows.start_of(window, epoch)
        return starts

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        if start >= stop:
            return np.empty(0, np.int64)
        windows = self.windows
        hit = windows.targeting(start, stop, epoch)
        window = np.arange(hit.start, hit.stop, dtype=np.int64)
        position = self.arrangement.position_of(window, windows.count, windows.seed, epoch)
        return np.sort(position + self.first_of_epoch(epoch))

    def targets_of_epochs(self, epochs: range) -> Iterator[TargetRanges]:
        """Yield one range an epoch; without `phase` all epochs have the same."""
        windows = self.windows
        times = 1 if windows.phase else len(epochs)
        for epoch in epochs[::times]:
            first = np.array([windows.offset(epoch) + 1])
            yield TargetRanges(first, first + windows.count * windows.block_size, times)

    def possible_targets(self) -> Iterator[TargetRanges]:
        """All tokens that follow another one."""
        yield TargetRanges(np.array([1]), np.array([self.windows.num_tokens]))


class RandomOrder(WindowOrder):
    """Windows drawn from anywhere, with replacement; an epoch is as many draws as windows fit."""

    def __init__(self, windows: Windows) -> None:
        if windows.phase:
            raise ValueError('phase=True has no meaning with order="random": no boundary is fixed')
        super().__init__(windows, Shuffle())
        self.name = "random"

    def starts(self, samples: np.ndarray) -> np.ndarray:
        windows = self.windows
        return draw(samples, windows.num_tokens - windows.block_size, seed=windows.seed)

    def targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """Draws cannot be inverted, so all of the epoch are computed, in pieces."""
        if start >= stop:
            return np.empty(0, np.int64)
        hits = []
        end = self.first_of_epoch(epoch + 1)
        for at in range(self.first_of_epoch(epoch), end, DRAWS_AT_ONCE):
            samples = np.arange(at, min(at + DRAWS_AT_ONCE, end), dtype=np.int64)
            starts = self.starts(samples)
            # The targets of a draw are start + 1 .. start + block_size.
            hits.append(samples[(starts + self.block_size >= start) & (starts + 1 < stop)])
        return np.concatenate(hits)

    def targets_of_epochs(self, epochs: range) -> Iterator[TargetRanges]:
        """Yield the targets of each draw; an epoch may have any."""
        edges = (self.first_of_epoch(epoch) for epoch in (epochs.start, epochs.stop))
        return self._located_targets(*edges)
