"""The samples of an order as a plain sequence, for frameworks that pick items by number.

Grain takes it as a RandomAccessDataSource, torch as a map-style dataset, JAX code by indexing. Item
i is the i-th sample of the order, so a framework that reads 0, 1, 2, ... reads the shuffled order.
"""

import operator
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from tokenmill.batches.batch_maker import Maker


class WindowSource:
    """Sample number -> (block_size + 1,) array of tokens."""

    def __init__(self, maker: Maker, num_samples: int) -> None:
        self._maker = maker
        self._num_samples = num_samples

    def __len__(self) -> int:
        return self._num_samples

    def __repr__(self) -> str:
        return f"<WindowSource of {self._num_samples:,} windows>"

    def __getitem__(self, i: SupportsIndex) -> np.ndarray:
        """The tokens of sample i."""
        row: np.ndarray = self._rows([operator.index(i)])[0]
        return row

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[np.ndarray]:
        """The tokens of several samples, gathered at once (what torch's DataLoader calls)."""
        return list(self._rows([operator.index(i) for i in indices]))

    def _getitems(self, indices: Sequence[SupportsIndex]) -> list[np.ndarray]:
        """The same under the name that Grain calls."""
        return self.__getitems__(indices)

    def _rows(self, indices: list[int]) -> np.ndarray:
        samples = np.array(indices, np.int64)
        samples[samples < 0] += self._num_samples
        if samples.size and not (samples.min() >= 0 and samples.max() < self._num_samples):
            raise IndexError(f"windows {indices} of a source of {self._num_samples} windows")
        return self._maker.rows(samples)
