"""The windows of each epoch in an order of their own: the default.

Any window may follow any other (see permutation.py for how). On a cold disk or remote storage every
row is then a read of its own; `blocks` reads in longer runs.
"""

from dataclasses import dataclass

import numpy as np

from tokenmill.order.permutation import shuffle, unshuffle


@dataclass(frozen=True)
class Shuffled:
    """Position p holds window shuffle(p)."""

    @property
    def name(self) -> str:
        """What the state calls this order."""
        return "shuffle"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The window at each position of this epoch."""
        return shuffle(position, count, seed=seed, epoch=epoch)

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The position of each window in this epoch."""
        return unshuffle(window, count, seed=seed, epoch=epoch)
