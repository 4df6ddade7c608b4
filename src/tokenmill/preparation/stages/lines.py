"""First pass of deduplication: hash every line, then find what was seen before.

Lines are dropped before a text is encoded, so they must be known in advance. This pass keeps 20
bytes a line on disk, and the cleaned text itself if there is room for it (`kept.py`); memory is
bounded by the size of a run here and of a partition there.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress
from typing import Any, Self

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.errors import PrepareError
from tokenmill.preparation.plan import load_plan
from tokenmill.preparation.stages.clean_chunks import cleaned_chunks, lines_of, naming_source
from tokenmill.preparation.stages.clean_text import TextKeeper
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.text.cleaning.dedup import (
    HASH,
    find_duplicates,
    hash_all,
    make_run,
    partition_bounds,
    slice_of,
)

HASHES_PER_RUN = 2 << 20  # 40 MB on disk: a larger unit leaves several runs
HASHES_PER_PARTITION = 1 << 20  # some 70 MB while a partition is searched
ENTRY = np.dtype([("hash", HASH), ("ordinal", "<u4")])


@leaves_receipt(lambda _, unit, number, keep_text: ("lines", str(number)))
def hash_lines(out_dir: str, unit: int, number: int, keep_text: bool) -> dict[str, Any]:
    """Task: leave the sorted line hashes of one unit, as run `number`, and perhaps its text."""
    plan = load_plan(out_dir)
    settings, num_lines, bytes_in = plan.settings, 0, 0
    with ExitStack() as stack:
        stack.enter_context(naming_source(plan, unit))
        writer = stack.enter_context(RunWriter(plan.workspace, "lines", str(number)))
        keeper = stack.enter_context(TextKeeper(plan.workspace, str(number))) if keep_text else None
        for chunk in cleaned_chunks(plan, unit, plan.tokenizer.cuts):
            if keeper is not None:
                keeper.add(chunk)
            lines, counts = lines_of(chunk, settings)
            writer.add(hash_all(compress(lines.all(), counts)), np.flatnonzero(counts) + num_lines)
            num_lines += len(lines)
            bytes_in += chunk.bytes_in
        kept = keeper.finish() if keeper is not None else None
        return writer.finish(counts={"lines": num_lines, "bytes_in": bytes_in}, kept=kept)


def check_ordinals(count: int) -> None:
    """Ordinals are kept in 32 bits: refuse a unit with more, rather than let them wrap."""
    if count >= 1 << 32:
        raise PrepareError(
            f"more than {1 << 32:,} lines or documents in one unit",
            hint="a compressed file is one unit: cut it into several files",
        )


class RunWriter:
    """Collects the hashes of one unit and writes them as sorted runs, then what was repeated."""

    def __init__(self, workspace: Workspace, stage: str, name: str) -> None:
        self.workspace, self.stage, self.name = workspace, stage, name
        self.runs: list[int] = []
        self._hashes: list[np.ndarray] = []
        self._ordinals: list[np.ndarray] = []
        self._repeated: list[np.ndarray] = []
        self._collected = 0
        self._open = ExitStack()
        self._file = self._open.enter_context(new_file(workspace.path(stage, f"{name}.runs")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def add(self, hashes: np.ndarray, ordinals: np.ndarray) -> None:
        """Take the hashes of one chunk with their ordinals in the unit."""
        self._hashes.append(hashes)
        self._ordinals.append(ordinals)
        self._collected += len(hashes)
        if self._collected >= HASHES_PER_RUN:
            self._write_run()

    def finish(self, **facts: Any) -> dict[str, Any]:
        """Write what is left, and the receipt."""
        if self._collected:
            self._write_run()
        repeated = np.concatenate([np.empty(0, "<u4"), *self._repeated]).astype("<u4")
        self._file.write(repeated.data)
        self._open.close()
        return self.workspace.leave_receipt(
            self.stage, self.name, [f"{self.name}.runs"], {"runs": self.runs, **facts}
        )

    def _write_run(self) -> None:
        run = make_run(np.concatenate(self._hashes), np.concatenate(self._ordinals))
        entries = np.empty(len(run.hashes), ENTRY)
        entries["hash"], entries["ordinal"] = run.hashes, run.ordinals
        self._file.write(entries.data)
        self.runs.append(len(entries))
        self._repeated.append(run.repeated)
        self._hashes, self._ordinals, self._collected = [], [], 0


@dataclass(frozen=True)
class Searched:
    """A stage whose runs were searched for repetitions: how many runs, in how many partitions."""

    stage: str
    runs: int
    partitions: int

    @classmethod
    def plan(cls, stage: str, receipts: list[dict[str, Any]]) -> "Searched":
        """So many partitions that each stays within its share of memory."""
        total = sum(sum(receipt["runs"]) for receipt in receipts)
        return cls(stage, len(receipts), max(1, -(-total // HASHES_PER_PARTITION)))

    def repeated(self, workspace: Workspace, number: int) -> np.ndarray:
        """All ordinals of one run that repeat something earlier, in the run or before it."""
        receipt = workspace.receipt(self.stage, str(number))
        assert receipt is not None, f"{self.stage} {number} has no receipt"
        path = workspace.path(self.stage, f"{number}.runs")
        found = [np.fromfile(path, "<u4", offset=ENTRY.itemsize * sum(receipt["runs"]))]
        for partition in range(self.partitions):
            name = f"{_search_name(partition, self.partitions)}.duplicates"
            path = workspace.path(self.stage, name)
            start, stop = np.fromfile(path, "<u8", count=2, offset=8 * number).tolist()
            offset = 8 * (self.runs + 1) + 4 * start
            found.append(np.fromfile(path, "<u4", count=stop - start, offset=offset))
        return np.sort(np.concatenate(found))


def _search_name(partition: int, of: int) -> str:
    return f"search-{partition}-of-{of}"


@leaves_receipt(lambda _, partition, of, runs: ("lines", _search_name(partition, of)))
def search_lines(out_dir: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    """Task: find the lines that are repeated in one partition of the runs."""
    return _search(Workspace(out_dir), "lines", partition, of, runs)


@leaves_receipt(lambda _, partition, of, runs: ("documents", _search_name(partition, of)))
def search_documents(out_dir: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    """Task: find the documents that are repeated in one partition of the runs."""
    return _search(Workspace(out_dir), "documents", partition, of, runs)


def _search(workspace: Workspace, stage: str, partition: int, of: int, runs: int) -> dict[str, Any]:
    done = _search_name(partition, of)
    bounds = partition_bounds(partition, of)
    slices = [
        (number, np.ascontiguousarray(part["hash"]), np.ascontiguousarray(part["ordinal"]))
        for number, entries in _runs(workspace, stage, runs)
        if len(part := entries[slice_of(entries["hash"], bounds)])
    ]
    found = find_duplicates(slices)
    starts = np.searchsorted(found.units, np.arange(runs + 1)).astype("<u8")
    with new_file(workspace.path(stage, f"{done}.duplicates")) as file:
        file.write(starts.tobytes())
        file.write(found.ordinals.astype("<u4").tobytes())
    facts = {"duplicates": len(found.ordinals)}
    return workspace.leave_receipt(stage, done, [f"{done}.duplicates"], facts)


def _runs(workspace: Workspace, stage: str, runs: int) -> Iterator[tuple[int, np.ndarray]]:
    for number in range(runs):
        receipt = workspace.receipt(stage, str(number))
        assert receipt is not None, f"{stage} {number} has no receipt"
        if total := sum(receipt["runs"]):
            path = workspace.path(stage, f"{number}.runs")
            entries = np.memmap(path, ENTRY, mode="r", shape=(total,))
            for stop, length in zip(np.cumsum(receipt["runs"]), receipt["runs"], strict=True):
                yield number, entries[stop - length : stop]
