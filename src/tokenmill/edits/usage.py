"""How often each source and each shard was used: computed from the order, never counted.

A token is used when it is a target that is not banned. Whole epochs of windows are one range of the
axis, so they cost nothing. Other samples are located, in chunks of bounded size. A run that asks at
every checkpoint keeps what was found, and looks only at what was served since.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.batches.run import Run
from tokenmill.dataset import TokenDataset
from tokenmill.edits.edited_order import bans_of
from tokenmill.edits.grown_source import Stretch, stretches_of
from tokenmill.edits.source_bans import SourceBans
from tokenmill.edits.token_ranges import NO_TOKENS, TokenRanges
from tokenmill.order.mixture_order import ENDLESS
from tokenmill.order.order import SourceOrder
from tokenmill.order.row_order import RowOrder
from tokenmill.order.window_order import WindowOrder

TARGETS_AT_ONCE = 1 << 26
MOST_SAMPLES = 1 << 18
Places = npt.NDArray[np.int64]
Ranges = Sequence[tuple[int, int]]
"""Samples of a source by their numbers: from, and up to but without."""


class FoundUsage(NamedTuple):
    """What was found out about one source; of the edges of its shards, the targets before each."""

    num_samples: int
    """Samples of the source that were served."""
    used: Places
    """Targets in them."""
    can_be: Places
    """Tokens that can be a target."""


class ShardUsage(NamedTuple):
    """How often the tokens of one shard were targets."""

    file: str
    targets: int
    """Tokens of the shard that can be a target."""
    used: int
    """Targets that were served, each counted as often as it was."""

    @property
    def epochs(self) -> float:
        """How often each token was used, on average."""
        return self.used / self.targets if self.targets else 0.0


class SourceUsage(NamedTuple):
    """How much of one source was served."""

    source: str
    samples: int
    epochs: float
    shards: tuple[ShardUsage, ...]

    @property
    def used(self) -> int:
        """Targets that were served, of all shards."""
        return sum(shard.used for shard in self.shards)


def usage_of(
    run: Run, samples: int, *, shards: bool, known: dict[str, FoundUsage], keep: bool
) -> list[SourceUsage]:
    """Return the use of every source among the first `samples` samples, with or without shards.

    `known` is what was found before, by source; with `keep` it is replaced by what is found now.
    """
    usage = []
    order = run.order
    sources = zip(run.names, run.datasets, order.sources, order.served_ranges(samples), strict=True)
    for number, (name, data, source, served) in enumerate(sources):
        of_shards: tuple[ShardUsage, ...] = ()
        count = sum(stop - first for first, stop in served)
        if shards:
            stretches = list(_stretches(source, bans_of(order, number)))
            before = known.get(name)
            if before is None or before.num_samples > count:
                before = _nothing_used(data, source)
            used = before.used.copy()
            for first, stop in _without_first(served, before.num_samples):
                used += _targets_before(data.shard_starts, stretches, first, stop)
            found = FoundUsage(count, used, before.can_be)
            of_shards = _usage_of_shards(data, found)
            if keep:
                known[name] = found
        usage.append(SourceUsage(name, count, source.epochs_until(count), of_shards))
    return usage


def _usage_of_shards(data: TokenDataset, found: FoundUsage) -> tuple[ShardUsage, ...]:
    files = (shard.file for shard in data.shards)
    counts = (np.diff(before).tolist() for before in (found.can_be, found.used))
    return tuple(map(ShardUsage, files, *counts))


def _nothing_used(data: TokenDataset, source: SourceOrder) -> FoundUsage:
    """In windows all but the first token of the axis can be targets; in rows, those of an epoch."""
    edges = data.shard_starts
    can_be = np.maximum(edges - 1, 0)
    order = stretches_of(source)[-1].order
    if isinstance(order, RowOrder):
        of_order = _Stretch(Stretch(0, 0, order), NO_TOKENS, 0, ENDLESS)
        can_be = _located(edges, of_order, 0, order.samples_per_epoch)
    return FoundUsage(0, np.zeros_like(edges), can_be)


def _without_first(served: Ranges, count: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges without their first `count` samples."""
    for first, stop in served:
        skipped = min(count, stop - first)
        count -= skipped
        if first + skipped < stop:
            yield first + skipped, stop


