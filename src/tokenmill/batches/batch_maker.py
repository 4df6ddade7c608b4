"""From a step number to arrays. A BatchMaker has no position; a loader or a thread asks it.

Positions are computed for many steps at a time: the arithmetic of the order costs about 70 NumPy
calls however many positions it is given. The first batch is computed alone, so that it comes
immediately, then twice as many each time up to `POSITIONS_AT_ONCE`.

Small batches are read several at a time, for the same reason, as long as that takes at most
`SECONDS_AT_ONCE`: where storage is slow, a loop is not to wait for batches it did not ask for yet.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tokenmill.batches.batch import Batch, Located
from tokenmill.order.order import Order
from tokenmill.order.spans import Spans
from tokenmill.order.step_share import StepShare
from tokenmill.reading.span_reader import SpanReader

if TYPE_CHECKING:  # of rows with documents
    from tokenmill.batches.document_masks import DocumentMarks

    MarkDocuments = Callable[[Spans, np.ndarray], Sequence[DocumentMarks]]
    """Finds where documents are in each of some batches; tokens are (batches, rows, length)."""

POSITIONS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 1 << 19
SECONDS_AT_ONCE = 2e-3
EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has its own keys
KEPT_MEMORY = 16 << 20  # bytes; glibc learns up to 32 MiB


class BatchMaker:
    """Everything a batch is made from."""

    def __init__(
        self,
        order: Order,
        reader: SpanReader,
        share: StepShare,
        dtype: npt.DTypeLike,
        *,
        halves: bool = False,
        has_padding: bool = False,
        mark_documents: "MarkDocuments | None" = None,
        changes: Sequence[Callable[[Batch], Batch]] = (),
    ) -> None:
        """`halves`: inputs and targets are arrays of their own, and documents are not marked."""
        self.order = order
        self.share = share
        self._reader = reader
        self._dtype = np.dtype(dtype)
        self._halves = halves
        self._has_padding = has_padding
        self._mark_documents = mark_documents
        self._changes = changes
        self._max_batches_at_once = max(1, TOKENS_AT_ONCE // (share.batch_size * order.block_size))
        self._coming: tuple[Located, int] | None = None  # the steps from a number on
        reader.follow(self.spans_to_come)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_coming": None}

    def run(self, first: int, stop: int | None = None, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches of the steps first, first + stride, ..., before `stop` if given."""
        keep_freed_memory()
        step = first
        num_steps = 1
        max_steps = self._max_steps_at_once(stride)
        while stop is None or step < stop:
            after = step + num_steps * stride
            steps = range(step, after if stop is None else min(after, stop), stride)
            yield from self._batches(steps, self.locate(self.share.samples(steps)))
            step = after
            num_steps = min(2 * num_steps, max_steps)

    def _max_steps_at_once(self, stride: int) -> int:
        """Steps to locate at a time."""
        smallest = min(source.samples_per_epoch for source in self.order.sources)
        by_epochs = EPOCHS_AT_ONCE * smallest // (self.share.samples_per_step * stride)
        positions = int(POSITIONS_AT_ONCE / self.order.spans_per_row)
        return max(1, min(positions // self.share.batch_size, by_epochs))

    def locate(self, samples: np.ndarray) -> Located:
        """Find where the tokens of these samples are; (steps, rows) of samples."""
        spans = self.order.rows(samples.reshape(-1))
        copies = spans
        if self._halves:
            copies = spans.halved(samples.shape[1], self.order.block_size)
        sources = spans.row_sources.reshape(samples.shape)
        starts = spans.row_starts.reshape(samples.shape)
        return Located(samples, spans, copies, sources, starts)

    def spans_to_come(self) -> Spans:
        """The spans that were located and are read now or next."""
        assert self._coming is not None
        located, number = self._coming
        return located.copies_of(number, len(located.samples))

    def _batches(self, steps: range, located: Located) -> Iterator[Batch]:
        number = 0  # of the next step to make
        at_once = 1
        while number < len(steps):
            stop = min(number + at_once, len(steps))
            began = time.perf_counter()
            try:
                made = self._make(steps, located, number, stop)
            except Exception:
                if at_once == 1:
                    raise
                at_once = 1  # what is wrong with one batch is raised when its turn comes
                continue
            seconds = time.perf_counter() - began
            for batch in made:
                yield self._changed(batch)
            del made, batch  # their memory is for the next ones
            number = stop
            if seconds > SECONDS_AT_ONCE:
                at_once = max(1, at_once // 2)
            elif seconds < SECONDS_AT_ONCE / 2:
                at_once = min(2 * at_once, self._max_batches_at_once)

    def batch_of(self, located: Located, number: int) -> Batch:
        """The samples of one located step as a batch of no step."""
        (batch,) = self._make([-1] * (number + 1), located, number, number + 1)
        return self._changed(batch)

    def _changed(self, batch: Batch) -> Batch:
        for change in self._changes:
            batch = change(batch)
        return batch

    def _make(self, steps: Sequence[int], located: Located, low: int, high: int) -> list[Batch]:
        """Make the batches of the steps number low .. high-1, before `changes`."""
        self._coming = located, low
        block_size = self.order.block_size
        shape: tuple[int, ...] = located.samples.shape[1], block_size + 1
        if self._halves:
            shape = 2, located.samples.shape[1], block_size
        rows = np.empty((high - low, *shape), self._dtype)
        spans = located.copies_of(low, high)
        self._reader.read(spans, rows.reshape(-1, shape[-1]))
        marks: Sequence[DocumentMarks | None] = [None] * (high - low)
        if self._mark_documents is not None:
            marks = self._mark_documents(spans, rows)
        return [
            Batch(
                rows[i - low],
                steps[i],
                located.samples[i],
                located.starts[i],
                located.sources[i],
                located,
                i,
                marks[i - low],
                self._has_padding,
            )
            for i in range(low, high)
        ]


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
    np.empty(KEPT_MEMORY, np.uint8)
