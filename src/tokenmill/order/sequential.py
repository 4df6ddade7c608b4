"""The windows as they lie on disk, the same in every epoch.

For evaluation, for looking at data, and for data that was shuffled when it was written. Text of one
source then stays together, so a training run sees it in stretches.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Sequential:
    """Position p holds window p."""

    @property
    def name(self) -> str:
        """What the state calls this order."""
        return "sequential"

    def window_at(self, position: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The window at each position of this epoch."""
        return position.astype(np.int64)

    def position_of(self, window: np.ndarray, count: int, seed: int, epoch: int) -> np.ndarray:
        """The position of each window in this epoch."""
        return window.astype(np.int64)
