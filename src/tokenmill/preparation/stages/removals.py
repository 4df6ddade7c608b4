"""Documents that are left out of a unit: while it is encoded, or later, when all were seen.

Whoever encodes a unit leaves a `RulesRecord` of the documents that rules left out. A stage that saw
all documents (near-duplicates, test items) leaves a file per unit, `FOLDER/N.removed`: rows of
REMOVED, by the number of the document in the unit. `decide` drops their documents as it drops
duplicates, by their rows in the parts of the unit.
"""

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import FOLDER
from tokenmill.preparation.workspace.workspace import Workspace
from tokenmill.text.filters.rule import NONE_REMOVED, NOTHING, REMOVED, Removed
from tokenmill.text.reading.chunks import Chunk


@dataclass(frozen=True)
class Removal:
    """What one stage left out, in all units."""

    folder: str
    """Folder of the stage in the workspace."""
    name: str
    """Name of the rule, as in `show --removed --why NAME`."""
    reasons: tuple[str, ...]
    """What the numbers of reasons in its rows stand for."""

    def rows(self, workspace: Workspace, unit: int) -> np.ndarray:
        """The documents that it left out of a unit: (removed,) REMOVED, by number."""
        return workspace.load(self.folder, f"{unit}.removed", REMOVED)


NEAR = Removal("near", "near", ("like another document",))
EVALS = "evals"


def set_names(plan: Plan) -> list[str]:
    """The test sets of a plan."""
    return [name.partition("@")[0] for name in str(plan.settings.decontaminate).split(",")]


def late_removals(plan: Plan) -> list[Removal]:
    """The stages that leave documents out after all were encoded, in their order."""
    steps = []
    if plan.finds_test_items and plan.settings.on_contaminated == "drop":
        steps.append(Removal(EVALS, "decontaminate", tuple(set_names(plan))))
    return [*steps, NEAR] if plan.compares_near else steps


def removed_late(plan: Plan, unit: int) -> Iterator[Removed]:
    """What these stages left out of a unit."""
    for step in late_removals(plan):
        reasons = tuple(f"{step.name}: {reason}" for reason in step.reasons)
        yield Removed(step.rows(plan.workspace, unit), reasons)


def count_late(plan: Plan) -> Counter[str]:
    """How many documents went, by reason."""
    counts = Counter[str]()
    for unit in range(len(plan.units) if late_removals(plan) else 0):
        for removed in removed_late(plan, unit):
            counts.update(removed.counts())
    return counts


def rows_that_go(plan: Plan, part: int, *, but: Removal | None = None) -> np.ndarray:
    """Return a mask of the documents of a part that these stages left out; of all `but` one."""
    steps = [step for step in late_removals(plan) if step != but]
    if not steps:
        return np.zeros(load_parts(plan.workspace.place)[part].num_documents, np.bool_)
    unit = unit_of(plan, part)
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


def write_rows(
    plan: Plan, folder: str, kind: str, units: np.ndarray, rows: np.ndarray
) -> list[str]:
    """Write rows, whose units are given, as `N.KIND` for each unit, by the number of the document;
    return the names of the files, for the receipt."""
    order = np.lexsort((rows["number"], units))
    edges = units[order].searchsorted(np.arange(len(plan.units) + 1))
    names = [f"{unit}.{kind}" for unit in range(len(plan.units))]
    for unit, name in enumerate(names):
        with plan.workspace.new(folder, name) as file:
            file.write(rows[order[edges[unit] : edges[unit + 1]]].data)
    return names


class RulesRecord:
    """What rules did to the documents of a unit, written while they are encoded.

    `units/N.removed` has those that were left out, `units/N.numbers` the numbers of the others, in
    the order of the rows of all its parts. The rest goes into the receipt.
    """

    def __init__(self, plan: Plan, unit: int, task: ExitStack) -> None:
        self._files = [f"{unit}.removed", f"{unit}.numbers"]
        self._open = task.enter_context(ExitStack())
        new = (plan.workspace.new(FOLDER, name) for name in self._files)
        self._removed, self._numbers = map(self._open.enter_context, new)
        self._reasons = NONE_REMOVED
        self._changed = Counter[str]()
        self._left: dict[str, Counter[str]] = {}
        self._seconds = Counter[str]()
        self._started = time.perf_counter()
        self._texts: dict[int, int] = {}

    def add(self, chunk: Chunk) -> None:
        """Note what became of the documents that were in a chunk."""
        if chunk.removed is not None:
            self._write(chunk.removed)
        self._changed.update(chunk.changed)
        self._texts.update(chunk.texts_by_source)
        for step, (documents, num_bytes, seconds) in chunk.left.items():
            self._left.setdefault(step, Counter()).update(documents=documents, bytes=num_bytes)
            self._seconds[step] += seconds  # type: ignore[assignment]

    def keep(self, numbers: np.ndarray) -> None:
        """Note documents that are encoded."""
        self._numbers.write(numbers.astype("<u4").data)

    def leave_out(self, number: int, reason: str) -> None:
        """Note a document that has no text left."""
        rows = np.array([(number, 0, np.nan, NOTHING, 0)], REMOVED)
        self._write(Removed(rows, (reason,)))

    def _write(self, removed: Removed) -> None:
        together = self._reasons + removed
        self._removed.write(together.rows.data)
        self._reasons = Removed(NONE_REMOVED.rows, together.reasons)

    def finish(self) -> dict[str, Any]:
        """Close the files; what the receipt says."""
        self._open.close()
        return {
            "files": self._files,
            "reasons": self._reasons.reasons,
            "changed": dict(self._changed),
            "left": {step: dict(counts) for step, counts in self._left.items()},
            "texts": list(self._texts.values()),
            "seconds": dict(self._seconds),
            "all_seconds": time.perf_counter() - self._started,
        }
