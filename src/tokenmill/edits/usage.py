"""How often each source and each shard was used: computed from the order, never counted.

A token is used when it is a target. In a whole epoch every token that can be a target is one
exactly once, so whole epochs cost nothing. Of the epoch that is under way the samples so far are
located, or those still to come if they are fewer, in chunks of bounded size. A run that asks at
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
STARTS_AT_ONCE = 1 << 20
Places = npt.NDArray[np.int64]
Ranges = Sequence[tuple[int, int]]
"""Samples of a source by their numbers: from, and up to but without."""


class FoundUsage(NamedTuple):
    """What was found out about one source; of the edges of its shards, the targets before each."""

    served: Ranges
    used: Places
    """In the samples that were served."""
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
    """The use of every source among the first `samples` samples, with or without its shards.

    `known` is what was found before, by source; with `keep` it is replaced by what is found now.
    """
    usage = []
    order = run.order
    sources = zip(run.names, run.datasets, order.sources, order.served_ranges(samples), strict=True)
    for number, (name, data, source, served) in enumerate(sources):
        of_shards: tuple[ShardUsage, ...] = ()
        if shards:
            bans = bans_of(order, number)
            found = _found_in(data.shard_starts, source, bans, served, known.get(name))
            of_shards = _usage_of_shards(data, found)
            if keep:
                known[name] = found
        count = sum(stop - first for first, stop in served)
        usage.append(SourceUsage(name, count, source.epochs_until(count), of_shards))
    return usage


def _usage_of_shards(data: TokenDataset, found: FoundUsage) -> tuple[ShardUsage, ...]:
    files = (shard.file for shard in data.shards)
    counts = (np.diff(each).tolist() for each in (found.can_be, found.used))
    return tuple(map(ShardUsage, files, *counts))


def _found_in(
    edges: Places, source: SourceOrder, bans: SourceBans, served: Ranges, known: FoundUsage | None
) -> FoundUsage:
    if known is None:
        can_be = _can_be_targets_before(edges, stretches_of(source)[-1].order, NO_TOKENS)
        known = FoundUsage((), np.zeros_like(edges), can_be)
    since = _since(served, known.served)
    if since is None:
        since, used = served, np.zeros_like(edges)
    else:
        used = known.used.copy()
    for stretch in _stretches(source, bans):
        for first, stop in since:
            low, high = max(first, stretch.begin), min(stop, stretch.end)
            if low < high:
                used += _targets_before(edges, stretch, low, high)
    return known._replace(served=served, used=used)


def _since(served: Ranges, before: Ranges) -> Ranges | None:
    """What is served after all that was served before; None if it did not begin with that."""
    left = list(served)
    for first, stop in before:
        if not left or left[0][0] != first or left[0][1] < stop:
            return None
        left[:1] = [(stop, left[0][1])] if left[0][1] > stop else []
    return left


class _Stretch(NamedTuple):
    """The samples begin .. end-1 of a source: all under one order and the same bans."""

    epochs: Stretch
    banned: TokenRanges
    begin: int
    end: int

    @property
    def order(self) -> SourceOrder:
        return self.epochs.order


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


def _targets_before(edges: Places, these: _Stretch, first: int, stop: int) -> Places:
    """In the samples first .. stop-1 of a source, which are in one stretch."""
    epochs = these.epochs
    if these.order.name == "random":  # nothing is known of an epoch before it is drawn
        return _located(edges, these, first, stop)
    low, high = (int(epochs.epoch_of(np.array(index))) for index in (first, stop))
    low += epochs.first_of_epoch(low) < first  # the whole epochs are low .. high-1
    if low > high:
        return _in_part_of_epoch(edges, these, high, first, stop)
    begin, end = epochs.first_of_epoch(low), epochs.first_of_epoch(high)
    return (
        _in_part_of_epoch(edges, these, low - 1, first, begin)
        + _in_whole_epochs(edges, these, range(low, high))
        + _in_part_of_epoch(edges, these, high, end, stop)
    )


def _in_part_of_epoch(edges: Places, these: _Stretch, epoch: int, first: int, stop: int) -> Places:
    """In samples of one epoch; if they are most of it, in all but those before and after them."""
    if first == stop:
        return np.zeros_like(edges)
    begin, end = (these.epochs.first_of_epoch(each) for each in (epoch, epoch + 1))
    if 2 * (stop - first) <= end - begin or not these.begin <= begin < end <= these.end:
        return _located(edges, these, first, stop)
    rest = _located(edges, these, begin, first) + _located(edges, these, stop, end)
    return _in_an_epoch(edges, these, epoch) - rest


def _in_whole_epochs(edges: Places, these: _Stretch, epochs: range) -> Places:
    if not (isinstance(these.order, WindowOrder) and these.order.windows.phase):
        return _in_an_epoch(edges, these, 0) * len(epochs) if epochs else np.zeros_like(edges)
    return sum((_in_an_epoch(edges, these, epoch) for epoch in epochs), np.zeros_like(edges))


def _in_an_epoch(edges: Places, these: _Stretch, epoch: int) -> Places:
    """In a whole epoch: the windows are one range of the axis, rows hold all documents."""
    if not isinstance(these.order, WindowOrder):
        return _can_be_targets_before(edges, these.order, these.banned)
    windows = these.order.windows
    first = windows.offset(epoch) + 1
    stop = first + windows.count * windows.block_size
    banned = (each.clip(first, stop) for each in (these.banned.starts, these.banned.stops))
    return np.clip(edges, first, stop) - first - _inside(edges, *banned)


def _can_be_targets_before(edges: Places, order: SourceOrder, banned: TokenRanges) -> Places:
    """All but the first token of the axis; in rows without a begin token, of each document.

    In rows also without those that are banned.
    """
    if not isinstance(order, RowOrder):
        return np.maximum(edges - 1, 0)
    not_banned = edges - _inside(edges, banned.starts, banned.stops)
    if order.pieces.begin:
        return not_banned
    starts, before = order.documents.starts, np.zeros_like(edges)
    for low in range(0, len(starts), STARTS_AT_ONCE):
        some = starts[low : low + STARTS_AT_ONCE].astype(np.int64)
        before += np.searchsorted(np.sort(some[~banned.hold(some, some + 1)]), edges)
    return not_banned - before


def _located(edges: Places, these: _Stretch, first: int, stop: int) -> Places:
    """In the samples first .. stop-1 of a source, each looked at."""
    total = np.zeros_like(edges)
    at_once = min(max(1, TARGETS_AT_ONCE // these.order.block_size), MOST_SAMPLES)
    for low in range(first, stop, at_once):
        samples = np.arange(low, min(low + at_once, stop), dtype=np.int64)
        begins, ends = these.order.rows(samples + these.epochs.shift).targets
        _, *banned = these.banned.inside(begins, ends)
        total += _inside(edges, begins, ends) - _inside(edges, *banned)
    return total


def _inside(edges: Places, begins: Places, ends: Places) -> Places:
    """In some ranges of tokens."""
    return _beyond(edges, begins) - _beyond(edges, ends)


def _beyond(edges: Places, positions: Places) -> Places:
    """How far each edge is beyond the positions that are before it, all added up."""
    positions = np.sort(positions)
    sums = np.concatenate([[0], np.cumsum(positions)])
    count = np.searchsorted(positions, edges)
    beyond: Places = count * edges - sums[count]
    return beyond
