"""Samples by their numbers, one row each: the order as a plain sequence."""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from tokenmill.batches.batch import Batch, Located
from tokenmill.batches.batch_maker import POSITIONS_AT_ONCE, BatchMaker


class WindowSource:
    """Sample number -> (block_size + 1,) array of tokens.

    Grain takes it as a RandomAccessDataSource, torch as a map-style dataset, JAX code by indexing.
    Item i is the i-th sample of the order, so reading 0, 1, 2, ... reads the shuffled order.
    """

    def __init__(self, maker: BatchMaker, num_samples: int) -> None:
        self._maker = maker
        self._num_samples = num_samples
        self._ahead: Located | None = None  # runs of samples, one after the other

    def __len__(self) -> int:
        return self._num_samples

    def __repr__(self) -> str:
        return f"<WindowSource of {self._num_samples:,} windows>"

    def __getitem__(self, i: SupportsIndex) -> np.ndarray:
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[np.ndarray]:
        """The tokens of several samples, gathered together (what torch's DataLoader calls)."""
        batch = self.batch(indices)
        refuse_labels_apart(batch, is_padded=batch.has_padding)
        return list(batch.tokens)

    def batch(self, indices: Sequence[SupportsIndex]) -> Batch:
        """Several samples as one batch, with all that is known about them."""
        samples = np.array([operator.index(i) for i in indices], np.int64)
        samples[samples < 0] += self._num_samples
        if samples.size and not (samples.min() >= 0 and samples.max() < self._num_samples):
            raise IndexError(f"windows {list(indices)} of a source of {self._num_samples} windows")
        if len(samples) < 2 or not (samples[1:] - samples[:-1] == 1).all():
            return self._maker.batch_of(self._maker.locate(samples[None]), 0)
        # A run of samples: where others of this size follow, many are located.
        first = int(samples[0])
        size = len(samples)
        num_runs = 1
        if self._ahead is not None and self._ahead.samples.shape[1] == size:
            run, rest = divmod(first - int(self._ahead.samples[0, 0]), size)
            num_located = len(self._ahead.samples)
            if not rest and 0 <= run < num_located:
                return self._maker.batch_of(self._ahead, run)
            if 0 <= run < 4 * num_located:
                num_runs = min(4 * num_located, max(1, POSITIONS_AT_ONCE // size))
        num_runs = min(num_runs, max(1, (self._num_samples - first) // size))
        runs = first + np.arange(num_runs * size).reshape(num_runs, size)
        self._ahead = self._maker.locate(runs)
        return self._maker.batch_of(self._ahead, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None}

    _getitems = __getitems__  # what Grain calls


def refuse_labels_apart(batch: Batch, *, is_padded: bool = False) -> None:
    """Refuse to give rows of tokens alone, where labels are not what the tokens say."""
    if batch.banned is not None or (batch.augmented_labels is not None and not is_padded):
        raise ValueError(
            "one row of tokens cannot say which of them are banned as targets, nor hold the labels "
            "that augment gives (MaskTokens, ReplaceTokens, or padding after DropTokens); use "
            "batches: BatchLoader, loader.windows().batch([i]), or tokenmill.torch with items of "
            "two parts"
        )