class _Stretch(NamedTuple):
    """The samples begin .. end-1 of a source: all under one order and the same bans."""

    epochs: Stretch
    banned: TokenRanges
    begin: int
    end: int


def _stretches(source: SourceOrder, bans: SourceBans) -> Iterator[_Stretch]:
    orders = stretches_of(source)
    ends = [*(stretch.first for stretch in orders[1:]), ENDLESS]
    of_bans = [*bans.stretches, (ENDLESS, NO_TOKENS)]
    for stretch, end in zip(orders, ends, strict=True):
        for (first, banned), (stop, _) in itertools.pairwise(of_bans):
            begin = max(first, stretch.first)
            if begin < min(stop, end):
                yield _Stretch(stretch, banned, begin, min(stop, end))


# All that follows answers for some edges on the axis: how many targets are before each?


def _targets_before(edges: Places, stretches: Sequence[_Stretch], first: int, stop: int) -> Places:
    """Targets in the samples first .. stop-1 of a source."""
    total = np.zeros_like(edges)
    for stretch in stretches:
        low = max(first, stretch.begin)
        high = min(stop, stretch.end)
        if low < high:
            total += _in_stretch(edges, stretch, low, high)
    return total


def _in_stretch(edges: Places, stretch: _Stretch, first: int, stop: int) -> Places:
    """Targets in samples of one stretch: whole epochs, and what is before and after them."""
    epochs = stretch.epochs
    low, high = epochs.epoch_of(np.array([first, stop])).tolist()
    low += epochs.first_of_epoch(low) < first  # the whole epochs are low .. high-1
    if low >= high or epochs.order.name == "random":  # draws of an epoch may be any
        return _located(edges, stretch, first, stop)
    begin = epochs.first_of_epoch(low)
    end = epochs.first_of_epoch(high)
    return (
        _located(edges, stretch, first, begin)
        + _in_whole_epochs(edges, stretch, range(low, high))
        + _located(edges, stretch, end, stop)
    )


def _in_whole_epochs(edges: Places, stretch: _Stretch, epochs: range) -> Places:
    """Targets in whole epochs; only with `phase` do they differ from epoch to epoch."""
    order = stretch.epochs.order
    if not isinstance(order, WindowOrder):
        first, stop = (stretch.epochs.first_of_epoch(epochs.start + i) for i in (0, 1))
        return _located(edges, stretch, first, stop) * len(epochs)
    windows = order.windows
    total = np.zeros_like(edges)
    for epoch in epochs if windows.phase else epochs[:1]:
        first = windows.offset(epoch) + 1
        stop = first + windows.count * windows.block_size
        total += _not_banned(edges, stretch, np.array([first]), np.array([stop]))
    return total if windows.phase else total * len(epochs)


def _located(edges: Places, stretch: _Stretch, first: int, stop: int) -> Places:
    """Targets in samples of one stretch, each of which is located."""
    total = np.zeros_like(edges)
    order = stretch.epochs.order
    at_once = min(max(1, TARGETS_AT_ONCE // order.block_size), MOST_SAMPLES)
    for low in range(first, stop, at_once):
        samples = np.arange(low, min(low + at_once, stop), dtype=np.int64)
        targets = order.rows(samples + stretch.epochs.shift).targets
        total += _not_banned(edges, stretch, *targets)
    return total


def _not_banned(edges: Places, stretch: _Stretch, firsts: Places, stops: Places) -> Places:
    """Tokens before each edge in some ranges, without those that are banned."""
    _, *banned = stretch.banned.inside(firsts, stops)
    return _inside(edges, firsts, stops) - _inside(edges, *banned)


def _inside(edges: Places, firsts: Places, stops: Places) -> Places:
    """Tokens before each edge in some ranges."""
    return _beyond(edges, firsts) - _beyond(edges, stops)


def _beyond(edges: Places, positions: Places) -> Places:
    """How far each edge is beyond the positions that are before it, all added up."""
    positions = np.sort(positions)
    sums = np.concatenate([[0], np.cumsum(positions)])
    count = np.searchsorted(positions, edges)
    beyond: Places = count * edges - sums[count]
    return beyond
