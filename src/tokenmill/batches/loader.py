"""The online half in one file: data -> order -> reader -> batches.

A loader holds one number, the samples consumed so far over all ranks. The batch of a step is a
function of (data, order, step, rank): the order turns sample numbers into spans of tokens
(order/order.py), a reader copies them (reading/span_reader.py), a thread keeps a few batches ready
(prefetch.py). `edit` changes the order from a step on (edits/); the state then holds the edits.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tokenmill.base.signatures import checks_arguments
from tokenmill.base.suggest import check_below
from tokenmill.batches.batch import Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.batch_maker import BatchMaker
from tokenmill.batches.passes import Passes, left_out, report_end, stats_of_sources
from tokenmill.batches.prefetch import Prefetcher
from tokenmill.batches.run import Run, RunSettings, number_of
from tokenmill.batches.state import STATE_FORMAT, belongs_to, read_state
from tokenmill.dataset import TokenDataset
from tokenmill.order.order_settings import OrderSettings
from tokenmill.order.step_share import LARGEST, StepShare
from tokenmill.order.window_order import Arrangement

if TYPE_CHECKING:  # imported when they are used
    from tokenmill.batches.lookup import SamplePlace, Visit
    from tokenmill.batches.mixture import Mixture
    from tokenmill.batches.window_source import WindowSource
    from tokenmill.edits.edit_values import Edit
    from tokenmill.edits.edited_run import EditedRun
    from tokenmill.edits.usage import FoundUsage, SourceUsage


class BatchLoader:
    """Batches of a dataset or a mixture, in an order that is a function of the seed.

    `batch_size` counts the rows of ONE rank: a step takes `world_size * batch_size` windows
    (`--global_batch_size` of `tokenmill train`). `block_size` is the length of a window in
    tokens. `order` is "shuffle", "sequential", "blocks" or "random", or a `Blocks(...)`; with
    `phase` the edges of windows move from epoch to epoch. With `documents` batches say where
    documents are. `form` is how batches look and are made ready, a `BatchForm`.

    `rows` are "windows", "packed" (whole documents, as many as fit, then padding) or "documents"
    (one a row, then padding): rows.md. `begin_token` is an id to put before every document of
    the latter two. `long` says what becomes of documents longer than a row: "split" makes several
    rows of them, "cut" one of their beginning, "drop" none. Where there is padding, a batch unpacks
    as `inputs, labels`. `augment` is a list
    of augmentations, such as `FillInTheMiddle()`: docs/guides/augmentation.md.

    Endless unless `epochs` is given. A pass of `epochs` epochs ends with the last whole step; the
    loader then says what it left out, and iterating again continues with the next epochs. Of a
    mixture, `epochs={"wiki": 1}` ends a pass when that source has had one epoch.
    """

    @checks_arguments
    def __init__(
        self,
        data: "TokenDataset | Mixture",
        *,
        batch_size: int = 8,
        block_size: int = 1024,
        seed: int = 0,
        order: str | Arrangement = "shuffle",
        rank: int = 0,
        world_size: int = 1,
        epochs: int | Mapping[str, int] | None = None,
        phase: bool = False,
        rows: str = "windows",
        begin_token: int | None = None,
        long: str = "split",
        augment: Sequence[Any] | None = None,
        documents: bool = False,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
    ) -> None:
        rules = OrderSettings(block_size, seed, order, phase, rows, begin_token, long)
        self.data = data
        self.epochs = epochs
        self.form = form
        settings = RunSettings(rules, augment or (), documents, form)
        if isinstance(data, TokenDataset):
            self._given = Run.of(("data",), (data,), None, settings)
        elif not hasattr(data, "stages"):
            raise TypeError(
                f"data is {data!r:.100}; expected a TokenDataset or a Mixture\n\nhint: open a path "
                f'first: tokenmill.open("{data!s:.100}")'
            )
        else:
            self._given = Run.of(data.names, data.datasets, data.stages, settings)
        self._run = self._given  # with the edits that were made
        self._edited: EditedRun | None = None  # None: the run has no edits
        self.passes = Passes(epochs, self._run)
        """Where passes of `epochs` begin and end."""
        self._maker = BatchMaker(self._run, StepShare(batch_size, rank, world_size))
        self._samples = 0  # consumed, over all ranks
        self._pass = 0
        self._ended = False
        self._batches: Prefetcher[Batch] | None = None
        self._waited = 0.0  # seconds
        self._served = 0  # steps
        self._reported = False
        self._used: dict[str, FoundUsage] = {}  # by source

    def __repr__(self) -> str:
        rules = self._run.settings.order
        tokens = sum(data.num_tokens for data in self.datasets)
        return (
            f"<{type(self).__name__} of {tokens:,} tokens: {self.batch_size} {rules.rows} of "
            f"{self.block_size:,}, order={self._run.order.sources[0].name!r}, seed={rules.seed}, "
            f"rank {self.rank} of {self.world_size}, at step {self.step:,}>"
        )

    # What it is

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sources; that of a single dataset is "data"."""
        return self._run.names

    @property
    def datasets(self) -> tuple[TokenDataset, ...]:
        """The data of each source."""
        return self._run.datasets

    @property
    def batch_size(self) -> int:
        """Rows of a batch on one rank."""
        return self._maker.share.batch_size

    @property
    def block_size(self) -> int:
        """Inputs, and targets, of a row."""
        return self._run.order.block_size

    @property
    def rank(self) -> int:
        return self._maker.share.rank

    @property
    def world_size(self) -> int:
        return self._maker.share.world_size

    @property
    def step(self) -> int:
        """The number of the next step; a loader with `epochs` counts from 0 in each pass."""
        return (self._samples - self._maker.share.origin) // self._maker.share.samples_per_step

    @property
    def epoch(self) -> int:
        """The epoch of the next sample; in a mixture, that of the source furthest on."""
        return max(self._run.order.epochs_before(self._samples))

    def __len__(self) -> int:
        """Steps of a whole pass, equal on all ranks; an endless loader has no length."""
        if (num_steps := self._num_steps()) is None:
            raise TypeError(
                "an endless loader has no length; give it epochs=\n\n"
                "hint: a DataLoader takes rows: give it tokenmill.torch.WindowsDataset"
            )
        return num_steps

    # Iterating

    def __iter__(self) -> Self:
        if self._ended and self.passes.limits:
            self._pass += 1
            self._seek(self.passes.start_of(self._pass))
        return self

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        batches = self._batches
        if batches is None or not batches.alive():
            batches = self._batches = self.batches_ahead(self.step)
        try:
            batch = next(batches)
        except StopIteration:
            self.close()
            self._ended = True
            left = self._left_out()
            if left is not None and not self._reported:
                self._reported = True
                report_end(self.epochs, len(self), left, self._maker.share, self._run.order)
            raise
        except BaseException:
            self.close()  # the next call starts again at the same step
            raise
        if batch.step != self.step:
            # A Ctrl-C came between taking a batch and counting it: that batch is still due.
            self.close()
            return BatchLoader.__next__(self)  # a subclass makes tensors of it
        self._samples += self._maker.share.samples_per_step
        self._served += 1
        return batch

    def with_state(self) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield each batch of this pass with the state that resumes *at* it, not after it.

        For loops that fetch a batch before they train on it: save the state that came with it.
        """
        batches = iter(self)
        state = self.state_dict()
        for batch in batches:
            yield batch, state
            state = self.state_dict()

    def batch(self, step: int) -> Batch:
        """The batch of any step (of this pass), without moving the loader."""
        self._check_step(step)
        return next(self.batches(step))

    def batches(self, first: int, stride: int = 1) -> Iterator[Batch]:
        """Yield the batches of steps first, first + stride, ... of this pass; the loader stays."""
        return self._maker.run(first, self._num_steps(), stride)

    def batches_ahead(self, first: int, stride: int = 1) -> Prefetcher[Batch]:
        """Return the same batches, made ahead by a thread that logs waits which are too long."""
        settings = (self.form.prefetch, self._maker.times["wait"], self.form.stall_seconds)
        return Prefetcher(self.batches(first, stride), *settings)

    def close(self) -> None:
        """End the prefetching thread; iterating again starts a new one."""
        batches = self._batches
        self._batches = None
        if batches is not None:
            self._waited += batches.seconds_waited
            batches.close()

    def set_epoch(self, epoch: int) -> None:
        """Begin this pass, unless the loader is inside it: then what was read of it stays read.

        Passes follow each other without it. An endless loader has one pass, and ignores it.
        """
        check_below("epoch", epoch, LARGEST)
        if self.passes.limits and (self._ended or epoch != self._pass):
            self._pass = epoch
            self._seek(self.passes.start_of(epoch))

    # Editing

    def edit(self, *edits: "Edit", at: int | None = None, note: str | None = None) -> None:
        """Change the order from step `at` on, by default the next one: docs/guides/edits.md.

        All ranks must make the same edits (`order_fingerprint`). The state holds them, with the
        note. If one of them is refused, none is made.
        """
        from tokenmill.edits.edit_record import record_edits
        from tokenmill.edits.edited_run import EditedRun

        share = self._maker.share
        sample = share.first_sample(self.step if at is None else at)
        records = record_edits(
            edits, sample, note, served=self._samples, steps_begin_at=share.first_sample
        )
        edited = (self._edited or EditedRun(self._given)).with_edits(records)
        self._use(edited.now, edited)

    @property
    def edits(self) -> list[dict[str, Any]]:
        """All edits as JSON: the sample from which each holds, what it is, note, fingerprint."""
        return [] if self._edited is None else [dict(edit) for edit in self._edited.edits_json]

    @property
    def order_fingerprint(self) -> str:
        """A hash of the order with all its edits; ranks of one run must have the same."""
        edited = self._edited
        return self._given.order_fingerprint if edited is None else edited.fingerprint

    def _use(self, run: Run, edited: "EditedRun | None" = None) -> None:
        passes = Passes(self.epochs, run)  # refuses here what cannot be applied
        self.close()  # batches that were made ahead may be others now
        self._maker = BatchMaker(run, self._maker.share, times=self._maker.times)
        self._run = run
        self._edited = edited
        self.passes = passes

    # Stopping and resuming

    def state_dict(self) -> dict[str, Any]:
        """How far this run is, by what was consumed: a few JSON values, always the same keys.

        A run that was edited has one more, the list of `edits`.
        """
        return {
            "format": STATE_FORMAT,
            "samples": self._samples,
            "pass": self._pass,
            **(self._given if self._edited is None else self._edited.base).to_json(),
            **({"edits": edits} if (edits := self.edits) else {}),
        }

    def load_state_dict(
        self, state: Mapping[str, Any], *, sources: Mapping[str, TokenDataset] | None = None
    ) -> None:
        """Resume where `state` was saved, on this number of ranks and with this batch size.

        Its edits come with it. `sources` are the data of sources that were added, by name; the
        others are opened where they were.
        """
        here = self._given.to_json()
        if self._edited is None and belongs_to(state, here):
            samples, number = read_state(state, here)
            self._use(self._given)
        else:  # it was edited, or its data or weights differ from ours
            from tokenmill.edits.resumed_run import resumed_run

            edited, samples, number = resumed_run(
                self._given, state, sources or {}, held=self.datasets
            )
            dropped_from = self._edited
            self._use(edited.now, edited)
            if dropped_from is not None:
                dropped_from.warn_of_dropped(edited)
        self._used = {}
        self._pass = self.passes.pass_of(samples, number)
        self._seek(samples)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": None}

    # Looking up

    def locate(
        self, step: int, row: int, column: int = 0, *, rank: int | None = None
    ) -> "SamplePlace":
        """Where the token at (row, column) of a step's batch comes from: file, document, offset.

        Column 0 to block_size - 1 are the inputs; targets are one further. A begin token that was
        put in is at `document_offset` -1; padding comes from nowhere, and is an IndexError.
        """
        from tokenmill.batches.lookup import SamplePlace, SamplePlaceWithFacts, place_in_row

        self._check_step(step)
        share = self._maker.share
        rank = self.rank if rank is None else rank
        check_below("row", row, share.batch_size)
        check_below("column", column, self.block_size + 1)
        check_below("rank", rank, share.world_size)
        sample = share.first_sample(step) + rank * share.batch_size + row
        epoch = int(self._run.order.epoch_of(np.array([sample]))[0])
        source, place = place_in_row(self.datasets, self._run.order, sample, column)
        found = SamplePlace(self.names[source], epoch, sample, *place)
        if (number := found.document) is not None and self.datasets[source].has_facts:
            found = SamplePlaceWithFacts(*found)
            found.facts = self.datasets[source].facts_of(number)
        return found

    def when(
        self,
        document: int | None = None,
        *,
        tokens: tuple[int, int] | None = None,
        source: str | None = None,
        epochs: Iterable[int] | None = None,
    ) -> "list[Visit]":
        """The steps that train on a document, or on tokens start .. stop-1, in order.

        A step counts if one of the tokens is a target in it. `epochs` are those of the source; by
        default the ones of this pass, or of an endless loader all up to the present one.
        """
        from tokenmill.batches.lookup import visits_of

        number = number_of(source, self.names)
        if (document is None) == (tokens is None):
            raise ValueError("give either a document or tokens=(start, stop), one of them")
        if document is not None:
            tokens = self.datasets[number].document_range(document)
        assert tokens is not None
        if epochs is None:
            epochs = self.passes.epochs_of(number, self._pass, self.epoch)
        start, stop = tokens
        num_tokens = self.datasets[number].num_tokens
        if not 0 <= start <= stop <= num_tokens:
            raise ValueError(
                f"tokens are {start} to {stop}; they must rise, within the {num_tokens:,} of the "
                "source"
            )
        targeting = self._run.order.samples_targeting(number, start, stop, epochs)
        return visits_of(targeting, self._maker.share, self._num_steps())

    def windows(self, num_samples: int | None = None) -> "WindowSource":
        """The samples in order as a sequence: for Grain, JAX and map-style torch datasets.

        Item i is sample i, a (block_size + 1,) array: a window, or a row of documents. As long as
        one epoch (or `epochs` of them), or `num_samples`, which a mixture needs.
        """
        from tokenmill.batches.window_source import WindowSource

        if num_samples is None:
            num_samples = self.passes.length_of_first()
        return WindowSource(BatchMaker(self._run, self._maker.share, any_order=True), num_samples)

    def stats(self) -> dict[str, Any]:
        """Numbers of what was served: by source over all ranks, and our own part.

        Samples count along the order: those that an ended pass left out are counted, too.
        `left_out` is what a pass of `epochs` does not serve: samples that do not fill a step, and
        the tokens after the last whole window of each epoch. Of packed rows each source also says
        what an epoch is made of: rows, documents, how many of them are cut, and padding.

        `stages` are how long the loop waited for batches (of steps longer than 0.2 ms), and how
        long it took to order, read, fetch and copy some: count, and seconds in all, p50, p95, p99
        and max. `queue_depth` is how many more batches were ready when one was taken, of late.
        """
        num_read = self._served * self.batch_size * (self.block_size + 1)  # tokens
        return {
            "samples": self._samples,
            "tokens": self._samples * self.block_size,
            "sources": stats_of_sources(self.names, self._run.order, self._samples),
            "steps_here": self._served,
            "bytes_read_here": num_read * max(data.dtype.itemsize for data in self.datasets),
            "seconds_waited": self._waited + (self._batches.seconds_waited if self._batches else 0),
            "left_out": self._left_out(),
            "stages": {stage: times.summary() for stage, times in self._maker.times.items()},
            "queue_depth": 0.0 if self._batches is None else self._batches.queue_depth,
        }

    def usage(self, step: int | None = None, *, shards: bool = True) -> "list[SourceUsage]":
        """How often each source, and each shard, was used before a step: by default the next.

        Nothing is used after the last step of a pass. Samples that earlier passes left out count.
        """
        from tokenmill.edits.usage import usage_of

        step = self.step if step is None else step
        share = self._maker.share
        check_below("step", step, LARGEST // share.samples_per_step)
        num_steps = self._num_steps()
        samples = share.first_sample(step if num_steps is None else min(step, num_steps))
        known = self._used if samples <= self._samples else dict(self._used)
        return usage_of(self._run, samples, shards=shards, known=known)

    def _left_out(self) -> dict[str, int] | None:
        stop = self.passes.stop_of(self._pass)
        first = 0 if stop is None else self._maker.share.first_sample(len(self))
        return None if stop is None else left_out(self._run.order, first, stop, self.epochs)

    # Inside

    def _num_steps(self) -> int | None:
        """Steps of this pass; None in an endless loader."""
        stop = self.passes.stop_of(self._pass)
        share = self._maker.share
        return None if stop is None else max(0, stop - share.origin) // share.samples_per_step

    def _seek(self, samples: int) -> None:
        """Go to a sample number of this pass; steps are counted so that one begins there."""
        self.close()
        self._ended = False
        self._samples = samples
        share = self._maker.share
        low = self.passes.start_of(self._pass)
        origin = low + (samples - low) % share.samples_per_step
        self._maker.share = replace(share, origin=origin)

    def _check_step(self, step: int) -> None:
        num_steps = self._num_steps()
        stop = LARGEST // self._maker.share.samples_per_step if num_steps is None else num_steps
        if not 0 <= step < stop:
            raise IndexError(f"step is {step}; this loader has steps 0 to {stop - 1}")
