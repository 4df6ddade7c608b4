"""Documents that a stage left out after all were encoded: copied test items, near-duplicates.

Such a stage leaves the files that `removals.py` describes, one per unit. `decide` drops their
documents as it drops duplicates, by their rows in the parts of the unit.
"""

from bisect import bisect_left
from collections import Counter

import numpy as np

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import FOLDER
from tokenmill.preparation.stages.removals import Removal
from tokenmill.text.filters.rule import Removed

NEAR = Removal("near", "near", ("like another document",))
EVALS = "evals"


def set_names(plan: Plan) -> list[str]:
    """The test sets of a plan."""
    return [name.partition("@")[0] for name in str(plan.settings.decontaminate).split(",")]


def late_removals(plan: Plan) -> list[Removal]:
    """The stages of this kind that a preparation has, in their order."""
    steps = []
    if plan.finds_test_items:
        steps.append(Removal(EVALS, "decontaminate", tuple(set_names(plan))))
    return [*steps, NEAR] if plan.compares_near else steps


def removed_late(plan: Plan, unit: int) -> list[Removed]:
    """What these stages left out of a unit."""
    return [
        Removed(
            step.rows(plan.workspace, unit),
            tuple(f"{step.name}: {reason}" for reason in step.reasons),
        )
        for step in late_removals(plan)
    ]


def count_late(plan: Plan) -> Counter[str]:
    """How many documents went, by reason."""
    counts = Counter[str]()
    if late_removals(plan):
        for unit in range(len(plan.units)):
            for removed in removed_late(plan, unit):
                counts.update(removed.counts())
    return counts


def rows_that_go(plan: Plan, part: int, *, but: Removal | None = None) -> np.ndarray:
    """Return a mask of the documents of a part that these stages left out; of all `but` one."""
    unit = unit_of(plan, part)
    steps = [step for step in late_removals(plan) if step != but]
    if not steps:
        return np.zeros(load_parts(plan.workspace.place)[part].num_documents, np.bool_)
    gone = np.concatenate([step.rows(plan.workspace, unit)["number"] for step in steps])
    return np.isin(numbers_of(plan, part), gone)


def unit_of(plan: Plan, part: int) -> int:
    """The unit that a part is from."""
    return load_parts(plan.workspace.place)[part].files[0].unit


def numbers_of(plan: Plan, part: int) -> np.ndarray:
    """The number of each document of a part in its unit, among all that were read: (n,) uint32."""
    parts = load_parts(plan.workspace.place)
    unit = unit_of(plan, part)
    first = bisect_left(parts, unit, key=lambda described: described.files[0].unit)
    before = sum(described.num_documents for described in parts[first:part])
    numbers = plan.workspace.load(FOLDER, f"{unit}.numbers", "<u4")
    return numbers[before : before + parts[part].num_documents]
