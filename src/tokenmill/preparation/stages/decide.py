"""decide: what becomes of every document: train, val, or dropped as a duplicate.

The split is by a hash of the document's content, so that a document stays in its split when data
is added. With too few documents for that, all are kept on one axis and its end is held out.
Documents of files that are held out go to the axis of their validation set.
From the decisions follows the layout: which tokens go to which shard.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import split_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import Workspace, read_once
from tokenmill.shards.layout import ShardPlan, Stretch, lay_out

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search

TRAIN, VAL, DROPPED, FROM_FILES = 0, 1, 2, 3
"""What may be decided; from FROM_FILES on there is one for each validation set made from files."""
LAYOUT_FILE = "layout.json"
ENOUGH_VAL_DOCUMENTS = 10  # fewer expected in validation: hold out the end of the axis instead


class Decided(NamedTuple):
    """What goes where: to an axis, or DROPPED."""

    tokens: np.ndarray  # (parts, axes) int64
    documents: np.ndarray  # (parts, axes) int64


def count_decisions(out_dir: str, part: int, repeated: "Search | None") -> Receipt:
    """Task: how many tokens and documents of a part go where, if the split is by hash."""
    plan = load_plan(out_dir)
    lengths = load_parts(out_dir)[part].rows(plan)["length"].astype(np.int64)
    decisions = decisions_on(plan, part, repeated, by_hash=True)
    axes = range(FROM_FILES + len(plan.held_out_splits))
    counts = {
        "tokens": [int(lengths[decisions == axis].sum()) for axis in axes],
        "documents": [int((decisions == axis).sum()) for axis in axes],
    }
    return plan.workspace.leave_receipt("decisions", str(part), [], counts)


def choose_split(
    plan: Plan, receipts: Iterable[Receipt], *, was_by_hash: bool
) -> tuple[bool, Decided]:
    """Split by hash if it was so before, or if there are enough documents for it."""
    axes = FROM_FILES + len(plan.held_out_splits)
    counts = [(receipt["tokens"], receipt["documents"]) for receipt in receipts]
    # (parts, tokens or documents, axes)
    per_part = np.array(counts, np.int64).reshape(-1, 2, axes)
    num_documents = int(per_part[:, 1, [TRAIN, VAL]].sum())
    is_enough = num_documents * plan.settings.val_fraction >= ENOUGH_VAL_DOCUMENTS
    by_hash = was_by_hash or is_enough
    if not by_hash:
        per_part[:, :, TRAIN] += per_part[:, :, VAL]
        per_part[:, :, VAL] = 0
    return by_hash, Decided(per_part[:, 0], per_part[:, 1])


def decisions_on(plan: Plan, part: int, repeated: "Search | None", *, by_hash: bool) -> np.ndarray:
    """The decision on every document of a part: a pure function of hashes and places.

    (documents of the part,) uint16: the axis that each goes to, or DROPPED. Not `by_hash`: all that
    are not held out or `repeated` go to one axis.
    """
    described = load_parts(plan.workspace.place)[part]
    split = split_of(plan, described)
    axis = TRAIN if split is None else FROM_FILES + plan.held_out_splits.index(split)
    decisions = np.full(described.num_documents, axis, np.uint16)
    if by_hash and split is None:
        low = described.rows(plan)["hash"]["low"]
        decisions[low < np.uint64(math.ldexp(plan.settings.val_fraction, 64))] = VAL
    if repeated is not None:
        dropped = repeated.repeated(plan.workspace, part)
        if repeated.held_out is not None:
            # Of a document that is on both sides, every copy on the later side is left out.
            hashes = described.rows(plan)["hash"].copy()
            dropped = np.isin(hashes, hashes[dropped])
        decisions[dropped] = DROPPED
    if plan.settings.has_rules:
        from tokenmill.preparation.stages.removals import rows_that_go

        decisions[rows_that_go(plan, part)] = DROPPED
    return decisions


@dataclass(frozen=True)
class Layout:
    """All shards to be, and where each part begins on each axis."""

    shards: list[ShardPlan]
    part_starts: list[np.ndarray]
    repeated: "Search | None"
    """Finds repeated documents, when they are to be dropped."""
    by_hash: bool

    @property
    def splits(self) -> list[str]:
        """The splits that get shards, in order."""
        return list(dict.fromkeys(shard.split for shard in self.shards))


def make_layout(
    plan: Plan, repeated: "Search | None", tokens: np.ndarray, *, by_hash: bool, first: int
) -> Layout:
    """Prefix sums over the parts give every shard its range of an axis; kept for the tasks.

    `tokens` are (parts, axes); `first` is the number of the first new shard.
    """
    held_out = plan.held_out_splits
    part_starts = [np.append(0, np.cumsum(on_axis)) for on_axis in tokens.T]
    totals = [int(starts[-1]) for starts in part_starts]
    ranges = stretches(totals[TRAIN], totals[VAL], by_hash, plan.settings.val_fraction)
    ranges += [
        Stretch(split, axis, 0, totals[axis]) for axis, split in enumerate(held_out, FROM_FILES)
    ]
    _refuse_empty_splits(plan, ranges)
    planned = lay_out(ranges, plan.settings.tokens_per_shard, first=first)
    shards = [replace(shard, file=plan.folder + shard.file) for shard in planned]
    layout = Layout(shards, part_starts, repeated, by_hash)
    data = orjson.dumps(layout, option=orjson.OPT_SERIALIZE_NUMPY)
    plan.workspace.keep(LAYOUT_FILE, data)
    return layout


def _refuse_empty_splits(plan: Plan, found: list[Stretch]) -> None:
    """A validation set, or the rest beside it, of which nothing is left must not be missed."""
    wanted = {source.split or "train" for source in plan.sources}
    missing = wanted - {stretch.split for stretch in found if stretch.stop > stretch.start}
    if plan.held_out_splits and missing:
        plan.workspace.forget()
        raise PrepareError(
            f"nothing is left to write for {', '.join(sorted(missing))}: its documents are empty, "
            "or were seen before in files that come first (those of the dataset, then those held "
            "out)",
            hint="nothing was written; are these the right files?",
        )


@read_once(LAYOUT_FILE)
def load_layout(_: Workspace, data: bytes) -> Layout:
    """The layout of a preparation, by the place of its work."""
    found = orjson.loads(data)
    if found["repeated"] is not None:
        from tokenmill.preparation.stages.duplicates import Search

        found["repeated"] = Search(**found["repeated"])
    found["shards"] = [ShardPlan(**shard) for shard in found["shards"]]
    found["part_starts"] = [np.array(starts, np.int64) for starts in found["part_starts"]]
    return Layout(**found)


def stretches(train: int, val: int, by_hash: bool, val_fraction: float) -> list[Stretch]:
    """Which tokens of which axis make which split."""
    if by_hash or val_fraction == 0:
        found = [Stretch("train", TRAIN, 0, train), Stretch("val", VAL, 0, val)]
    else:
        cut = train - max(1, round(train * val_fraction)) if train > 1 else train
        found = [
            Stretch("train", TRAIN, 0, cut, cuts_document=True),
            Stretch("val", TRAIN, cut, train),
        ]
    return [stretch for stretch in found if stretch.stop > stretch.start]
