"""The online half in one file: data -> order -> batches.

    data = tokenmill.open("data/corpus")
    loader = tokenmill.BatchLoader(data, batch_size=8, block_size=1024, seed=0)
    for inputs, targets in loader:            # (8, 1024) int64 each, one token apart
        ...
        state = loader.state_dict()           # a few JSON values; load_state_dict() resumes here

A loader holds one number, the samples consumed so far over all ranks. The batch of a step is a
function of (data, order, step, rank): the order names the windows, or the documents of a row
(order/sample_order.py), `rows/` copies them, a thread keeps a few batches ready (prefetch.py). So
`batch(step)` looks anywhere without moving, a state resumes at once on other ranks and batch sizes,
and `locate` and `when` say what was in a step and when a document comes.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from tokenmill.batches.augment.augmenter import make_augmenter
from tokenmill.batches.augment.known_ids import IdRules
from tokenmill.batches.batch import Batch
from tokenmill.batches.batch_maker import BatchMaker, WindowSource
from tokenmill.batches.gather import check_dtype
from tokenmill.batches.loader_stats import left_out, report_end, stats_of_sources
from tokenmill.batches.lookup import SamplePlace, Visit, place_in_row, tokens_to_find, visits_of
from tokenmill.batches.mixture import Mixture
from tokenmill.batches.prefetch import Prefetcher
from tokenmill.batches.rows.document_rows import DocumentRows, check_begin_token
from tokenmill.batches.rows.window_rows import WindowRows
from tokenmill.batches.state import STATE_FORMAT, read_state
from tokenmill.batches.usage import SourceUsage, usage_of
from tokenmill.dataset import TokenDataset
from tokenmill.order.sample_order import SampleOrder, check_rows
from tokenmill.order.simple_orders import Arrangement
from tokenmill.order.step_share import StepShare
from tokenmill.order.windows import check_at_least_one, check_below


class OrderKeywords(TypedDict, total=False):
    """Keywords of BatchLoader that say what a window is, what it may hold and when it comes."""

    seed: int
    order: str | Arrangement
    phase: bool
    rows: str
    begin_token: int | None
    augment: Sequence[Any] | None
    dtype: npt.DTypeLike
    check_ids: bool


class LoaderKeywords(OrderKeywords, total=False):
    """Keywords that the loaders of torch pass on to BatchLoader; a test compares the two."""

    documents: bool
    max_documents: int | None


class BatchLoader:
    """Batches of a dataset or a mixture, in an order that is a function of the seed.

    `batch_size` counts the rows of ONE rank: a step takes `world_size * batch_size` windows
    (`tokenmill train` counts those of all ranks instead). `block_size` is the length of a window in
    tokens. `order` is "shuffle", "sequential", "blocks" or "random", or a `Blocks(...)`; with
    `phase` the edges of windows move from epoch to epoch. With `documents` batches say where
    documents are, at most `max_documents` in a row. `prefetch` batches are made ahead by a thread.
    An id below 0, or beyond a vocabulary that is known, is an error unless `check_ids` is False.

    `rows` are "windows", "packed" (whole documents, as many as fit, then padding) or "documents"
    (one a row, then padding): docs/rows.md. `begin_token` is an id to put before every document of
    the latter two. Where there is padding, a batch unpacks as `inputs, labels`. `augment` is a list
    of augmentations, such as `FillInTheMiddle()`: docs/augmentation.md.

    Endless unless `epochs` is given. A pass of `epochs` epochs ends with the last whole step; the
    loader then says what it left out, and iterating again continues with the next epochs.
    """

    def __init__(
        self,
        data: TokenDataset | Mixture,
        *,
        batch_size: int = 8,
        block_size: int = 1024,
        seed: int = 0,
        order: str | Arrangement = "shuffle",
        rank: int = 0,
        world_size: int = 1,
        epochs: int | None = None,
        phase: bool = False,
        rows: str = "windows",
        begin_token: int | None = None,
        augment: Sequence[Any] | None = None,
        documents: bool = False,
        max_documents: int | None = None,
        prefetch: int = 2,
        dtype: npt.DTypeLike = "int64",
        check_ids: bool = True,
    ) -> None:
        self.data = data
        self.datasets: tuple[TokenDataset, ...]
        if isinstance(data, Mixture):
            self.datasets, self.names, stages = data.datasets, data.names, data.stages
            wrong = "a mixture has no epochs of its own, stop after a number of steps instead"
        else:
            self.datasets, self.names, stages = (data,), ("data",), None
            wrong = "it must be at least 1, or None for an endless loader"
        if epochs is not None and (stages is not None or epochs < 1):
            raise ValueError(f"epochs is {epochs}; {wrong}")
        if prefetch < 0:
            raise ValueError(f"prefetch is {prefetch}; it must be 0 or more")
        if max_documents is not None:
            check_at_least_one(max_documents=max_documents)
        self.epochs, self.prefetch = epochs, prefetch
        kind, in_pieces = np.dtype(dtype), rows != "windows"
        augmenter = make_augmenter(
            augment or (), self.datasets, seed, begin_token, IdRules(kind, check_ids)
        )
        shown = documents or in_pieces
        marked = shown or augmenter.needs_documents
        check_rows(rows, order=order, phase=phase, begin_token=begin_token, block_size=block_size)
        for each in self.datasets:
            check_dtype(each, dtype)
            if marked:
                each.document_ends(0, 0)  # refuses here if nothing says where documents end
            if begin_token is not None:
                check_begin_token(each, begin_token)
        self._order = SampleOrder(
            [d.num_tokens for d in self.datasets],
            block_size=block_size,
            seed=seed,
            order=order,
            phase=phase,
            stages=stages,
            rows=rows,
            begin_token=begin_token,
            documents=[d.documents_by_length() for d in self.datasets] if in_pieces else None,
            augment=augmenter.to_json(),
            shards=[np.diff(each.shard_starts).tolist() for each in self.datasets],
        )
        self._maker = BatchMaker(
            WindowRows(self.datasets, self._order, kind, marked, max_documents, check_ids)
            if not in_pieces
            else DocumentRows(self.datasets, self._order, kind, max_documents, check_ids),
            order=self._order,
            share=StepShare(batch_size, rank, world_size),
            dtype=kind,
            augment=augmenter.for_batches(max_documents, hides_documents=not shown),
        )
        self._samples = 0  # consumed, over all ranks
        self._pass, self._ended = 0, False
        self._batches: Prefetcher[Batch] | None = None
        self._waited, self._served, self._reported = 0.0, 0, False

    # What it is

    @property
    def batch_size(self) -> int:
        """Rows of a batch on one rank."""
        return self._maker.share.batch_size

    @property
    def block_size(self) -> int:
        """Inputs, and targets, of a row."""
        return self._order.block_size

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
        counts = self._order.counts_before(self._samples)
        sources = self._order.sources
        return max(n // s.samples_per_epoch for n, s in zip(counts, sources, strict=True))

    def __len__(self) -> int:
        """Steps of a whole pass, equal on all ranks; an endless loader has no length."""
        if self.epochs is None:
            raise TypeError("an endless loader has no length; give it epochs=")
        return (self._bounds()[1] - self._maker.share.origin) // self._maker.share.samples_per_step

    # Iterating

    def __iter__(self) -> "BatchLoader":
        if self._ended:
            self._pass += 1
            self._seek(self._bounds()[0])
        return self

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        began = time.perf_counter()
        if self._batches is None or not self._batches.alive():
            stop = None if self.epochs is None else len(self)
            self._batches = Prefetcher(self._maker.run(self.step, stop), self.prefetch)
        try:
            batch: Batch = next(self._batches)
        except StopIteration:
            self._end_pass()
            raise
        except BaseException:
            self.close()  # the next call starts again at the same step
            raise
        if batch.step != self.step:
            # A Ctrl-C came between taking a batch and counting it: that batch is still due.
            self.close()
            return self.__next__()
        self._waited += time.perf_counter() - began
        self._samples += self._maker.share.samples_per_step
        self._served += 1
        return batch

    def batch(self, step: int) -> Batch:
        """The batch of any step (of this pass), without moving the loader."""
        self._check_step(step)
        return next(self._maker.run(step, step + 1))

    def close(self) -> None:
        """End the prefetching thread; iterating again starts a new one."""
        batches, self._batches = self._batches, None
        if batches is not None:
            batches.close()

    def set_epoch(self, epoch: int) -> None:
        """For trainers that call it: every epoch has an order of its own without it.

        Only when a pass has been served whole and the trainer announces the next does the loader
        move on to it, so that a state saved at the end of an epoch does not give an empty one.
        """
        if self.epochs is not None and epoch == self._pass + 1 and self.step >= len(self):
            self._ended = True

    # Stopping and resuming

    def state_dict(self) -> dict[str, Any]:
        """How far this run is, by what was consumed: a few JSON values, always the same keys."""
        return {
            "format": STATE_FORMAT,
            "samples": self._samples,
            "pass": self._pass,
            "order_fingerprint": self._order.fingerprint(),
            **self._order.to_json(),
            "data_fingerprint": self.data.fingerprint,
            "sources": list(self.names),
            "num_tokens": [data.num_tokens for data in self.datasets],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where `state` was saved, on this number of ranks and with this batch size."""
        with self._order.as_saved(state if isinstance(state, Mapping) else {}):
            samples, self._pass = read_state(state, self.state_dict())
        if self.epochs is not None:
            low, high = self._bounds()
            if not low <= samples <= high:  # saved under another `epochs`
                self._pass = samples // (high - low)
        self._seek(samples)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_batches": None}

    # Looking up

    def locate(
        self, step: int, row: int, column: int = 0, *, rank: int | None = None
    ) -> SamplePlace:
        """Where the token at (row, column) of a step's batch comes from: file, document, offset.

        Column 0 to block_size - 1 are the inputs; targets are one further. A begin token that was
        put in is at `document_offset` -1; padding comes from nowhere, and is an IndexError.
        """
        self._check_step(step)
        share = self._maker.share
        rank = self.rank if rank is None else rank
        check_below("row", row, share.batch_size)
        check_below("column", column, self.block_size + 1)
        check_below("rank", rank, share.world_size)
        sample = share.first_sample(step) + rank * share.batch_size + row
        epoch = int(self._order.epoch_of(np.array([sample]))[0])
        source, place = place_in_row(self.datasets, self._order, sample, column)
        return SamplePlace(self.names[source], epoch, sample, *place)

    def when(
        self,
        document: int | None = None,
        *,
        tokens: tuple[int, int] | None = None,
        source: str | None = None,
        epochs: Iterable[int] | None = None,
    ) -> list[Visit]:
        """The steps that train on a document, or on tokens start .. stop-1, in order.

        A step counts if one of the tokens is a target in it. `epochs` are those of the source; by
        default the ones of this pass, or of an endless loader all up to the present one.
        """
        if source is None and len(self.names) == 1:
            source = self.names[0]
        if source not in self.names:
            raise ValueError(f"source is {source!r}; it must be one of: {', '.join(self.names)}")
        number = self.names.index(source)
        if (document is None) == (tokens is None):
            raise ValueError("give either a document or tokens=(start, stop), one of them")
        if document is not None:
            tokens = self.datasets[number].document_range(document)
        assert tokens is not None
        if epochs is None:
            first = 0 if self.epochs is None else self._pass * self.epochs
            epochs = range(first, self.epoch + 1 if self.epochs is None else first + self.epochs)
        num_steps = None if self.epochs is None else len(self)
        where = tokens_to_find(self.datasets[number], self._order, tokens)
        return visits_of(self._order, self._maker.share, number, where, epochs, num_steps)

    def windows(self, num_samples: int | None = None) -> WindowSource:
        """The samples in order as a sequence: for Grain, JAX and map-style torch datasets.

        Item i is sample i, a (block_size + 1,) array: a window, or a row of documents. As long as
        one epoch (or `epochs` of them), or `num_samples`, which a mixture needs.
        """
        if num_samples is None:
            per_epoch = self._order.samples_per_epoch
            if per_epoch is None:
                raise ValueError("a mixture has no end; say how many windows: windows(100_000)")
            num_samples = per_epoch * (self.epochs or 1)
        return WindowSource(replace(self._maker, rows=self._maker.rows.in_any_order()), num_samples)

    def stats(self) -> dict[str, Any]:
        """What was served: samples, tokens and epochs by source over all ranks, and our own part.

        Samples count along the order: those that an ended pass left out are counted, too.
        `left_out` is what a pass of `epochs` does not serve: samples that do not fill a step, and
        the tokens after the last whole window of each epoch. Of packed rows each source also says
        what an epoch is made of: rows, documents, how many of them are cut, and padding.
        """
        num_read = self._served * self.batch_size * (self.block_size + 1)  # tokens
        return {
            "samples": self._samples,
            "tokens": self._samples * self.block_size,
            "sources": stats_of_sources(self.names, self._order, self._samples),
            "steps_here": self._served,
            "bytes_read_here": num_read * max(data.dtype.itemsize for data in self.datasets),
            "seconds_waited": self._waited,
            "left_out": self._left_out(),
        }

    def usage(self, step: int | None = None) -> list[SourceUsage]:
        """How often each source and each shard was used before a step, by default the next one."""
        step = self.step if step is None else step
        check_below("step", step, 1 << 62)
        samples = self._maker.share.first_sample(step)
        return usage_of(self.names, self.datasets, self._order, samples)

    def _left_out(self) -> dict[str, int] | None:
        if self.epochs is None:
            return None
        first, stop = self._maker.share.first_sample(len(self)), self._bounds()[1]
        return left_out(self._order, first, stop, self.epochs)

    # Inside

    def _end_pass(self) -> None:
        self.close()
        self._ended = True
        left = self._left_out()
        if left is not None and not self._reported:
            self._reported = True
            report_end(self.epochs, len(self), left, self._maker.share, self._order)

    def _bounds(self) -> tuple[int, int]:
        """First sample of this pass, and the one after its last; 0 and 0 in an endless loader."""
        length = (self.epochs or 0) * (self._order.samples_per_epoch or 0)
        return self._pass * length, (self._pass + 1) * length

    def _seek(self, samples: int) -> None:
        """Go to a sample number of this pass; steps are counted so that one begins there."""
        self.close()
        self._ended, self._samples = False, samples
        share = self._maker.share
        low, _ = self._bounds()
        origin = low + (samples - low) % share.samples_per_step
        self._maker.share = replace(share, origin=origin)

    def _check_step(self, step: int) -> None:
        if step < 0 or (self.epochs is not None and step >= len(self)):
            last = "" if self.epochs is None else f" to {len(self) - 1}"
            raise IndexError(f"step is {step}; this loader has steps 0{last or ' and up'}")
