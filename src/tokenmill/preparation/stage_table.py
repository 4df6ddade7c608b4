"""The stages of a preparation in the order they run, and the runner of their tasks.

The table `STAGES` is the one place that names them: numbered jobs, `status`, the Slurm script,
progress and many_machines.md take their words from it. All tasks of a stage may run at the
same time, on any machine; a stage starts when the one before it is complete.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.executors.executor import Executor, SizeOf, Tasks, WorkerDiedError, one
from tokenmill.preparation.planning.limits import has_room_for_text
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.decide import Layout
from tokenmill.preparation.stages.encode import load_parts
from tokenmill.preparation.stages.parts import split_of
from tokenmill.preparation.workspace.existing_dataset import recorded_held_out
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import FAILED
from tokenmill.shards.manifest import Manifest

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search
    from tokenmill.preparation.stages.near_duplicates import NearSearch

ROOM = "tokenmill.preparation"
FIXED = "when the file is fixed, the same command starts again"
UNIT = "unit of input"
PART = "part of encoded documents"
OLD_SHARD = "shard of the dataset that is added to"
LINES = "partition of all lines"
BANDS = "partition of all sketches"
DOCUMENTS = "partition of all documents"
SHARD = "shard"
SPLIT = "split"
PACKED_FILE = "large compressed file"


@dataclass
class Preparation:
    """A preparation in progress: its plan, what the stages so far found out, and their runner."""

    plan: Plan
    previous: Manifest | None
    """The dataset that is added to."""
    executor: Executor
    progress: Progress
    lines: "Search | None" = None
    """Where repeated lines are, if they are to be dropped."""
    documents: "Search | None" = None
    """Where repeated documents are, if they are to be dropped."""
    near: "NearSearch | None" = None
    """Where near-duplicates are, if they are to be dropped."""
    layout: Layout | None = None
    bytes_read: int = 0
    """Bytes of input that this run encoded; an earlier one may have done the others."""

    def __post_init__(self) -> None:
        self.out_dir = self.plan.workspace.place  # tasks may run elsewhere
        splits = self.previous.splits.values() if self.previous is not None else ()
        self.first = sum(len(split.shards) for split in splits)
        """Number of the first new shard, and of the first new unit of a search."""
        self._amounts: dict[int, tuple[int, int]] = {}
        """Bytes and tokens of units of the running stage that were done before."""

    @property
    def keep_text(self) -> bool:
        return has_room_for_text(self.plan)

    def find_repeated(self, kind: str, num_units: int) -> None:
        """Find repeated lines or documents, if that is needed, in `num_units` units or parts."""
        from tokenmill.preparation.stages.duplicates import Search

        held_out = self._held_out_units() if kind == "document" else None
        search = Search(f"{kind}s", self.first + num_units, held_out, first=self.first)
        setattr(self, f"{kind}s", search)
        receipts = [*self.run(f"existing-{kind}s"), *self.run(f"{kind}s")]
        num_hashes = sum(receipt["hashes"] for receipt in receipts)
        setattr(self, f"{kind}s", replace(search, num_hashes=num_hashes))
        self.run(f"{kind}-duplicates")

    def find_near(self) -> None:
        """Find near-duplicates, and choose which documents go."""
        from tokenmill.preparation.stages.near_duplicates import NearSearch

        self.near = NearSearch(self.first + len(load_parts(self.out_dir)), self.first)
        receipts = [*self.run("near-existing"), *self.run("near-bands")]
        self.near = replace(self.near, num_bands=sum(receipt["bands"] for receipt in receipts))
        for name in ("near-candidates", "near-pairs", "near-choice"):
            self.run(name)
        from tokenmill.preparation.stages.heavy_dedup import check_heavy

        check_heavy(self.plan, self.first)

    def _held_out_units(self) -> list[tuple[int, int]] | None:
        """Return the ranges of shards and parts held out; None if all repetitions count."""
        if self.plan.settings.dedup in ("documents", "near"):
            return None
        held_out = []
        if self.previous is not None:
            from_files = recorded_held_out(self.previous)
            start = 0
            for name, split in self.previous.splits.items():
                if name in from_files:
                    held_out.append((start, start + len(split.shards)))
                start += len(split.shards)
        parts = load_parts(self.out_dir)
        num_held_out = sum(split_of(self.plan, part) is not None for part in parts)
        return [*held_out, (self.first, self.first + num_held_out)]

    def run(self, name: str) -> Iterator[Receipt]:
        """Return the receipts of a stage, in the order of its tasks; none if it is not needed."""
        stage = next(stage for stage in STAGES if stage.name == name)
        num_tasks = NUM_TASKS[stage.per](self) if stage.when(self.plan) else 0
        shared = [getattr(self, name) for name in stage.shared] if num_tasks else []
        return self.run_tasks(stage, num_tasks, *shared)

    def run_tasks(self, stage: "Stage", num_tasks: int, *shared: Any) -> Iterator[Receipt]:
        """Run all tasks of a stage; those done before are known by their receipts, and not run."""
        names = [stage.receipt.format(number=n, unit=self.first + n) for n in range(num_tasks)]
        if names:
            arguments = [(self.out_dir, number, *shared) for number in range(num_tasks)]
            missing = partial(self._missing, stage, names)
            tasks = Tasks(stage.name, stage.task, arguments, missing, self._size_of(stage))
            try:
                for _, receipt in self._follow(stage, names, self.executor.run_missing(tasks)):
                    if stage.name == "encode" and receipt is not None:
                        self.bytes_read += receipt["counts"].get("bytes_in", 0)
            except PrepareError as error:
                self._explain(error, stage)
                raise
        return self.plan.workspace.receipts(stage.folder, names)

    def _size_of(self, stage: "Stage") -> SizeOf:
        """Return a function for the size of a task, by its number: bytes, where units are read."""
        units = self.plan.units
        return (lambda n: units[n].stop - units[n].start) if stage.per == UNIT else one

    def _missing(
        self,
        stage: "Stage",
        names: Sequence[str],
        whose: Callable[[int], bool] = lambda number: True,
    ) -> list[int]:
        """Return the tasks without a receipt; where `whose` says so, or without its files."""
        workspace = self.plan.workspace
        logs = workspace.logs(stage.folder)
        logs.refresh()
        missing = [number for number, name in enumerate(names) if not logs.has(name)]
        looked_at = [n for n, name in enumerate(names) if logs.has(name) and whose(n)]
        receipts = logs.in_order([names[number] for number in looked_at])
        for number, receipt in zip(looked_at, receipts, strict=True):
            if receipt is None or not workspace.has_files(stage.folder, receipt):
                missing.append(number)
            elif stage.per == UNIT:
                self._amounts[number] = _amount(receipt)
        return sorted(missing)

    def _follow(
        self, stage: "Stage", names: Sequence[str], results: Iterator[tuple[int, Any]]
    ) -> Iterator[tuple[int, Any]]:
        """Show the progress: in bytes where units are read, else in tasks."""
        follow = partial(
            self.progress.follow, stage.name, results, was_done=lambda result: result[1] is None
        )
        if stage.per != UNIT:
            return follow(total=len(names))
        workspace = self.plan.workspace
        workspace.forget_noted()
        finished: list[int] = []
        self._amounts.clear()

        def bytes_and_tokens(result: tuple[int, Receipt | None]) -> tuple[int, int]:
            number, receipt = result
            finished.append(number)
            if receipt is None and number in self._amounts:
                return self._amounts[number]
            return _amount(receipt or workspace.logs(stage.folder).get(names[number]) or {})

        return follow(
            total=self.plan.bytes_in,
            measure=bytes_and_tokens,
            under_way=lambda: workspace.bytes_noted(but=finished),
        )

    def _explain(self, error: PrepareError, stage: "Stage") -> None:
        """Say which input was read, and what to do."""
        if isinstance(error, WorkerDiedError):
            if stage.per == UNIT:
                unit = self.plan.units[error.task]
                error.source = self.plan.name_of(error.task)
                error.message += f", reading {error.source}"
                if unit.num_sources == 1:
                    error.message += f" from {unit.start:,} to {unit.stop:,}"
            elif stage.per == PACKED_FILE:
                error.source = self.plan.sources[self.plan.packed_sources[error.task]].name
                error.message += f", unpacking {error.source}"
        elif error.source:
            self.plan.workspace.keep(FAILED, error.source.encode("utf-8", "replace"))
        if isinstance(error, BadInputError):
            error.hint = f"{error.hint}; {FIXED}" if error.hint else FIXED


def _amount(receipt: Receipt) -> tuple[int, int]:
    """Return the bytes of a unit, and its tokens if it was encoded."""
    parts = receipt.get("parts", ())
    tokens = sum(file["num_tokens"] for part in parts for file in part["files"])
    return receipt.get("counts", {}).get("bytes_in", 0), tokens


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    function: str
    """Its task: a function of the folder, the number of the task, and what is shared."""
    per: str
    """What there is one task for."""
    folder: str
    """Folder of its files and of its receipts."""
    when: Callable[[Plan], bool] = lambda plan: True
    """Whether a preparation needs it."""
    shared: tuple[str, ...] = ()
    """Attributes of `Preparation` that all tasks are given."""
    receipt: str = "{number}"
    """Name of the receipt of a task: by its number, or by the number of its unit in a search."""

    @property
    def task(self) -> Callable[..., Receipt]:
        module, _, name = self.function.rpartition(".")
        task: Callable[..., Receipt] = getattr(importlib.import_module(f"{ROOM}.{module}"), name)
        return task


# fmt: off
STAGES = (
    Stage("unpack", "stages.unpack.unpack_file", PACKED_FILE, "unpacked",
          lambda plan: bool(plan.packed_sources)),
    Stage("characters", "stages.unit_text.find_characters", UNIT, "characters",
          lambda plan: plan.settings.tokenizer == "chars" and not plan.previous),
    Stage("existing-lines", "stages.duplicates.hash_existing", OLD_SHARD, "lines",
          lambda plan: bool(plan.previous) and plan.compares_lines, ("lines",)),
    Stage("lines", "stages.cleaned_text.hash_lines", UNIT, "lines",
          lambda plan: plan.compares_lines, ("lines", "keep_text"), "{unit}"),
    Stage("line-duplicates", "stages.duplicates.search_partition", LINES, "lines",
          lambda plan: plan.compares_lines, ("lines",), "search-{number}"),
    Stage("test-items", "stages.contamination.find_hits", UNIT, "evals",
          lambda plan: plan.cuts_test_items, ("lines",)),
    Stage("test-items-to-cut", "stages.contamination.judge_hits", "preparation", "evals",
          lambda plan: plan.cuts_test_items, receipt="judged"),
    Stage("encode", "stages.encode.encode_unit", UNIT, "units", shared=("lines",)),
    Stage("join", "stages.encode.join_units", "preparation", "joined"),
    Stage("test-items-found", "stages.contamination.judge_hits", "preparation", "evals",
          lambda plan: plan.finds_test_items and not plan.cuts_test_items, receipt="judged"),
    Stage("existing-documents", "stages.duplicates.hash_existing", OLD_SHARD, "documents",
          lambda plan: bool(plan.previous) and plan.compares_documents, ("documents",)),
    Stage("documents", "stages.duplicates.hash_documents", PART, "documents",
          lambda plan: plan.compares_documents, ("documents",), "{unit}"),
    Stage("document-duplicates", "stages.duplicates.search_partition", DOCUMENTS, "documents",
          lambda plan: plan.compares_documents, ("documents",), "search-{number}"),
    Stage("near-existing", "stages.near_duplicates.hash_shard", OLD_SHARD, "near",
          lambda plan: bool(plan.previous) and plan.compares_near, ("near",)),
    Stage("near-bands", "stages.near_duplicates.hash_part", PART, "near",
          lambda plan: plan.compares_near, ("near", "documents"), "{unit}"),
    Stage("near-candidates", "stages.near_duplicates.find_candidates", BANDS, "near",
          lambda plan: plan.compares_near, ("near",), "candidates-{number}"),
    Stage("near-pairs", "stages.near_duplicates.compare_pairs", BANDS, "near",
          lambda plan: plan.compares_near, ("near",), "similar-{number}"),
    Stage("near-choice", "stages.near_duplicates.choose", "preparation", "near",
          lambda plan: plan.compares_near, ("near",), "choice"),
    Stage("decide", "stages.decide.count_decisions", PART, "decisions", shared=("documents",)),
    Stage("assemble", "stages.assemble.assemble_shard", SHARD, "shards"),
    Stage("facts", "stages.document_facts.assemble_facts", SPLIT, "facts",
          lambda plan: plan.settings.keeps_facts),
)
# fmt: on
NUM_TASKS: dict[str, Callable[[Preparation], int]] = {
    PACKED_FILE: lambda run: len(run.plan.packed_sources),
    "preparation": lambda run: 1,
    UNIT: lambda run: len(run.plan.units),
    PART: lambda run: len(load_parts(run.out_dir)),
    OLD_SHARD: lambda run: run.first,
    LINES: lambda run: run.lines.partitions if run.lines else 0,
    DOCUMENTS: lambda run: run.documents.partitions if run.documents else 0,
    BANDS: lambda run: run.near.partitions if run.near else 0,
    SHARD: lambda run: len(run.layout.shards) if run.layout else 0,
    SPLIT: lambda run: len(run.layout.splits) if run.layout else 0,
}


def stages_for(plan: Plan) -> list[Stage]:
    """Return the stages that a preparation runs."""
    return [stage for stage in STAGES if stage.when(plan)]
