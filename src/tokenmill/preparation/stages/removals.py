"""Documents that are left out of a unit: by a stage that saw all of them, and by all rules.

A stage that sees all documents (near-duplicates, decontamination) leaves a file per unit,
`FOLDER/N.removed`: rows of REMOVED, sorted by the number of the document in the unit. Those who
read the text of the unit after it do not see these documents. The file is written before the
receipt of the task that found it, with `write_removed`. Whoever encodes the unit leaves a
`RulesRecord` of everything that was left out, by whatever rule.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.parts import FOLDER
from tokenmill.preparation.workspace.workspace import Workspace
from tokenmill.text.filters.rule import NONE_REMOVED, NOTHING, REMOVED, Removed
from tokenmill.text.reading.chunks import Chunk


@dataclass(frozen=True)
class Removal:
    """What one stage left out, in all units; it is given to the tasks of the stages after it."""

    folder: str
    """Folder of the stage in the workspace."""
    name: str
    """Name of the rule, as in `show --removed --why NAME`."""
    reasons: tuple[str, ...]
    """What the numbers of reasons in its rows stand for."""

    def rows(self, workspace: Workspace, unit: int) -> np.ndarray:
        """The documents that it left out of a unit: (removed,) REMOVED, by number."""
        return workspace.load(self.folder, f"{unit}.removed", REMOVED)


def write_removed(workspace: Workspace, folder: str, unit: int, rows: np.ndarray) -> str:
    """Write what is left out of a unit, and return the name of the file, for the receipt."""
    name = f"{unit}.removed"
    with workspace.new(folder, name) as file:
        file.write(np.sort(rows, order="number").data)
    return name


def without_removed(
    plan: Plan, unit: int, chunks: Iterator[Chunk], removals: Sequence[Removal]
) -> Iterator[Chunk]:
    """Yield chunks without the documents that these stages left out, one stage after the other."""
    found = [(removal, removal.rows(plan.workspace, unit)) for removal in removals]
    for chunk in chunks:
        for removal, rows in found:
            chunk = _without(chunk, removal, rows)
        yield chunk


def _without(chunk: Chunk, removal: Removal, rows: np.ndarray) -> Chunk:
    numbers = chunk.numbers
    is_here = np.isin(rows["number"], numbers)
    is_left = ~np.isin(numbers, rows["number"])
    reasons = tuple(f"{removal.name}: {reason}" for reason in removal.reasons)
    removed = Removed(rows[is_here], reasons)
    dropped = dict(chunk.dropped)
    for reason, number in removed.counts().items():
        dropped[reason] = dropped.get(reason, 0) + number
    left = replace(
        chunk,
        removed=removed if chunk.removed is None else chunk.removed + removed,
        dropped=dropped,
    )
    left.keep_only(is_left.tolist())
    left.left = {**chunk.left, removal.name: (len(left.texts), sum(map(len, left.texts)), 0.0)}
    return left


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
        self._seconds: dict[str, float] = {}
        self._started = time.perf_counter()
        self._texts: dict[int, int] = {}

    def add(self, chunk: Chunk) -> None:
        """Note what became of the documents that were in a chunk."""
        if chunk.removed is not None:
            self._write(chunk.removed)
        self._changed.update(chunk.changed)
        self._texts.update(chunk.texts_by_source)
        for step, (documents, num_bytes, seconds) in chunk.left.items():
            left = self._left.setdefault(step, Counter())
            left.update(documents=documents, bytes=num_bytes)
            self._seconds[step] = self._seconds.get(step, 0.0) + seconds

    def keep(self, numbers: np.ndarray) -> None:
        """Note documents that are encoded."""
        self._numbers.write(numbers.astype("<u4").data)

    def leave_out(self, number: int, reason: str) -> None:
        """Note a document that has no text left."""
        rows = np.array([(number, 0, np.nan, NOTHING, 0)], REMOVED)
        self._write(Removed(rows, (reason,)))

    def _write(self, removed: Removed) -> None:
        together = Removed(NONE_REMOVED.rows, self._reasons.reasons) + removed
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
            "seconds": self._seconds,
            "all_seconds": time.perf_counter() - self._started,
        }
