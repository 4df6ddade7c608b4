"""Samples by their numbers, one row each: the order as a plain sequence."""

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from tokenmill.batches.batch import Batch, Located
from tokenmill.batches.batch_maker import POSITIONS_AT_ONCE, BatchMaker


class _Ahead(NamedTuple):
    """Runs of `size` samples that were located, one after the other from sample `first` on."""

    first: int
    size: int
    located: Located


class WindowSource:
    """Sample number -> (block_size + 1,) array of tokens: the order as a plain sequence.

    Grain takes it as a RandomAccessDataSource, torch as a map-style dataset, JAX code by indexing.
    Item i is the i-th sample of the order, so reading 0, 1, 2, ... reads the shuffled order.
    """

    def __init__(self, maker: BatchMaker, num_samples: int) -> None:
        self._maker = maker
        self._num_samples = num_samples
        self._ahead: _Ahead | None = None

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
        return self._batch_of_run(int(samples[0]), len(samples))

    def _batch_of_run(self, first: int, size: int) -> Batch:
        """The samples from `first` on; where others of this size follow, many are located."""
        num_runs = 1
        ahead = self._ahead
        if ahead is not None and ahead.size == size:
            run, rest = divmod(first - ahead.first, size)
            located = len(ahead.located.samples)
            if not rest and 0 <= run < located:
                return self._maker.batch_of(ahead.located, run)
            if 0 <= run < 4 * located:
                num_runs = min(4 * located, max(1, POSITIONS_AT_ONCE // size))
        num_runs = min(num_runs, max(1, (self._num_samples - first) // size))
        runs = first + np.arange(num_runs * size).reshape(num_runs, size)
        self._ahead = _Ahead(first, size, self._maker.locate(runs))
        return self._maker.batch_of(self._ahead.located, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None}

    _getitems = __getitems__  # what Grain calls


def refuse_labels_apart(batch: Batch, *, is_padded: bool = False) -> None:
    """Refuse to give rows of tokens alone, where labels are not what the tokens say."""
    if batch.banned is not None:
        raise ValueError(
            "one row of tokens cannot say which of them are banned as targets; use batches: "
            "BatchLoader, loader.windows().batch([i]), or tokenmill.torch with items of two parts"
        )
    if batch.augmented_labels is not None and not is_padded:
        raise ValueError(
            "one row of tokens cannot hold the labels that augment gives beside them (MaskTokens, "
            "ReplaceTokens, or padding after DropTokens); use batches: BatchLoader or "
            "tokenmill.torch, with items of two parts"
        )
