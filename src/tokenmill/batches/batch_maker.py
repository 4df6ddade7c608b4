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

from tokenmill.batches.batch import BannedRuns, Batch, HalvedRows, RowGroup, WholeRows
from tokenmill.batches.located import Located
from tokenmill.errors import TokenmillError
from tokenmill.order.order import Order
from tokenmill.order.spans import Spans
from tokenmill.order.step_share import StepShare
from tokenmill.reading.span_reader import SpanReader

if TYPE_CHECKING:  # what most loaders have no use for
    from tokenmill.augment.augmenter import Augmenter
    from tokenmill.batches.document_masks import DocumentMarks
    from tokenmill.batches.padding import Padding
    from tokenmill.batches.window_documents import RowBegins

POSITIONS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 1 << 19
_A_MOMENT = 2e-3  # seconds
_EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has its own keys
_KEPT_UP_TO = 16 << 20  # bytes; glibc learns up to 32 MiB


class DocumentFields(Protocol):
    """Finds the tokens of rows that begin a document."""

    looks_at_tokens: bool
    """True if readers are to look for the end-of-text id as well."""

    def locate(self, spans: Spans) -> "RowBegins | None":
        """What can be known without the tokens."""

    def continues(self, spans: Spans, begins: "RowBegins | None", length: int) -> np.ndarray:
        """(rows, length) bool: False for each token that begins a document, or is padding."""


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
        max_documents: int | None = None,
        padding: "Padding | None" = None,
        bans: Callable[[Located, int, int], BannedRuns | None] | None = None,
        augmenter: "Augmenter | None" = None,
    ) -> None:
        """`halves`: inputs and targets are arrays of their own; then nothing of what follows.

        `bans` gives the banned tokens of one of the located steps.
        """
        self.order = order
        self.share = share
        self._reader = reader
        self._dtype = np.dtype(dtype)
        self._halves = halves
        self._fields = fields
        self._max_documents = max_documents
        self._padding = padding
        self._bans = bans
        self._augmenter = augmenter
        # Rows that are augmented have labels, too: fewer of them stay in the processor's cache.
        at_once = TOKENS_AT_ONCE if augmenter is None else TOKENS_AT_ONCE // 2
        self._most_together = max(1, at_once // (share.batch_size * order.block_size))
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
            yield from made
            del made  # their memory is for the next ones
            number = stop
            if seconds > _A_MOMENT:
                together = max(1, together // 2)
            elif seconds < _A_MOMENT / 2:
                together = min(2 * together, self._most_together)

    def batch_of(self, located: Located, number: int) -> Batch:
        """The samples of one located step as a batch of no step."""
        (batch,) = self._made([-1] * (number + 1), located, number, number + 1)
        return batch

    def _made(self, steps: Sequence[int], located: Located, low: int, high: int) -> list[Batch]:
        """The batches of the steps number low .. high-1."""
        self._coming = located, low
        num_batches = high - low
        marks: Any = [None] * num_batches
        labels: Any = marks
        banned: Any = marks
        rows: Sequence[HalvedRows] | Sequence[WholeRows]
        if self._halves:
            rows = self._read_halves(located, low, high)
        else:
            group = self._read(located, low, high)
            if self._augmenter is not None:
                self._augmenter(group)
            rows = [WholeRows(tokens) for tokens in group.cut(group.tokens)]
            if group.continues is not None:
                marks = self._mark_documents(group)
            if group.labels is not None:
                labels = group.cut(group.labels)
            if group.banned is not None:
                banned = group.banned
        labels_are_inputs = self._augmenter is not None and self._augmenter.labels_are_inputs
        return [
            Batch(
                rows[i],
                steps[low + i],
                located.samples[low + i],
                located.starts[low + i],
                located.sources[low + i],
                located,
                low + i,
                marks[i],
                self._padding is not None,
                labels[i],
                labels_are_inputs,
                banned[i],
            )
            for i in range(num_batches)
        ]

    def _read_halves(self, located: Located, low: int, high: int) -> list[HalvedRows]:
        shape = (high - low, 2, located.samples.shape[1], self.order.block_size)
        halves = np.empty(shape, self._dtype)
        self._reader.read(located.copies_of(low, high), halves.reshape(-1, shape[-1]))
        return [HalvedRows(*pair) for pair in halves]

    def _read(self, located: Located, low: int, high: int) -> RowGroup:
        spans = located.copies_of(low, high)
        length = self.order.block_size + 1
        group = RowGroup(np.empty((spans.num_rows, length), self._dtype), located.samples[low:high])
        if self._padding is not None:
            group.filled = spans.filled
            self._padding.fill(spans, group.tokens)
        marked = None
        if self._fields is not None:
            begins = located.begins_of(low, high)
            group.continues = self._fields.continues(spans, begins, length)
            marked = group.continues if self._fields.looks_at_tokens else None
        self._reader.read(spans, group.tokens, marked)
        if self._padding is not None:
            self._padding.check(spans, group.tokens)
        if self._bans is not None:
            group.banned = [self._bans(located, step, length) for step in range(low, high)]
        return group

    def _mark_documents(self, group: RowGroup) -> "list[DocumentMarks]":
        from tokenmill.batches.document_masks import mark_documents

        assert group.continues is not None
        filled = None if group.filled is None else group.cut(group.filled)
        return mark_documents(group.cut(group.continues), filled, self._max_documents)


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
