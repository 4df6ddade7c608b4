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
from typing import Any

import numpy as np

from tokenmill.base.histogram import Histogram
from tokenmill.base.stalls import waiting_for
from tokenmill.batches.batch import Batch, Located, RowGroup
from tokenmill.batches.id_check import IdCheck
from tokenmill.batches.run import Run
from tokenmill.order.order import ANYWHERE
from tokenmill.order.spans import Spans
from tokenmill.order.step_share import StepShare
from tokenmill.reading.span_reader import MixedReader, SpanReader

Times = dict[str, Histogram]
STAGES = ("wait", "order", "read", "fetch", "copy")
"""The owner waits for a batch; batches are ordered, read (fetched too) and copied to a device."""
FindDocuments = Callable[[Located, int, int, int], np.ndarray]
"""(located, first step, stop, length of a row) -> `RowGroup.continues`, as far as it is known."""

POSITIONS_AT_ONCE = 1 << 16
TOKENS_AT_ONCE = 1 << 19
SECONDS_AT_ONCE = 2e-3
EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has its own keys
KEPT_MEMORY = 16 << 20  # bytes; glibc learns up to 32 MiB


class BatchMaker:
    """Everything a batch is made from."""

    def __init__(
        self, run: Run, share: StepShare, *, any_order: bool = False, times: Times | None = None
    ) -> None:
        """`any_order`: samples may be asked for in any order. Stages are counted in `times`."""
        self.times = times or {stage: Histogram() for stage in STAGES}
        self._datasets = run.datasets
        form = run.settings.form
        order = run.order
        self.order = order
        self.share = share
        # Each dataset has a reader, chosen for the order in which it will be read.
        readers = [
            data.span_reader(ANYWHERE if any_order else source.locality, IdCheck(data, form))
            for data, source in zip(run.datasets, order.sources, strict=True)
        ]
        self._columns: Any = None
        if any(data.columns for data in run.datasets):
            from tokenmill.batches.run_columns import RunColumns

            self._columns = RunColumns(run)
        self._reader: SpanReader = readers[0] if len(readers) == 1 else MixedReader(readers)
        self._dtype = np.dtype(form.dtype)
        self._has_padding = run.settings.order.of_documents
        self._find_documents: FindDocuments | None = None
        if self._has_padding:
            from tokenmill.batches.document_masks import find_in_spans
            from tokenmill.batches.padding import PaddedReader

            begin_token = run.settings.order.begin_token
            self._reader = PaddedReader(self._reader, run.datasets, begin_token)
            self._find_documents = find_in_spans
        elif run.settings.needs_documents(run.augmenter):
            from tokenmill.batches.document_masks import FindByIndex

            self._find_documents = FindByIndex(run.datasets)
        self._max_documents = form.max_documents
        self._find_banned = run.bans
        self._augmenter = run.augmenter
        more_than_tokens = self._find_documents or run.bans or run.augmenter or self._columns
        self._halves = form.halves and not more_than_tokens
        # Rows that are augmented have labels, too: fewer of them stay in the processor's cache.
        tokens = TOKENS_AT_ONCE if run.augmenter is None else TOKENS_AT_ONCE // 2
        self._max_batches_at_once = max(1, tokens // (share.batch_size * order.block_size))
        self._coming: tuple[Located, int] | None = None  # the steps from a number on
        self._reader.follow(self._spans_to_come, self.times["fetch"])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_coming": None}

    def run(self, first: int, stop: int | None = None, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches of the steps first, first + stride, ..., before `stop` if given."""
        keep_freed_memory()
        step = first
        num_steps = 1
        smallest = min(source.samples_per_epoch for source in self.order.sources)
        by_epochs = EPOCHS_AT_ONCE * smallest // (self.share.samples_per_step * stride)
        positions = int(POSITIONS_AT_ONCE / self.order.spans_per_row)
        max_steps = max(1, min(positions // self.share.batch_size, by_epochs))
        while stop is None or step < stop:
            after = step + num_steps * stride
            steps = range(step, after if stop is None else min(after, stop), stride)
            with waiting_for("the order of batches", self.times["order"]):
                located = self.locate(self.share.samples(steps))
            yield from self._batches(steps, located)
            step = after
            num_steps = min(2 * num_steps, max_steps)

    def locate(self, samples: np.ndarray) -> Located:
        """Find where the tokens of these samples are; (steps, rows) of samples."""
        spans = self.order.rows(samples.reshape(-1))
        copies = spans
        if self._halves:
            copies = spans.halved(samples.shape[1], self.order.block_size)
        sources = spans.row_sources.reshape(samples.shape)
        starts = spans.row_starts.reshape(samples.shape)
        return Located(samples, spans, copies, sources, starts)

    def _spans_to_come(self) -> Spans:
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
                with waiting_for(self._describe, self.times["read"]):
                    made = self._make(steps, located, number, stop)
            except Exception:
                if at_once == 1:
                    raise
                at_once = 1  # what is wrong with one batch is raised when its turn comes
                continue
            seconds = time.perf_counter() - began
            yield from made
            del made  # their memory is for the next ones
            number = stop
            if seconds > SECONDS_AT_ONCE:
                at_once = max(1, at_once // 2)
            elif seconds < SECONDS_AT_ONCE / 2:
                at_once = min(2 * at_once, self._max_batches_at_once)

    def _describe(self) -> str:
        """Name the files of the step that is made."""
        spans = self._spans_to_come().between(0, self.share.batch_size)
        places = zip(spans.source, spans.start, spans.start + spans.length, strict=True)
        files = [file for i, *span in places for file in self._datasets[i].files_between(*span)]
        names = list(dict.fromkeys(file.path or file.name for file in files))
        return f"a batch of {len(names)} files: {', '.join(names[:3])}"

    def batch_of(self, located: Located, number: int) -> Batch:
        """The samples of one located step as a batch of no step."""
        (batch,) = self._make([-1] * (number + 1), located, number, number + 1)
        return batch

    def _make(self, steps: Sequence[int], located: Located, low: int, high: int) -> list[Batch]:
        self._coming = located, low
        nothing: Any = [None] * (high - low)
        marks = nothing
        labels = nothing
        banned = nothing
        columns = nothing
        if self._halves:
            shape = high - low, 2, located.samples.shape[1], self.order.block_size
            rows = np.empty(shape, self._dtype)
            self._reader.read(located.copies_of(low, high), rows.reshape(-1, shape[-1]))
        else:
            group = self._read(located, low, high)
            if self._augmenter is not None:
                self._augmenter(group)
            rows = group.cut(group.tokens)
            if group.continues is not None:
                from tokenmill.batches.document_masks import mark_documents

                filled = None if group.filled is None else group.cut(group.filled)
                marks = mark_documents(group.cut(group.continues), filled, self._max_documents)
            if group.labels is not None:
                labels = group.cut(group.labels)
            if group.banned is not None:
                banned = [flags if flags.any() else None for flags in group.cut(group.banned)]
            if group.columns is not None:
                of_batches = zip(*map(group.cut, group.columns.values()), strict=True)
                columns = [dict(zip(group.columns, rows, strict=True)) for rows in of_batches]
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
                labels[i - low],
                self._augmenter is not None and self._augmenter.labels_are_inputs,
                banned[i - low],
                columns[i - low],
            )
            for i in range(low, high)
        ]

    def _read(self, located: Located, low: int, high: int) -> RowGroup:
        spans = located.copies_of(low, high)
        length = self.order.block_size + 1
        group = RowGroup(np.empty((spans.num_rows, length), self._dtype), located.samples[low:high])
        if self._find_documents is not None:
            group.continues = self._find_documents(located, low, high, length)
        if self._columns is not None:
            group.columns = self._columns.cells(group.tokens.shape, padded=self._has_padding)
        if self._has_padding:  # every span is a document: the reader need not look for their ends
            group.filled = spans.filled
            self._reader.read(spans, group.tokens, None, group.columns)
        else:
            self._reader.read(spans, group.tokens, group.continues, group.columns)
        if self._find_banned is not None:
            group.banned = self._find_banned(located, low, high, length)
        if self._columns is not None:
            self._columns.finish(group, spans.row_sources)
        return group


@functools.cache
def keep_freed_memory() -> None:
    """Let the memory that batches give back be kept for the next ones; once in a process.

    glibc returns every freed block of 128 KiB or more to the kernel, which hands it out again page
    by page, zeroed: that takes several times as long as filling it. But once a larger block was
    freed, blocks up to that size are kept. So one is freed on purpose, never touched.
    """
    np.empty(KEPT_MEMORY, np.uint8)
