"""How often each source and each shard was used: computed from the order, never counted.

A token is used when it is a target. In a whole epoch every token that can be a target is one
exactly once, so whole epochs cost nothing. Of the epoch that is under way the samples so far are
located, or those still to come if they are fewer, in chunks of bounded size.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.dataset import TokenDataset
from tokenmill.order.edited.edited_source import EditedSource, plain_order
from tokenmill.order.row_order import RowOrder
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.source_order import SourceOrder

TARGETS_AT_ONCE = 1 << 26
MOST_SAMPLES = 1 << 18
STARTS_AT_ONCE = 1 << 20
Places = npt.NDArray[np.int64]
Source = SourceOrder | RowOrder | EditedSource


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
    names: Sequence[str],
    datasets: Sequence[TokenDataset],
    order: SampleOrder,
    samples: int,
    *,
    shards: bool = True,
) -> list[SourceUsage]:
    """The use of every source among the first `samples` samples, with or without its shards."""
    found = []
    ranges = order.served_ranges(samples)
    for name, data, source, served in zip(names, datasets, order.sources, ranges, strict=True):
        count = sum(stop - first for first, stop in served)
        of_shards = _usage_of_shards(data, source, served) if shards else ()
        found.append(SourceUsage(name, count, source.epochs_until(count), of_shards))
    return found


def _usage_of_shards(
    data: TokenDataset, source: Source, served: Sequence[tuple[int, int]]
) -> tuple[ShardUsage, ...]:
    edges = data.shard_starts
    used = sum((_targets_before(edges, source, *range_) for range_ in served), np.zeros_like(edges))
    can_be = _can_be_targets_before(edges, source)
    files = (shard.file for shard in data.shards)
    return tuple(map(ShardUsage, files, np.diff(can_be).tolist(), np.diff(used).tolist()))


# All that follows answers for some edges on the axis: how many targets are before each?


def _targets_before(edges: Places, source: Source, first: int, stop: int) -> Places:
    """In the samples first .. stop-1 of a source."""
    if isinstance(source, EditedSource):
        order, end = source.before_changes
        middle = min(max(first, end), stop)
        before = _targets_before(edges, order, min(first, middle), middle)
        return before + _located(edges, source, middle, stop)
    if source.name == "random":  # nothing is known of an epoch before it is drawn
        return _located(edges, source, first, stop)
    per_epoch = source.samples_per_epoch
    low, high = -(-first // per_epoch), stop // per_epoch  # whole epochs
    if low > high:
        return _in_part_of_epoch(edges, source, first, stop)
    return (
        _in_part_of_epoch(edges, source, first, low * per_epoch)
        + _in_whole_epochs(edges, source, range(low, high))
        + _in_part_of_epoch(edges, source, high * per_epoch, stop)
    )


def _in_part_of_epoch(
    edges: Places, source: SourceOrder | RowOrder, first: int, stop: int
) -> Places:
    """In samples of one epoch; if they are most of it, all but those before and after them."""
    per_epoch = source.samples_per_epoch
    if 2 * (stop - first) <= per_epoch:
        return _located(edges, source, first, stop)
    epoch = first // per_epoch
    before = _located(edges, source, epoch * per_epoch, first)
    after = _located(edges, source, stop, (epoch + 1) * per_epoch)
    return _in_an_epoch(edges, source, epoch) - before - after


def _in_whole_epochs(edges: Places, source: SourceOrder | RowOrder, epochs: range) -> Places:
    if isinstance(source, RowOrder) or not source.windows.phase:
        return _in_an_epoch(edges, source, 0) * len(epochs)
    return sum((_in_an_epoch(edges, source, epoch) for epoch in epochs), np.zeros_like(edges))


def _in_an_epoch(edges: Places, source: SourceOrder | RowOrder, epoch: int) -> Places:
    """In a whole epoch: the windows are one range of the axis, rows hold all documents."""
    if isinstance(source, RowOrder):
        return _can_be_targets_before(edges, source)
    windows = source.windows
    first = windows.offset(epoch) + 1
    return np.clip(edges - first, 0, windows.count * windows.block_size)


def _can_be_targets_before(edges: Places, source: Source) -> Places:
    """All but the first token of the axis; in rows without a begin token, of each document."""
    order = plain_order(source)
    if isinstance(order, SourceOrder):
        return np.maximum(edges - 1, 0)
    if order.pieces.begin:
        return edges.copy()
    starts, before = order.documents.starts, np.zeros_like(edges)
    for low in range(0, len(starts), STARTS_AT_ONCE):
        before += np.searchsorted(np.sort(starts[low : low + STARTS_AT_ONCE]), edges)
    return edges - before


def _located(edges: Places, source: Source, first: int, stop: int) -> Places:
    """In the samples first .. stop-1 of a source, each looked at."""
    total, order = np.zeros_like(edges), plain_order(source)
    at_once = min(max(1, TARGETS_AT_ONCE // order.block_size), MOST_SAMPLES)
    for low in range(first, stop, at_once):
        samples = np.arange(low, min(low + at_once, stop), dtype=np.int64)
        if isinstance(order, RowOrder):
            assert not isinstance(source, SourceOrder)
            pieces = source.locate(samples)
            begins = pieces.starts + ~pieces.begins  # its first token is a target after a begin
            ends = pieces.starts + pieces.lengths - pieces.begins
            samples = samples[pieces.rows]
        else:
            assert not isinstance(source, RowOrder)
            begins = source.starts(samples) + 1
            ends = begins + order.block_size
        total += _beyond(edges, begins) - _beyond(edges, ends)
        if isinstance(source, EditedSource):
            _, begins, ends = source.banned_parts(samples, begins, ends - begins)
            total -= _beyond(edges, begins) - _beyond(edges, ends)
    return total


def _beyond(edges: Places, positions: Places) -> Places:
    """How far each edge is beyond the positions that are before it, all added up.

    Ranges that begin at some positions and end at others have this for the former, less this for
    the latter, of their tokens before the edge.
    """
    positions = np.sort(positions)
    sums = np.concatenate([[0], np.cumsum(positions)])
    count = np.searchsorted(positions, edges)
    beyond: Places = count * edges - sums[count]
    return beyond
