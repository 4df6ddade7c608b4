"""The stages of a preparation in the order they run, and the runner of their tasks.

The table `STAGES` is the one place that names them: `prepare`, numbered jobs, `status`, the Slurm
script, progress and docs/many_machines.md take their words from it. All tasks of a stage may run
at once, on any machine; a stage begins when the one before it is complete. The module of a task is
imported when its stage runs.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tokenmill.base.atomic import keep
from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.executors.executor import Executor, WorkerDiedError
from tokenmill.executors.local import LocalExecutor
from tokenmill.preparation.planning.disk_space import has_room_for_text
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.decide import Decision, Layout
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.stages.parts import split_of
from tokenmill.preparation.workspace.folder_contents import recorded_held_out
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.under_way import UnderWay
from tokenmill.preparation.workspace.work_folder import TaskWithReceipt, bytes_and_tokens
from tokenmill.shards.manifest import Manifest

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search
    from tokenmill.preparation.stages.unpack import Unpacking

FIXED = "when the file is fixed, the same command starts again"


@dataclass
class Preparation:
    """A preparation on its way: its plan, what the stages so far found out, and their runner."""

    plan: Plan
    previous: Manifest | None
    """The dataset that is added to."""
    executor: Executor
    progress: Progress
    lines: "Search | None" = None
    """Where the repeated lines are, if they are to be dropped."""
    documents: "Search | None" = None
    """Where the repeated documents are, if they are to be dropped."""
    layout: Layout | None = None
    unpacking: "Unpacking | None" = None
    """Large compressed files on their way to text, beside the stages that read them."""

    def __post_init__(self) -> None:
        self.out_dir = str(self.plan.workspace.out_dir.absolute())  # tasks may run elsewhere
        splits = self.previous.splits.values() if self.previous is not None else ()
        self.first = sum(len(split.shards) for split in splits)
        """Number of the first new shard, and of the first new unit of a search."""

    @property
    def keep_text(self) -> bool:
        return has_room_for_text(self.plan)

    def search_lines(self) -> None:
        """Hash all lines, and search for repeated ones, if that is asked for."""
        if _compares_lines(self.plan):
            from tokenmill.preparation.stages.duplicates import Search

            self.lines = Search("lines", self.first + len(self.plan.units))
            num_hashes = self._hash_all("existing-lines", "lines")
            self.lines = replace(self.lines, num_hashes=num_hashes)
            self.run("line-duplicates")

    def search_documents(self) -> None:
        """Hash all documents, and search for repeated ones, if that is needed."""
        if _compares_documents(self.plan):
            from tokenmill.preparation.stages.duplicates import Search

            num_units = self.first + len(load_parts(self.out_dir))
            self.documents = Search("documents", num_units, self._held_out_units)
            num_hashes = self._hash_all("existing-documents", "documents")
            self.documents = replace(self.documents, num_hashes=num_hashes)
            self.run("document-duplicates")

    def _hash_all(self, *stages: str) -> int:
        return sum(receipt["hashes"] for stage in stages for receipt in self.run(stage))

    @property
    def _held_out_units(self) -> list[tuple[int, int]] | None:
        """Ranges of shards and parts that are held out; None where all repetitions count."""
        if self.plan.settings.dedup == "documents":
            return None
        from_files, found, start = recorded_held_out(self.previous), [], 0
        for name, split in self.previous.splits.items() if self.previous else ():
            if name in from_files:
                found.append((start, start + len(split.shards)))
            start += len(split.shards)
        parts = load_parts(self.out_dir)
        num_held_out = sum(split_of(self.plan, part) is not None for part in parts)
        return [*found, (self.first, self.first + num_held_out)]

    @property
    def first_decision(self) -> Decision:
        """All documents by hash, to count what that would give."""
        return Decision(by_hash=True, documents=self.documents, first_unit=self.first)

    @cached_property
    def _unit_bytes(self) -> list[int]:
        """How much of the input each unit reads, about; row groups count as equally large."""
        units, sources = self.plan.units, self.plan.sources
        last = {unit.source: unit.stop for unit in units}
        return [
            sources[unit.source].size * (unit.stop - unit.start) // max(1, last[unit.source])
            if unit.num_sources == 1
            else sum(sources[number].size for number in unit.sources)
            for unit in units
        ]

    def run(self, name: str) -> Sequence[Receipt]:
        """The receipts of a stage in the order of its tasks; none where it is not needed."""
        stage = next(stage for stage in STAGES if stage.name == name)
        if not stage.when(self.plan):
            return []
        num_tasks = NUM_TASKS[stage.per](self)
        if name == "unpack" and isinstance(self.executor, LocalExecutor):
            return self._unpack_meanwhile(self.executor.workers)
        return self.run_tasks(stage, num_tasks, stage.shared(self))

    def _unpack_meanwhile(self, workers: int) -> Sequence[Receipt]:
        """Unpack files in threads, while the stage that reads them runs."""
        from tokenmill.preparation.stages.unpack import Unpacking

        self.unpacking = Unpacking(self.plan, self.out_dir, workers)
        return []

    def run_tasks(
        self, stage: "Stage", num_tasks: int, shared: tuple[Any, ...]
    ) -> Sequence[Receipt]:
        """Run all tasks of a stage; those done before are known by their receipts, and not run."""
        if not num_tasks:
            return []
        tasks = [(self.out_dir, number, *shared) for number in range(num_tasks)]
        unpacking = self.unpacking if stage.per == UNIT else None
        turns = unpacking.units_in_turn() if unpacking is not None else None
        results = self.executor.run_missing(stage.task, tasks, turns)
        try:
            with self._explaining(stage):
                for _ in self._follow(stage, results, num_tasks):
                    pass
                if unpacking is not None:
                    unpacking.finish()
        finally:
            if unpacking is not None:
                unpacking.stop()
        return stage.task.receipts(tasks)

    def _follow(
        self, stage: "Stage", results: Iterator[tuple[int, Any]], num_tasks: int
    ) -> Iterator[Any]:
        """Show the progress: in bytes where units are read, else in tasks."""
        meter = _UnitMeter(self.plan, self._unit_bytes if stage.in_bytes else [])
        if not stage.in_bytes:
            return self.progress.follow(stage.name, results, total=num_tasks)
        return self.progress.follow(
            stage.name,
            results,
            total=self.plan.bytes_in,
            measure=meter.measure,
            under_way=meter.bytes_under_way,
        )

    @contextmanager
    def _explaining(self, stage: "Stage") -> Iterator[None]:
        """Errors of tasks say which input was read, and what to do."""
        try:
            yield
        except WorkerDiedError as died:
            if stage.per == UNIT:
                died.source = self.plan.name_of(died.task)
                died.message += f", reading {self.plan.range_of(died.task)}"
            raise
        except PrepareError as error:
            if error.source:
                keep(self.plan.workspace.failed_file, error.source.encode("utf-8", "replace"))
            if isinstance(error, BadInputError):
                error.hint = f"{error.hint}; {FIXED}" if error.hint else FIXED
            raise


class _UnitMeter:
    """Bytes of input that the units of a stage have read so far, for the progress shown."""

    def __init__(self, plan: Plan, unit_bytes: Sequence[int]) -> None:
        self._unit_bytes = unit_bytes
        self._finished: list[int] = []
        self._under_way = UnderWay(plan.workspace)
        self._under_way.clear()

    def measure(self, result: tuple[int, Receipt | None]) -> tuple[int, int]:
        """Bytes and tokens of a unit that is finished."""
        number, receipt = result
        self._finished.append(number)
        if receipt is None:  # it was done before
            return self._unit_bytes[number], 0
        return bytes_and_tokens(receipt)

    def bytes_under_way(self) -> int:
        return self._under_way.bytes_read(but=self._finished)


def _always(plan: Plan) -> bool:
    return True


def _compares_lines(plan: Plan) -> bool:
    return plan.settings.dedup == "lines"


def _adds_lines(plan: Plan) -> bool:
    return plan.previous is not None and _compares_lines(plan)


def _compares_documents(plan: Plan) -> bool:
    """Also to keep validation sets apart from the rest."""
    return plan.settings.dedup == "documents" or plan.keeps_apart


def _adds_documents(plan: Plan) -> bool:
    return plan.previous is not None and _compares_documents(plan)


def _learns_characters(plan: Plan) -> bool:
    return plan.settings.tokenizer == "chars" and plan.previous is None


def _has_packed_files(plan: Plan) -> bool:
    return bool(plan.packed_sources)


def _nothing(run: Preparation) -> tuple[Any, ...]:
    return ()


def _lines(run: Preparation) -> tuple[Any, ...]:
    return (run.lines,)


def _documents(run: Preparation) -> tuple[Any, ...]:
    return (run.documents,)


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    function: str
    """Its task: a function of the folder, the number of the task, and what `shared` gives."""
    per: str
    """What there is one task for."""
    when: Callable[[Plan], bool] = _always
    """Whether a preparation needs it."""
    shared: Callable[[Preparation], tuple[Any, ...]] = _nothing
    """What all tasks are given."""
    in_bytes: bool = False
    """Progress is counted in bytes of input, not in tasks."""

    @property
    def task(self) -> TaskWithReceipt:
        module, _, name = self.function.rpartition(".")
        task: TaskWithReceipt = getattr(importlib.import_module(f"{ROOM}.{module}"), name)
        return task


ROOM = "tokenmill.preparation"
UNIT = "unit of input"
PART = "part of encoded documents"
OLD_SHARD = "shard of the dataset that is added to"
STAGES = (
    Stage("unpack", "stages.unpack.unpack_file", "large compressed file", _has_packed_files),
    Stage(
        "characters", "stages.learn_chars.find_characters", UNIT, _learns_characters, in_bytes=True
    ),
    Stage(
        "existing-lines", "stages.duplicates.hash_existing_lines", OLD_SHARD, _adds_lines, _lines
    ),
    Stage(
        "lines",
        "stages.line_hashes.hash_lines",
        UNIT,
        _compares_lines,
        lambda run: (run.first, run.lines, run.keep_text),
        in_bytes=True,
    ),
    Stage(
        "line-duplicates",
        "stages.duplicates.search_lines",
        "partition of all lines",
        _compares_lines,
        _lines,
    ),
    Stage(
        "encode",
        "stages.encode.encode_unit",
        UNIT,
        shared=lambda run: (run.lines, run.first),
        in_bytes=True,
    ),
    Stage("join", "stages.join.join_units", "preparation"),
    Stage(
        "existing-documents",
        "stages.duplicates.hash_existing_documents",
        OLD_SHARD,
        _adds_documents,
        _documents,
    ),
    Stage(
        "documents",
        "stages.duplicates.hash_documents",
        PART,
        _compares_documents,
        lambda run: (run.first, run.documents),
    ),
    Stage(
        "document-duplicates",
        "stages.duplicates.search_documents",
        "partition of all documents",
        _compares_documents,
        _documents,
    ),
    Stage(
        "decide",
        "stages.decide.count_decisions",
        PART,
        shared=lambda run: (run.first_decision,),
    ),
    Stage("assemble", "stages.assemble.assemble_shard", "shard"),
)
NUM_TASKS: dict[str, Callable[[Preparation], int]] = {
    "large compressed file": lambda run: len(run.plan.packed_sources),
    "preparation": lambda run: 1,
    UNIT: lambda run: len(run.plan.units),
    PART: lambda run: len(load_parts(run.out_dir)),
    OLD_SHARD: lambda run: run.first,
    "partition of all lines": lambda run: run.lines.partitions if run.lines else 0,
    "partition of all documents": lambda run: run.documents.partitions if run.documents else 0,
    "shard": lambda run: len(run.layout.shards) if run.layout else 0,
}


def stages_for(plan: Plan) -> list[Stage]:
    """Return the stages that a preparation runs."""
    return [stage for stage in STAGES if stage.when(plan)]


def stage_of(task_name: str) -> str:
    """The name of the stage whose task function has this name."""
    return next(stage.name for stage in STAGES if stage.function.endswith(f".{task_name}"))
