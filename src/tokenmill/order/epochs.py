"""The order of one source: sample number g -> epoch and position -> window -> first token.

The sample number g = e * K + p runs on over epochs without end, so a single integer says how far a
run has come. `starts` goes forward (which tokens are sample g?), `samples_targeting` goes back
(which samples hold these tokens as targets?).
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tokenmill.order.blocks import Blocks
from tokenmill.order.random import draw
from tokenmill.order.sequential import Sequential
from tokenmill.order.shuffle import Shuffled
from tokenmill.order.windows import Windows

ORDER_VERSION = 1  # part of every fingerprint; a new value means that a seed names another order
_DRAWS_AT_ONCE = 1 << 20


class Arrangement(Protocol):
    """A bijection between the positions and the windows of an epoch."""

    @property
    def name(self) -> str:
        """What the state calls this order."""

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The window at each position of this epoch."""

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The position of each window in this epoch."""


def arrangement(order: "str | Arrangement") -> "Arrangement | None":
    """The arrangement of this name; None for `random`, which has none."""
    known: dict[str, Arrangement | None] = {
        "sequential": Sequential(),
        "shuffle": Shuffled(),
        "blocks": Blocks(),
        "random": None,
    }
    if not isinstance(order, str):
        return order
    if order not in known:
        raise ValueError(f"unknown order {order!r}; known are: {', '.join(sorted(known))}")
    return known[order]


@dataclass(frozen=True)
class SourceOrder:
    """Which tokens each sample number of one source stands for."""

    windows: Windows
    arrangement: Arrangement | None

    def __post_init__(self) -> None:
        if self.arrangement is None and self.windows.phase:
            raise ValueError('phase=True has no meaning with order="random": no boundary is fixed')

    @property
    def name(self) -> str:
        """What the state calls this order."""
        return "random" if self.arrangement is None else self.arrangement.name

    @property
    def samples_per_epoch(self) -> int:
        """K; for `random`, as many draws as there are windows."""
        return self.windows.count

    def starts(self, samples: np.ndarray) -> np.ndarray:
        """The first token of each sample, in the shape of `samples`."""
        windows = self.windows
        if self.arrangement is None:
            return draw(samples, windows.num_tokens - windows.block_size, seed=windows.seed)
        if not samples.size:
            return samples.astype(np.int64)
        first, last = int(samples.min()) // windows.count, int(samples.max()) // windows.count
        if first == last:
            return self._starts_in(samples - first * windows.count, first)
        epochs, positions = np.divmod(samples, windows.count)
        starts = np.empty(samples.shape, np.int64)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            starts[here] = self._starts_in(positions[here], epoch)
        return starts

    def _starts_in(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        windows = self.windows
        assert self.arrangement is not None
        window = self.arrangement.window_at(positions, windows.count, windows.seed, epoch)
        return windows.start_of(window, epoch)

    def samples_targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """The samples of an epoch in which a token of start .. stop-1 is a target, ascending.

        `random` cannot be inverted, so there all draws of the epoch are computed, in pieces.
        """
        first = epoch * self.windows.count
        if self.arrangement is None:
            return self._draws_targeting(start, stop, first)
        found = self.windows.targeting(start, stop, epoch)
        window = np.arange(found.start, found.stop, dtype=np.int64)
        position = self.arrangement.position_of(
            window, self.windows.count, self.windows.seed, epoch
        )
        return np.sort(position + first)

    def _draws_targeting(self, start: int, stop: int, first: int) -> np.ndarray:
        block_size, end = self.windows.block_size, first + self.windows.count
        found = []
        for at in range(first, end, _DRAWS_AT_ONCE):
            samples = np.arange(at, min(at + _DRAWS_AT_ONCE, end), dtype=np.int64)
            starts = self.starts(samples)
            found.append(samples[(starts + block_size >= start) & (starts + 1 < stop)])
        return np.concatenate(found)
