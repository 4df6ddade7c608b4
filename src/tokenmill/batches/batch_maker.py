"""From a step number to arrays. A BatchMaker has no position; a loader or a thread asks it.

Positions are computed for many steps at a time: the arithmetic of the order costs about 70 NumPy
calls however many positions it is given. The first batch is computed alone, so that it comes
immediately, then twice as many each time up to `POSITIONS_AT_ONCE`.

Small batches are read several at a time, for the same reason, as long as that takes a moment only:
where storage is slow, a loop is not to wait for batches it did not ask for yet.
"""

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tokenmill.batches.batch import Batch, HalvedRows, WholeRows
from tokenmill.batches.located import Located
from tokenmill.errors import TokenmillError
from tokenmill.order.order import Order
from tokenmill.order.spans import Spans
from tokenmill.order.step_share import StepShare
from tokenmill.reading.span_reader import SpanReader

if TYPE_CHECKING:  # of rows with documents
    from tokenmill.batches.document_masks import DocumentMarks
    from tokenmill.batches.padding import Padding
    from tokenmill.batches.window_documents import RowBegins

POSITIONS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 1 << 19
_A_MOMENT = 2e-3  # seconds
_EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has its own keys
_KEPT_UP_TO = 16 << 20  # bytes; glibc learns up to 32 MiB


class DocumentFields(Protocol):
    """Finds the fields of batches that say where documents are."""

    def locate(self, spans: Spans) -> "RowBegins | None":
        """What can be known without the tokens."""

    def marks(
        self, spans: Spans, tokens: np.ndarray, begins: "RowBegins | None"
    ) -> "Sequence[DocumentMarks]":
        """The fields of each batch; `tokens` are (batches, rows, length)."""


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
        fields: DocumentFields | None = None,
        padding: "Padding | None" = None,
        changes: Sequence[Callable[[Batch], Batch]] = (),
    ) -> None:
        """`halves`: inputs and targets are arrays of their own; then there are no `fields`."""
        self.order = order
        self.share = share
        self._reader = reader
        self._dtype = np.dtype(dtype)
        self._halves = halves
        self._fields = fields
        self._padding = padding
        self._changes = changes
        self._most_together = max(1, TOKENS_AT_ONCE // (share.batch_size * order.block_size))
        self._coming: tuple[Located, int] | None = None  # the steps from a number on
        reader.follow(self.spans_to_come)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_coming": None}

    def run(self, first: int, stop: int | None = None, stride: int = 1) -> Iterator[Batch]:
        """The batches of the steps first, first + stride, ..., before `stop` if there is one."""
        keep_freed_memory()
        step = first
        num_steps = 1
        most = self._most_steps(stride)
        while stop is None or step < stop:
            after = step + num_steps * stride
            steps = range(step, after if stop is None else min(after, stop), stride)
            yield from self._batches(steps, self.locate(self.share.samples(steps)))
            step = after
            num_steps = min(2 * num_steps, most)

    def _most_steps(self, stride: int) -> int:
        """Steps to locate at a time."""
        smallest = min(source.samples_per_epoch for source in self.order.sources)
        by_epochs = _EPOCHS_AT_ONCE * smallest // (self.share.samples_per_step * stride)
        positions = int(POSITIONS_AT_ONCE / self.order.spans_per_row)
        return max(1, min(positions // self.share.batch_size, by_epochs))

    def locate(self, samples: np.ndarray) -> Located:
        """Where the tokens of these samples are; (steps, rows) of samples."""
        spans = self.order.rows(samples.reshape(-1))
        begins = None
        if self._fields is not None:
            with suppress(TokenmillError):  # raised again at the step that needs what is wrong
                begins = self._fields.locate(spans)
        copies = spans
        if self._halves:
            copies = spans.halved(samples.shape[1], self.order.block_size)
        sources = spans.row_sources.reshape(samples.shape)
        starts = spans.row_starts.reshape(samples.shape)
        return Located(samples, spans, copies, sources, starts, begins)

    def spans_to_come(self) -> Spans:
        """The spans that were located and are read now or next."""
        assert self._coming is not None
        located, number = self._coming
        return located.copies_of(number, len(located.samples))

    def _batches(self, steps: range, located: Located) -> Iterator[Batch]:
        number = 0  # of the next step to make
        together = 1
        while number < len(steps):
            stop = min(number + together, len(steps))
            began = time.perf_counter()
            try:
                made = self._made(steps, located, number, stop)
            except Exception:
                if together == 1:
                    raise
                together = 1  # what is wrong with one batch is raised when its turn comes
                continue
            seconds = time.perf_counter() - began
            for batch in made:
                for change in self._changes:
                    batch = change(batch)
                yield batch
            del made, batch  # their memory is for the next ones
            number = stop
            if seconds > _A_MOMENT:
                together = max(1, together // 2)
            elif seconds < _A_MOMENT / 2:
                together = min(2 * together, self._most_together)

    def batch_of(self, located: Located, number: int) -> Batch:
        """The samples of one located step as a batch of no step."""
        (batch,) = self._made([-1] * (number + 1), located, number, number + 1)
        for change in self._changes:
            batch = change(batch)
        return batch

    def _made(self, steps: Sequence[int], located: Located, low: int, high: int) -> list[Batch]:
        """The batches of the steps number low .. high-1, before `changes`."""
        self._coming = located, low
        num_rows = located.samples.shape[1]
        length = self.order.block_size + 1
        spans = located.copies_of(low, high)
        rows: list[Any]
        marks: Sequence[DocumentMarks | None] = [None] * (high - low)
        if self._halves:
            halves = np.empty((high - low, 2, num_rows, length - 1), self._dtype)
            self._reader.read(spans, halves.reshape(-1, length - 1))
            rows = [HalvedRows(*pair) for pair in halves]
        else:
            tokens = np.empty((high - low, num_rows, length), self._dtype)
            flat = tokens.reshape(-1, length)
            if self._padding is not None:
                self._padding.fill(spans, flat)
            self._reader.read(spans, flat)
            if self._padding is not None:
                self._padding.check(spans, flat)
            if self._fields is not None:
                marks = self._fields.marks(spans, tokens, located.begins_of(low, high))
            rows = [WholeRows(batch) for batch in tokens]
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
                self._padding is not None,
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
    np.empty(_KEPT_UP_TO, np.uint8)
