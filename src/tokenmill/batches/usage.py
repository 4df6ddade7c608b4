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
    used: int
    """Targets that were served."""
    shards: tuple[ShardUsage, ...]


def usage_of(
    names: Sequence[str], datasets: Sequence[TokenDataset], order: SampleOrder, samples: int
) -> list[SourceUsage]:
    """The use of every source among the first `samples` samples."""
    found = []
    counts = order.counts_before(samples)
    for name, data, source, count in zip(names, datasets, order.sources, counts, strict=True):
        edges = data.shard_starts
        used = np.diff(_targets_before(edges, source, count)).tolist()
        can_be = np.diff(_can_be_targets_before(edges, source)).tolist()
        shards = tuple(map(ShardUsage, (shard.file for shard in data.shards), can_be, used))
        found.append(SourceUsage(name, count, source.epochs_until(count), sum(used), shards))
    return found


# All that follows answers for some edges on the axis: how many targets are before each?


def _targets_before(edges: Places, source: Source, num_samples: int) -> Places:
    """In the first samples of a source."""
    if isinstance(source, EditedSource):
        order, stop = source.before_changes
        plain = min(stop, num_samples)
        return _targets_before(edges, order, plain) + _located(edges, source, plain, num_samples)
    if source.name == "random":  # nothing is known of an epoch before it is drawn
        return _located(edges, source, 0, num_samples)
    per_epoch = source.samples_per_epoch
    epochs, rest = divmod(num_samples, per_epoch)
    first = epochs * per_epoch
    whole = _in_whole_epochs(edges, source, range(epochs))
    if rest <= per_epoch // 2:
        return whole + _located(edges, source, first, first + rest)
    this = _in_an_epoch(edges, source, epochs)
    return whole + this - _located(edges, source, first + rest, first + per_epoch)


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
            _, begins, ends = source.banned_parts(samples, begins, ends)
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
