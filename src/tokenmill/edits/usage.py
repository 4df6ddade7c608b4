"""How often each source and each shard was used: computed from the order, never counted.

A token is used when it is a target that is not banned. Whole epochs of windows are one range of the
axis, so they cost nothing. Other samples are located, in chunks of bounded size, and only those
that were served since a run asked last.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.batches.run import Run
from tokenmill.edits.bans import NO_BANS, SourceBans
from tokenmill.edits.edited_order import EditedOrder
from tokenmill.order.mixture_order import ENDLESS
from tokenmill.order.order import SourceOrder, TargetRanges

Counts = npt.NDArray[np.int64]
"""Of the edges of the shards of a source, (shards + 1,): tokens before each."""


class FoundUsage(NamedTuple):
    """What was found out about one source."""

    num_samples: int
    """Samples of the source that were served."""
    used: Counts
    """Targets in them."""
    can_be: Counts
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
        return sum(shard.used for shard in self.shards)


def usage_of(
    run: Run, samples: int, *, shards: bool, known: dict[str, FoundUsage]
) -> list[SourceUsage]:
    """Return the use of every source among the first `samples` samples, with or without shards.

    `known` is what was found before, by source; it is replaced by what is found now.
    """
    usage = []
    order = run.order
    sources = zip(run.names, run.datasets, order.sources, order.served_ranges(samples), strict=True)
    for number, (name, data, source, served) in enumerate(sources):
        of_shards: tuple[ShardUsage, ...] = ()
        count = sum(stop - first for first, stop in served)
        if shards:
            edges = data.shard_starts
            before = known.get(name)
            if before is None or before.num_samples > count:
                can_be = _before_edges(edges, source.possible_targets(), NO_BANS, 0)
                before = FoundUsage(0, np.zeros_like(edges), can_be)
            bans = order.bans_of(number) if isinstance(order, EditedOrder) else NO_BANS
            used = before.used.copy()
            for first, stop in _without_first(served, before.num_samples):
                used += targets_before(edges, source, bans, first, stop)
            known[name] = FoundUsage(count, used, before.can_be)
            files = (shard.file for shard in data.shards)
            counts = (np.diff(each).tolist() for each in (before.can_be, used))
            of_shards = tuple(map(ShardUsage, files, *counts))
        parts = [[source.epochs_until(edge) for edge in part] for part in served]
        epochs = sum(after - before for before, after in parts)
        usage.append(SourceUsage(name, count, epochs, of_shards))
    return usage


def _without_first(served: Sequence[tuple[int, int]], count: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges (first, stop) without their first `count` samples."""
    for first, stop in served:
        skipped = min(count, stop - first)
        count -= skipped
        yield first + skipped, stop


def targets_before(
    edges: Counts, source: SourceOrder, bans: SourceBans, first: int, stop: int
) -> Counts:
    """Count the targets before each edge in the samples first .. stop-1 of a source."""
    total = np.zeros_like(edges)
    for begin, end in pairwise(np.unique([0, *bans.since, ENDLESS]).tolist()):  # the same bans
        targets = source.target_ranges(max(first, begin), min(stop, end))
        total += _before_edges(edges, targets, bans, begin)
    return total


def _before_edges(
    edges: Counts, targets: Iterable[TargetRanges], bans: SourceBans, sample: int
) -> Counts:
    """Count the targets before each edge that are not banned at a sample."""
    total = np.zeros_like(edges)
    for firsts, stops, times in targets:
        _, *without = bans.inside(np.full(len(firsts), sample), firsts, stops)
        total += times * (_inside(edges, firsts, stops) - _inside(edges, *without))
    return total


def _inside(edges: Counts, firsts: Counts, stops: Counts) -> Counts:
    return _beyond(edges, firsts) - _beyond(edges, stops)


def _beyond(edges: Counts, positions: Counts) -> Counts:
    """How far each edge is beyond the positions that are before it, all added up."""
    positions = np.sort(positions)
    sums = np.concatenate([[0], np.cumsum(positions)])
    count = np.searchsorted(positions, edges)
    beyond: Counts = count * edges - sums[count]
    return beyond
