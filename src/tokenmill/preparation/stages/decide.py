"""decide: what becomes of every document: train, val, or dropped as a duplicate.

The split is by a hash of the document's content, so that a document stays in its split when data
is added. With too few documents for that, all are kept on one axis and its end is held out.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.encoded import CONTINUES, OPEN, read_rows
from tokenmill.preparation.stages.encoded_list import load_joined
from tokenmill.preparation.stages.lines import RunWriter, Searched
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.shards.layout import Stretch
from tokenmill.text.cleaning.dedup import HASH

TRAIN, VAL, DUPLICATE = 0, 1, 2
ENOUGH_VAL_DOCUMENTS = 10  # fewer expected in validation: hold out the end of the axis instead


@dataclass(frozen=True)
class Decision:
    """What the fate of a document depends on, besides its own hash and place."""

    by_hash: bool
    """Whether the split is by hash; else all go to one axis."""
    documents: Searched | None
    """Repeated documents, when they are to be dropped."""
    first_run: int = 0
    """The number of the run of part 0."""


@leaves_receipt(lambda _, part, number: ("documents", str(number)))
def hash_documents(out_dir: str, part: int, number: int) -> dict[str, Any]:
    """Task: leave the sorted hashes of the documents that begin in a part, as run `number`."""
    plan, joined = load_plan(out_dir), load_joined(out_dir)
    rows = read_rows(plan.workspace, joined.parts[part])
    hashes = _document_hashes(rows, joined.spans_of(part))
    begins = np.flatnonzero((rows["flags"] & CONTINUES) == 0)
    with RunWriter(plan.workspace, "documents", str(number)) as writer:
        writer.add(hashes[begins], begins)
        return writer.finish()


@leaves_receipt(lambda _, part, decision: ("fates", str(part)))
def count_fates(out_dir: str, part: int, decision: Decision) -> dict[str, Any]:
    """Task: how many tokens and documents of a part go where."""
    plan, joined = load_plan(out_dir), load_joined(out_dir)
    rows = read_rows(plan.workspace, joined.parts[part])
    fates = fates_of(plan, part, decision)
    begins = (rows["flags"] & CONTINUES) == 0
    lengths = rows["length"].astype(np.int64)
    facts = {
        "tokens": [int(lengths[fates == fate].sum()) for fate in (TRAIN, VAL, DUPLICATE)],
        "documents": [int((begins & (fates == fate)).sum()) for fate in (TRAIN, VAL, DUPLICATE)],
    }
    return plan.workspace.leave_receipt("fates", str(part), [], facts)


def on_one_axis(counted: dict[str, Any]) -> dict[str, Any]:
    """What a part comes to when the split is not by hash: what is kept is all on one axis."""
    sums = {}
    for what in ("tokens", "documents"):
        train, val, duplicates = counted[what]
        sums[what] = [train + val, 0, duplicates]
    return sums


def fates_of(plan: Plan, part: int, decision: Decision) -> np.ndarray:
    """The fate of every row of a part: a pure function of hashes and places."""
    joined = load_joined(str(plan.workspace.out_dir))
    rows = read_rows(plan.workspace, joined.parts[part])
    spans = joined.spans_of(part)
    fates = np.full(len(rows), TRAIN, np.uint8)
    if decision.by_hash:
        hashes = _document_hashes(rows, spans)
        fates[hashes["low"] < np.uint64(math.ldexp(plan.settings.val_fraction, 64))] = VAL
    if decision.documents is not None:
        fates[_repeated(plan, part, decision)] = DUPLICATE
        if len(rows) and rows["flags"][0] & CONTINUES:
            first = next(span["first"] for span in spans if span["first"] < part)
            begins_at = joined.parts[first]["rows"] - 1
            if begins_at in _repeated(plan, first, decision):
                fates[0] = DUPLICATE
    return fates


def _repeated(plan: Plan, part: int, decision: Decision) -> np.ndarray:
    assert decision.documents is not None
    return decision.documents.repeated(plan.workspace, decision.first_run + part)


def _document_hashes(rows: np.ndarray, spans: list[dict[str, Any]]) -> np.ndarray:
    """The hash of each row's document; rows of a spanning document carry that of the whole."""
    hashes: np.ndarray = rows["hash"].copy()
    for span in spans:
        whole = np.frombuffer(bytes.fromhex(span["hash"]), HASH)[0]
        if rows["flags"][-1] & OPEN and span["last"] > span["part"]:
            hashes[-1] = whole
        if rows["flags"][0] & CONTINUES and span["first"] < span["part"]:
            hashes[0] = whole
    return hashes


def enough_documents(num_documents: int, val_fraction: float) -> bool:
    """Whether a split by hash gives a validation set worth its name."""
    return val_fraction > 0 and num_documents * val_fraction >= ENOUGH_VAL_DOCUMENTS


def stretches(train: int, val: int, *, by_hash: bool, val_fraction: float) -> list[Stretch]:
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
