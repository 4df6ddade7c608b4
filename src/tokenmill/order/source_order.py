"""The order of one source: sample number g -> epoch and position -> window -> first token.

Sample numbers g = e * K + p count over all epochs without end, so one integer says how far a run
has come. `starts` answers which tokens are sample g, `samples_targeting` which samples have these
tokens as targets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmill.order.blocks import ShardBlocks
from tokenmill.order.simple_orders import Arrangement, Sequential, Shuffle, draw
from tokenmill.order.windows import Windows

ORDER_VERSION = 1  # part of every fingerprint; a new value means that a seed names another order
DRAWS_AT_ONCE = 1 << 20

_ARRANGEMENTS: dict[str, Arrangement | None] = {
    "blocks": None,
    "random": None,
    "sequential": Sequential(),
    "shuffle": Shuffle(),
}


def arrangement_of(
    order: str | Arrangement, windows: Windows | None = None, shards: Sequence[int] = ()
) -> Arrangement | None:
    """The arrangement of this name; None for `random`, which has none.

    `blocks` depends on the windows and on how many tokens each shard has.
    """
    if not isinstance(order, str):
        return order
    if order == "blocks" and windows is not None:
        return ShardBlocks.of(shards or [windows.num_tokens], windows)
    if order not in _ARRANGEMENTS:
        raise ValueError(f"unknown order {order!r}; known are: {', '.join(_ARRANGEMENTS)}")
    return _ARRANGEMENTS[order]


class EqualEpochs:
    """What sources share whose epochs all have the same number of samples."""

    @property
    def samples_per_epoch(self) -> int:
        raise NotImplementedError

    def epoch_of(self, samples: np.ndarray) -> np.ndarray:
        """The epoch of each sample."""
        epochs: np.ndarray = samples // self.samples_per_epoch
        return epochs

    def epochs_until(self, index: int) -> float:
        """How many epochs there are before a sample."""
        return index / self.samples_per_epoch

    def first_of_epoch(self, epoch: int) -> int:
        """The first sample of an epoch."""
        return epoch * self.samples_per_epoch


@dataclass(frozen=True)
class SourceOrder(EqualEpochs):
    """Which tokens each sample number of one source means."""

    windows: Windows
    arrangement: Arrangement | None

    def __post_init__(self) -> None:
        if self.arrangement is None and self.windows.phase:
            raise ValueError('phase=True has no meaning with order="random": no boundary is fixed')

    @property
    def name(self) -> str:
        return "random" if self.arrangement is None else self.arrangement.name

    @property
    def block_size(self) -> int:
        return self.windows.block_size

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
        if first == last:  # the usual case, without a mask
            return self.starts_in(samples - first * windows.count, first)
        epochs, positions = np.divmod(samples, windows.count)
        starts = np.empty(samples.shape, np.int64)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            starts[here] = self.starts_in(positions[here], epoch)
        return starts

    def starts_in(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        """The first token of the window at each position of an epoch; not for `random`."""
        windows = self.windows
        assert self.arrangement is not None
        window = self.arrangement.window_at(positions, windows.count, windows.seed, epoch)
        return windows.start_of(window, epoch)

    def samples_targeting(self, start: int, stop: int, epoch: int) -> np.ndarray:
        """The samples of an epoch in which a token of start .. stop-1 is a target, ascending.

        `random` cannot be inverted, so there all draws of the epoch are computed, in pieces.
        """
        windows = self.windows
        first, end = epoch * windows.count, (epoch + 1) * windows.count
        if start >= stop:
            return np.empty(0, np.int64)
        if self.arrangement is not None:
            found = windows.targeting(start, stop, epoch)
            window = np.arange(found.start, found.stop, dtype=np.int64)
            position = self.arrangement.position_of(window, windows.count, windows.seed, epoch)
            return np.sort(position + first)
        hits = []
        for at in range(first, end, DRAWS_AT_ONCE):
            samples = np.arange(at, min(at + DRAWS_AT_ONCE, end), dtype=np.int64)
            starts = self.starts(samples)
            # The targets of a draw are start + 1 .. start + block_size.
            hits.append(samples[(starts + windows.block_size >= start) & (starts + 1 < stop)])
        return np.concatenate(hits)
