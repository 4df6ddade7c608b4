"""Documents that a stage left out after all were encoded: near-duplicates, copied test items.

Such a stage leaves the files that `removals.py` describes, one per unit. `decide` drops their
documents as it drops duplicates, by their rows in the parts of the unit.
"""

from bisect import bisect_left
from collections import Counter
from functools import lru_cache
from pathlib import Path

import numpy as np

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import FOLDER
from tokenmill.preparation.stages.removals import Removal

NEAR = Removal("near", "near", ("like another document",))


def late_removals(plan: Plan) -> list[Removal]:
    """The stages of this kind that a preparation has, in their order."""
    return [NEAR] if plan.settings.dedup == "near" else []


def late_reasons(plan: Plan) -> list[str]:
    """Their reasons, as accounts and the record of removed documents have them."""
    return [f"{step.name}: {reason}" for step in late_removals(plan) for reason in step.reasons]


def rows_of_unit(plan: Plan, unit: int) -> dict[str, np.ndarray]:
    """The documents of a unit that went, REMOVED, by reason."""
    found = {}
    for step in late_removals(plan):
        rows = step.rows(plan.workspace, unit)
        for code, reason in enumerate(step.reasons):
            found[f"{step.name}: {reason}"] = rows[rows["reason"] == code]
    return found


def count_late(plan: Plan) -> Counter[str]:
    """How many documents went, by reason."""
    counts = Counter[str]()
    for unit in range(len(plan.units)):
        counts.update({reason: len(rows) for reason, rows in rows_of_unit(plan, unit).items()})
    return counts


def rows_that_go(plan: Plan, part: int) -> np.ndarray:
    """Return a mask of the documents of a part that these stages left out."""
    numbers = numbers_of(plan, part)
    goes = np.zeros(len(numbers), np.bool_)
    for rows in rows_of_unit(plan, unit_of(plan, part)).values():
        goes |= np.isin(numbers, rows["number"])
    return goes


def unit_of(plan: Plan, part: int) -> int:
    """The unit that a part is from."""
    return load_parts(plan.workspace.out_dir)[part].files[0].unit


def numbers_of(plan: Plan, part: int) -> np.ndarray:
    """The number of each document of a part in its unit, among all that were read: (n,) uint32."""
    parts = load_parts(plan.workspace.out_dir)
    unit = parts[part].files[0].unit
    first = bisect_left(parts, unit, key=lambda described: described.files[0].unit)
    before = sum(described.num_documents for described in parts[first:part])
    numbers = _numbers_in(plan.workspace.path(FOLDER, f"{unit}.numbers"))
    return numbers[before : before + parts[part].num_documents]


@lru_cache(maxsize=4)
def _numbers_in(path: Path) -> np.ndarray:
    return np.fromfile(path, "<u4")
