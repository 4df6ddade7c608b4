"""The orders that take one line of arithmetic each: `sequential`, `shuffle` and `random`.

`sequential` is the order of the windows on disk, the same in every epoch: for evaluation, for
looking at data, and for data that was shuffled when it was written. Text of one source then stays
together, so a training run sees it in stretches.

`shuffle`, the default, gives the windows of each epoch an order of their own (permutation.py says
how). Any window may follow any other, so on a cold disk or remote storage every row is a read of
its own; `blocks` reads in longer runs.

`random` draws any start, each as likely, with replacement, as nanoGPT does: use it to repeat what
such a run did. Draw g is a function of (seed, g), so it resumes like the other orders. One epoch's
worth of draws sees 63 % of the tokens, two see 86 %.
"""

from typing import Protocol

import numpy as np

from tokenmill.order.order import ANYWHERE, Locality, Spread
from tokenmill.order.permutation import mix, round_keys, shuffle, unshuffle

_KEYS_OF_DRAWS = 4  # unlike those of the other orders


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
        return Locality(Spread.NEIGHBOURS, num_blocks=1)


class Shuffle:
    """Position p holds window shuffle(p)."""

    name = "shuffle"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return shuffle(position, count, seed=seed, epoch=epoch)

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        return unshuffle(window, count, seed=seed, epoch=epoch)

    def locality(self, block_size: int) -> Locality:
        return ANYWHERE


def draw(sample: np.ndarray, num_starts: int, *, seed: int) -> np.ndarray:
    """Return the first token of each draw of `random`, in range(num_starts).

    >>> draw(np.arange(4), 1000, seed=0).tolist()
    [793, 880, 145, 979]
    """
    keys = round_keys(seed, 0, _KEYS_OF_DRAWS)
    bits = mix(mix(sample.astype(np.uint64) + keys[0]) ^ keys[1])
    # 64 bits over at most 2^40 starts: none is favoured by more than 2^-24 of its share.
    return (bits % np.uint64(num_starts)).astype(np.int64)
