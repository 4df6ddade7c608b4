"""Where the windows are: window k of block_size T covers tokens kT .. kT+T inclusive.

T inputs and T targets, the targets one token later; neighbours share one token, so over an epoch
every token but the first is a target exactly once, and the first is an input. An axis of N tokens
has N-1 possible targets, hence K = (N-1) // T whole windows and a tail of (N-1) % T tokens.

With `phase` one window fewer is taken, K = (N-1) // T - 1, and the slack this leaves, N-1-KT tokens
(at least T), is put before and after the windows by a seeded offset drawn again for each epoch. So
boundaries move from epoch to epoch, K stays the same in all of them (sample numbers stay plain
arithmetic), and every token is a target in some epoch: the tail is never lost for good. The cost
is that an epoch leaves out T to 2T-1 tokens instead of 0 to T-1.
"""

import functools
from dataclasses import dataclass

import numpy as np

from tokenmill.order.permutation import round_keys

_KEYS_OF_PHASE = 1  # unlike the shuffle's keys; SeedSequence reads a trailing 0 as nothing


def check_at_least_one(**counts: int) -> None:
    """Refuse a count below 1, by its name."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} is {count}; it must be at least 1")


def check_below(name: str, value: int, stop: int) -> None:
    """Refuse a number that is not one of 0 .. stop-1."""
    if not 0 <= value < stop:
        raise IndexError(f"{name} is {value}; it must be 0 to {stop - 1}")


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
        first, last = start - 1 - self.offset(epoch), stop - 2 - self.offset(epoch)
        return range(max(0, first // self.block_size), min(self.count, last // self.block_size + 1))
