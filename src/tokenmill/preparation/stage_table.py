"""The stages of a preparation in the order they run, and the runner of their tasks.

The table `STAGES` is the one place that names them: `prepare`, numbered jobs, `status`, the Slurm
script, progress and docs/many_machines.md take their words from it. All tasks of a stage may run
at once, on any machine; a stage begins when the one before it is complete.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tokenmill.base.atomic import keep
from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.executors.executor import Executor, WorkerDiedError
from tokenmill.executors.local import LocalExecutor
from tokenmill.preparation.budget.disk_space import has_room_for_text
from tokenmill.preparation.plan import Plan
from tokenmill.preparation.stages.assemble import assemble_shard
from tokenmill.preparation.stages.decide import Decision, Layout, count_decisions, hash_documents
from tokenmill.preparation.stages.duplicates import (
    MOST_FILES,
    Searched,
    answer_documents,
    answer_lines,
    hash_existing_documents,
    hash_existing_lines,
    merge_documents,
    merge_lines,
    search_documents,
    search_lines,
    shards_of,
)
from tokenmill.preparation.stages.encode import encode_unit
from tokenmill.preparation.stages.join import join_units, load_parts
from tokenmill.preparation.stages.parts import split_of
from tokenmill.preparation.stages.unit_text import find_characters, hash_lines
from tokenmill.preparation.stages.unpack import Unpacking, files_to_unpack, unpack_file
from tokenmill.preparation.workspace.folder_contents import recorded_held_out
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.under_way import UnderWay
from tokenmill.preparation.workspace.work_folder import TaskWithReceipt, bytes_and_tokens
from tokenmill.shards.manifest import Manifest

FIXED = "when the file is fixed, the same command starts again"


@dataclass
class Preparation:
    """A preparation on its way: its plan, what the stages so far found out, and their runner."""

    plan: Plan
    previous: Manifest | None
    """The dataset that is added to."""
    executor: Executor
    progress: Progress
    lines: Searched | None = None
    """Where the repeated lines are, if they are to be dropped."""
    documents: Searched | None = None
    """Where the repeated documents are, if they are to be dropped."""
    layout: Layout | None = None
    unpacking: Unpacking | None = None
    """Large compressed files on their way to text, beside the stages that read them."""

    def __post_init__(self) -> None:
        self.out_dir = str(self.plan.workspace.out_dir.absolute())  # tasks may run elsewhere
        self.first = len(shards_of(self.previous))
        """The number of the first new shard; and of the first run of hashes that is ours."""

    @property
    def keep_text(self) -> bool:
        return has_room_for_text(self.plan)

    @property
    def held_out_runs(self) -> list[tuple[int, int]] | None:
        """Which runs of documents are held out, as ranges; None where all repetitions count."""
        if self.plan.settings.dedup == DOCUMENTS:
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
        return Decision(by_hash=True, documents=self.documents, first_run=self.first)

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
        if not stage.needed(self.plan):
            return []
        num_tasks = NUM_TASKS[stage.per](self)
        if stage.task is unpack_file and isinstance(self.executor, LocalExecutor) and num_tasks:
            self.unpacking = Unpacking(self.plan, self.out_dir, self.executor.workers)
            return []
        return self.run_tasks(stage, num_tasks, stage.shared(self))

    def run_tasks(
        self, stage: "Stage", num_tasks: int, shared: tuple[Any, ...]
    ) -> Sequence[Receipt]:
        """Run all tasks of a stage; those done before are known by their receipts, and not run."""
        if not num_tasks:
            return []
        tasks = [(self.out_dir, number, *shared) for number in range(num_tasks)]
        unpacking = self.unpacking if stage.per == UNIT else None
        turns = unpacking.units_in_turn() if unpacking else None
        units, finished = UnderWay(self.plan.workspace), list[int]()
        units.clear()

        def measure(result: tuple[int, Receipt | None]) -> tuple[int, int]:
            number, receipt = result
            if receipt is None:  # it was done before
                return self._unit_bytes[number], 0
            return bytes_and_tokens(receipt)

        try:
            for number, _ in self.progress.follow(
                stage.name,
                self.executor.run_missing(stage.task, tasks, turns),
                total=self.plan.bytes_in if stage.in_bytes else num_tasks,
                measure=measure if stage.in_bytes else None,
                under_way=lambda: units.bytes_read(but=finished) if stage.in_bytes else 0,
            ):
                finished.append(number)
            if unpacking is not None:
                unpacking.finish()
        except WorkerDiedError as died:
            if stage.per == UNIT:
                died.source, unit = self.plan.name_of(died.task), self.plan.units[died.task]
                died.message += f", reading {died.source}"
                if unit.num_sources == 1:
                    died.message += f" from {unit.start:,} to {unit.stop:,}"
            raise
        except PrepareError as error:
            if error.source:
                keep(self.plan.workspace.failed_file, error.source.encode("utf-8", "replace"))
            if isinstance(error, BadInputError):
                error.hint = f"{error.hint}; {FIXED}" if error.hint else FIXED
            raise
        finally:
            if unpacking is not None:
                unpacking.stop()
        return stage.task.receipts(tasks)


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    task: TaskWithReceipt
    """A function of the folder, the number of the task, and what `shared` gives."""
    per: str
    """What there is one task for."""
    dedup: str | None = None
    """Needed only where this is the setting `dedup`; documents are also compared to keep
    validation sets apart."""
    shared: Callable[[Preparation], tuple[Any, ...]] = lambda run: ()
    """What all tasks are given."""
    tokenizer: str | None = None
    """Needed only for a new dataset with this tokenizer."""
    adds: bool = False
    """Needed only where a dataset is added to."""
    large: bool = False
    """Needed only where more hashes are compared than one search takes (`duplicates.py`)."""
    unpacks: bool = False
    """Needed only where large compressed files are cut into units."""
    in_bytes: bool = False
    """Whether progress is counted in bytes of input, not in tasks."""

    def needed(self, plan: Plan) -> bool:
        """Whether a preparation may run this stage."""
        settings, adds = plan.settings, plan.previous is not None
        keeps_apart = plan.keeps_apart and self.dedup == DOCUMENTS
        return (
            (self.dedup in (None, settings.dedup) or keeps_apart)
            and (self.tokenizer is None or (self.tokenizer == settings.tokenizer and not adds))
            and (adds or not self.adds)
            and (not self.unpacks or bool(files_to_unpack(plan)))
        )


UNIT, PART = "unit of input", "part of encoded documents"
OLD_SHARD = "shard of the dataset that is added to"
LINES, DOCUMENTS = "lines", "documents"
STAGES = (
    Stage("unpack", unpack_file, "large compressed file", unpacks=True),
    Stage("characters", find_characters, UNIT, tokenizer="chars", in_bytes=True),
    Stage("existing-lines", hash_existing_lines, OLD_SHARD, LINES, adds=True),
    Stage("lines", hash_lines, UNIT, LINES, lambda run: (run.first, run.keep_text), in_bytes=True),
    Stage(
        "merge-lines", merge_lines, "group of units", LINES, lambda run: (run.lines,), large=True
    ),
    Stage("line-duplicates", search_lines, "million lines", LINES, lambda run: (run.lines,)),
    Stage(
        "line-answers", answer_lines, "group of units", LINES, lambda run: (run.lines,), large=True
    ),
    Stage("encode", encode_unit, UNIT, None, lambda run: (run.lines, run.first), in_bytes=True),
    Stage("join", join_units, "preparation"),
    Stage("existing-documents", hash_existing_documents, OLD_SHARD, DOCUMENTS, adds=True),
    Stage("documents", hash_documents, PART, DOCUMENTS, lambda run: (run.first,)),
    Stage(
        "merge-documents",
        merge_documents,
        "group of parts",
        DOCUMENTS,
        lambda run: (run.documents,),
        large=True,
    ),
    Stage(
        "document-duplicates",
        search_documents,
        "million documents",
        DOCUMENTS,
        lambda run: (run.documents,),
    ),
    Stage(
        "document-answers",
        answer_documents,
        "group of parts",
        DOCUMENTS,
        lambda run: (run.documents,),
        large=True,
    ),
    Stage("decide", count_decisions, PART, None, lambda run: (run.first_decision,)),
    Stage("assemble", assemble_shard, "shard"),
)
NUM_TASKS: dict[str, Callable[[Preparation], int]] = {
    "large compressed file": lambda run: len(files_to_unpack(run.plan)),
    "preparation": lambda run: 1,
    UNIT: lambda run: len(run.plan.units),
    PART: lambda run: len(load_parts(run.out_dir)),
    OLD_SHARD: lambda run: run.first,
    "group of units": lambda run: run.lines.num_groups if run.lines else 0,
    "group of parts": lambda run: run.documents.num_groups if run.documents else 0,
    "million lines": lambda run: run.lines.partitions if run.lines else 0,
    "million documents": lambda run: run.documents.partitions if run.documents else 0,
    "shard": lambda run: len(run.layout.shards) if run.layout else 0,
}


def stages_for(plan: Plan) -> list[Stage]:
    """The stages that a preparation runs; some only where there are many units."""
    large = len(plan.units) > MOST_FILES
    return [stage for stage in STAGES if stage.needed(plan) and (large or not stage.large)]


def stage_of(task_name: str) -> str:
    """The name of the stage whose task function has this name."""
    return next(stage.name for stage in STAGES if stage.task.__name__ == task_name)
