"""Where every token goes: prefix sums over the parts give each shard its range of the axis.

Only the total of each part is needed: the parts of a split, in input order, form one axis.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Stretch:
    """The tokens [start, stop) of an axis that make one split."""

    split: str
    axis: int
    start: int
    stop: int
    cuts_document: bool = False
    """True if its end may cut a document."""


@dataclass(frozen=True)
class ShardPlan(Stretch):
    """A shard that will be written: a part of such a stretch, and its name."""

    file: str = ""


def shard_name(split: str, number: int) -> str:
    """`train/shard_00000.bin`; numbers continue from split to split."""
    return f"{split}/shard_{number:05d}.bin"


def lay_out(stretches: list[Stretch], tokens_per_shard: int, first: int = 0) -> list[ShardPlan]:
    """Cut each stretch into shards of `tokens_per_shard`, the last of a split fewer."""
    plans: list[ShardPlan] = []
    for stretch in stretches:
        for start in range(stretch.start, stretch.stop, tokens_per_shard):
            stop = min(start + tokens_per_shard, stretch.stop)
            cuts_document = stretch.cuts_document and stop == stretch.stop
            file = shard_name(stretch.split, first + len(plans))
            plans.append(ShardPlan(stretch.split, stretch.axis, start, stop, cuts_document, file))
    return plans


def parts_between(part_starts: np.ndarray, start: int, stop: int) -> range:
    """The parts that hold tokens of [start, stop); `part_starts` are prefix sums with the total."""
    first = int(np.searchsorted(part_starts, start, side="right")) - 1
    last = int(np.searchsorted(part_starts, stop, side="left"))
    return range(max(first, 0), last)
