"""From a step number to arrays. A BatchMaker has no position; a loader or a thread asks it.

Positions are computed for many steps at a time: the arithmetic of the order costs about 70 NumPy
calls however many positions it is given. The first batch is computed alone, so that it comes at
once, then twice as many each time up to `POSITIONS_AT_ONCE`.

Small batches are made several at a time, for the same reason, as long as that takes a moment only:
where storage is slow, a loop is not to wait for batches it did not ask for yet.

`WindowSource` gives single windows by number instead of batches.
"""

import functools
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from tokenmill.batches.batch import Batch
from tokenmill.batches.document_masks import DocumentMarks
from tokenmill.batches.rows.document_rows import DocumentRows
from tokenmill.batches.rows.window_rows import WindowRows
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.step_share import StepShare

POSITIONS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 3 << 18
ROWS_ANNOUNCED = 1024  # after so many, what comes is announced again: to files in a store
_A_MOMENT = 2e-3  # seconds
_NO_STEP = range(-1, 0)
_EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has keys of its own
_KEPT_UP_TO = 16 << 20  # bytes; glibc learns up to 32 MiB


@dataclass(eq=False)
class BatchMaker:
    """Everything a batch is made from."""

    rows: WindowRows | DocumentRows
    order: SampleOrder
    share: StepShare
    dtype: np.dtype[Any]
    augment: Callable[[Batch], Batch] | None = None
    """Changes a batch before it is served, by its tokens, segments and samples alone."""

    def __post_init__(self) -> None:
        tokens = self.share.batch_size * self.order.block_size
        self._most_together = max(1, TOKENS_AT_ONCE // tokens)

    def run(self, first: int, stop: int | None = None, stride: int = 1) -> Iterator[Batch]:
        """The batches of the steps first, first + stride, ..., before `stop` if there is one."""
        keep_freed_memory()
        step, num_steps = first, 1
        smallest = min(source.samples_per_epoch for source in self.order.sources)
        by_epochs = _EPOCHS_AT_ONCE * smallest // (self.share.samples_per_step * stride)
        positions = int(POSITIONS_AT_ONCE / self.rows.pieces_per_row)
        most = max(1, min(positions // self.share.batch_size, by_epochs))
        while stop is None or step < stop:
            after = step + num_steps * stride
            steps = range(step, after if stop is None else min(after, stop), stride)
            samples = self.share.samples(steps)
            yield from self._batches(steps, samples, self.rows.locate(samples))
            step = after
            num_steps = min(2 * num_steps, most)

    def _batches(self, steps: range, samples: np.ndarray, places: Any) -> Iterator[Batch]:
        """The batches of some steps, one step a row of `samples`."""
        i, together = 0, 1  # the next step to make, and how many at once
        announced, all_here = 0, False
        while i < len(steps):
            if not all_here and i >= announced:
                all_here = self.rows.expect(places.steps(i, len(steps)))
                announced = i + max(1, ROWS_ANNOUNCED // samples.shape[1])
            these = places.steps(i, i + together)
            began = time.perf_counter()
            try:
                stored, marks = self.rows.take(these)
            except Exception:
                if together == 1:
                    raise
                together = 1  # what is wrong with one batch is raised when its turn comes
                continue
            seconds = time.perf_counter() - began
            several = slice(i, i + len(stored))
            for batch in self._made(steps[several], samples[several], these, stored, marks):
                yield batch
                i += 1
            del stored, marks, batch  # their memory is for the next ones
            if seconds > _A_MOMENT:
                together = max(1, together // 2)
            elif seconds < _A_MOMENT / 2:
                together = min(2 * together, self._most_together)

    def batch_of(self, samples: np.ndarray, places: Any) -> Batch:
        """These samples, located as one step, as a batch of no step."""
        self.rows.expect(places)
        stored, marks = self.rows.take(places)
        return next(self._made(_NO_STEP, samples[None], places, stored, marks))

    def _made(
        self,
        steps: range,
        samples: np.ndarray,
        places: Any,
        stored: np.ndarray,
        marks: Sequence[DocumentMarks | None],
    ) -> Iterator[Batch]:
        """The batches of these tokens, one step after the other."""
        starts, sources, augment = places.starts, places.sources, self.augment
        banned = (
            [None] * len(stored) if places.banned is None else places.banned.of_each(len(stored))
        )
        each = zip(steps, stored, marks, banned, strict=True)
        for i, (step, tokens, mark, banned_runs) in enumerate(each):
            tokens = tokens.astype(self.dtype, copy=False)
            pieces = places.row_pieces(i)
            batch = Batch(tokens, step, samples[i], starts[i], sources[i], mark, pieces)
            batch.banned_runs = banned_runs
            yield batch if augment is None else augment(batch)


class _LocatedAhead(NamedTuple):
    """Where runs of `size` samples are, one after the other from sample `first` on."""

    first: int
    size: int
    num_runs: int
    places: Any


class WindowSource:
    """Sample number -> (block_size + 1,) array of tokens: the order as a plain sequence.

    Grain takes it as a RandomAccessDataSource, torch as a map-style dataset, JAX code by indexing.
    Item i is the i-th sample of the order, so reading 0, 1, 2, ... reads the shuffled order.
    """

    def __init__(self, maker: BatchMaker, num_samples: int) -> None:
        self._maker, self._num_samples = maker, num_samples
        self._ahead: _LocatedAhead | None = None

    def __len__(self) -> int:
        return self._num_samples

    def __repr__(self) -> str:
        return f"<WindowSource of {self._num_samples:,} windows>"

    def __getitem__(self, i: SupportsIndex) -> np.ndarray:
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[np.ndarray]:
        """The tokens of several samples, gathered at once (what torch's DataLoader calls)."""
        batch = self.batch(indices)
        refuse_labels_apart(batch, is_padded=batch.pieces is not None)
        return list(batch.tokens)

    def batch(self, indices: Sequence[SupportsIndex]) -> Batch:
        """Several samples as one batch, with all that is known about them."""
        samples = np.array([operator.index(i) for i in indices], np.int64)
        samples[samples < 0] += self._num_samples
        if samples.size and not (samples.min() >= 0 and samples.max() < self._num_samples):
            raise IndexError(f"windows {list(indices)} of a source of {self._num_samples} windows")
        return self._maker.batch_of(samples, self._located(samples))

    def _located(self, samples: np.ndarray) -> Any:
        """Where these samples are; of a run of them, which others follow, many are located."""
        size, ahead = len(samples), self._ahead
        if size < 2 or not (samples[1:] - samples[:-1] == 1).all():
            return self._maker.rows.locate(samples[None])
        first, num_runs = int(samples[0]), 1
        if ahead is not None and ahead.size == size:
            run, rest = divmod(first - ahead.first, size)
            if not rest and 0 <= run < ahead.num_runs:
                return ahead.places.steps(run, run + 1)
            if 0 <= run < 4 * ahead.num_runs:
                num_runs = min(4 * ahead.num_runs, max(1, POSITIONS_AT_ONCE // size))
        num_runs = min(num_runs, max(1, (self._num_samples - first) // size))
        runs = first + np.arange(num_runs * size).reshape(num_runs, size)
        self._ahead = _LocatedAhead(first, size, num_runs, self._maker.rows.locate(runs))
        return self._ahead.places.steps(0, 1)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_ahead": None}

    _getitems = __getitems__  # what Grain calls


def refuse_labels_apart(batch: Batch, *, is_padded: bool = False) -> None:
    """Refuse to give rows of tokens alone, where labels are not what the tokens say."""
    if batch.banned_runs is not None:
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


@functools.cache
def keep_freed_memory() -> None:
    """Let the memory that batches give back be kept for the next ones; once in a process.

    glibc, the C library of most Linux systems, returns every freed block of 128 KiB or more to the
    kernel, which hands it out again page by page, zeroed: for a batch of 64 rows of 1024 that takes
    several times as long as filling it. But the library learns: once a larger block was freed,
    blocks up to that size are kept. A program that trains has freed such a block long before; here
    one is freed on purpose, never touched, so that the first batches are as fast as later ones. On
    other libraries this has no effect.
    """
    np.empty(_KEPT_UP_TO, np.uint8)
