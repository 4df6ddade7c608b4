"""Windows of one source as rows, and the orders `sequential`, `shuffle` and `random` of them.

Window k of block_size T covers tokens kT .. kT+T inclusive: T inputs, and T targets one token
later. order.md says how `phase` moves them. Draw g of `random` is a function of (seed, g).
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from tokenmill.base.suggest import check_at_least_one
from tokenmill.order.order import ANYWHERE, Locality, SourceOrder, TargetRanges, by_epoch
from tokenmill.order.permutation import mix, permute, round_keys, shuffle
from tokenmill.order.spans import Spans, whole_rows

# Of each order other ones. SeedSequence reads a trailing 0 as nothing: the shuffle has that.
_KEYS_OF_PHASE = 1
_KEYS_OF_DRAWS = 4
DRAWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Windows:
    """The whole windows of one axis of tokens."""

    num_tokens: int
    block_size: int
    seed: int = 0
    phase: bool = False

    def __post_init__(self) -> None:
        check_at_least_one(block_size=self.block_size)
        if self.count < 1:
            need = (2 if self.phase else 1) * self.block_size + 1
            raise ValueError(
                f"block_size {self.block_size} is too long for a dataset of "
                f"{self.num_tokens:,} tokens; one window"
                f"{' with phase=True' if self.phase else ''} takes {need:,}"
            )

    @functools.cached_property
    def count(self) -> int:
        """K, the number of windows in every epoch."""
        return (self.num_tokens - 1) // self.block_size - self.phase

    @property
    def slack(self) -> int:
        """How many tokens are a target in no window of an epoch (besides the first token)."""
        return self.num_tokens - 1 - self.count * self.block_size

    def offset(self, epoch: int) -> int:
        """The first token of window 0 in this epoch: 0, or with `phase` anywhere in 0 .. slack."""
        if not self.phase:
            return 0
        # 64 random bits over less than 2^33 places: no place is favoured by more than 2^-31.
        return int(round_keys(self.seed, epoch, _KEYS_OF_PHASE)[0]) % (self.slack + 1)

    def start_of(self, window: np.ndarray, epoch: int) -> np.ndarray:
        """The first token of each window, on the axis."""
        return window * self.block_size + self.offset(epoch)

    def targeting(self, start: int, stop: int, epoch: int) -> range:
        """The windows of this epoch in which a token of start .. stop-1 is a target."""
        start, stop = max(start, 1), min(stop, self.num_tokens)
        if start >= stop:
            return range(0)
        # Window k targets kT + 1 .. kT + T, counted from the offset.
        first = start - 1 - self.offset(epoch)
        last = stop - 2 - self.offset(epoch)
        return range(max(0, first // self.block_size), min(self.count, last // self.block_size + 1))


@runtime_checkable
class Arrangement(Protocol):
    """A bijection between the positions and the windows of an epoch."""

    @property
    def name(self) -> str:
        """As a saved state calls this order."""

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The window at each position of this epoch."""

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The position of each window in this epoch."""

    def locality(self, block_size: int) -> Locality:
        """How far apart the windows are that follow each other; `block_size` tokens each."""


class Sequential:
    """Position p holds window p."""

    name = "sequential"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return position.astype(np.int64)

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return window.astype(np.int64)

    def locality(self, block_size: int) -> Locality:
        return Locality(num_blocks=1)


class Shuffle:
    """Position p holds window shuffle(p)."""

    name = "shuffle"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return shuffle(position, count, seed=seed, epoch=epoch)

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return permute(window, count, round_keys(seed, epoch), inverse=True)

    def locality(self, block_size: int) -> Locality:
        return ANYWHERE


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
        num_starts = self.windows.num_tokens - self.block_size
        keys = round_keys(self.windows.seed, 0, _KEYS_OF_DRAWS)
        bits = mix(mix(samples.astype(np.uint64) + keys[0]) ^ keys[1])
        # 64 bits over at most 2^40 starts: none is favoured by more than 2^-24 of its share.
        return (bits % np.uint64(num_starts)).astype(np.int64)

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
