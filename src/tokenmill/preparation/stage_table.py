"""The stages of a preparation in the order they run, and the runner of their tasks.

The table `STAGES` is the one place that names them: `prepare`, numbered jobs, `status`, the Slurm
script, progress and docs/many_machines.md take their words from it. All tasks of a stage may run
at once, on any machine; a stage begins when the one before it is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenmill.base.atomic import keep
from tokenmill.base.progress import Progress
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.executors.executor import Executor, WorkerDiedError
from tokenmill.preparation.budget.disk_space import has_room_for_text
from tokenmill.preparation.plan import Plan
from tokenmill.preparation.settings import Settings
from tokenmill.preparation.stages.assemble import assemble_shard
from tokenmill.preparation.stages.decide import Decision, Layout, count_decisions, hash_documents
from tokenmill.preparation.stages.duplicates import (
    Searched,
    hash_existing_documents,
    hash_existing_lines,
    search_documents,
    search_lines,
    shards_of,
)
from tokenmill.preparation.stages.encode import encode_unit
from tokenmill.preparation.stages.join import join_units, load_joined
from tokenmill.preparation.stages.unit_text import find_characters, hash_lines
from tokenmill.preparation.workspace.work_folder import Receipt, TaskWithReceipt, bytes_and_tokens
from tokenmill.shards.manifest import Manifest

Tasks = list[tuple[Any, ...]]
FIXED = "when the file is fixed, the same command starts again"


@dataclass
class Preparation:
    """A preparation on its way: its plan, and what the stages so far found out."""

    plan: Plan
    previous: Manifest | None = None
    """The dataset that is added to."""
    lines: Searched | None = None
    """Where the repeated lines are, if they are to be dropped."""
    documents: Searched | None = None
    """Where the repeated documents are, if they are to be dropped."""
    layout: Layout | None = None

    def __post_init__(self) -> None:
        self.out_dir = str(self.plan.workspace.out_dir.absolute())  # tasks may run elsewhere
        self.units = range(len(self.plan.units))
        self.existing = shards_of(self.previous)

    @property
    def parts(self) -> range:
        """The numbers of the parts that hold the encoded documents."""
        return range(len(load_joined(self.out_dir).parts))

    @property
    def first_decision(self) -> Decision:
        """All documents by hash, to count what that would give."""
        return Decision(by_hash=True, documents=self.documents, first_run=len(self.existing))


def _units(run: Preparation) -> Tasks:
    return [(unit,) for unit in run.units]


def _existing(run: Preparation) -> Tasks:
    return [(*shard, number) for number, shard in enumerate(run.existing)]


def _lines(run: Preparation) -> Tasks:
    keep_text = has_room_for_text(run.plan)
    return [(unit, len(run.existing) + unit, keep_text) for unit in run.units]


def _line_partitions(run: Preparation) -> Tasks:
    return run.lines.partition_tasks() if run.lines else []


def _encode(run: Preparation) -> Tasks:
    return [(unit, run.lines, len(run.existing) + unit) for unit in run.units]


def _join(run: Preparation) -> Tasks:
    return [()]


def _documents(run: Preparation) -> Tasks:
    return [(part, len(run.existing) + part) for part in run.parts]


def _document_partitions(run: Preparation) -> Tasks:
    return run.documents.partition_tasks() if run.documents else []


def _decisions(run: Preparation) -> Tasks:
    return [(part, run.first_decision) for part in run.parts]


def _shards(run: Preparation) -> Tasks:
    return [(number,) for number in range(len(run.layout.shards))] if run.layout else []


@dataclass(frozen=True)
class Stage:
    """One row of the table."""

    name: str
    task: TaskWithReceipt
    tasks: Callable[[Preparation], Tasks]
    """The arguments of all tasks; before them always comes the folder."""
    per: str
    """What there is one task for."""
    dedup: str | None = None
    """Needed only where this is the setting `dedup`."""
    tokenizer: str | None = None
    """Needed only for a new dataset with this tokenizer."""
    adds: bool = False
    """Needed only where a dataset is added to."""
    in_bytes: bool = False
    """Whether progress is counted in bytes of input, not in tasks."""

    def needed(self, settings: Settings, adds: bool) -> bool:
        """Whether a preparation runs this stage; `adds` is whether a dataset is added to."""
        return (
            self.dedup in (None, settings.dedup)
            and (self.tokenizer is None or (self.tokenizer == settings.tokenizer and not adds))
            and (adds or not self.adds)
        )


UNIT, PART = "unit of input", "part of encoded documents"
OLD_SHARD = "shard of the dataset that is added to"
LINES, DOCUMENTS = "lines", "documents"
STAGES = (
    Stage("characters", find_characters, _units, UNIT, tokenizer="chars"),
    Stage("existing-lines", hash_existing_lines, _existing, OLD_SHARD, LINES, adds=True),
    Stage("lines", hash_lines, _lines, UNIT, LINES, in_bytes=True),
    Stage("line-duplicates", search_lines, _line_partitions, "million lines", LINES),
    Stage("encode", encode_unit, _encode, UNIT, in_bytes=True),
    Stage("join", join_units, _join, "preparation"),
    Stage(
        "existing-documents", hash_existing_documents, _existing, OLD_SHARD, DOCUMENTS, adds=True
    ),
    Stage("documents", hash_documents, _documents, PART, DOCUMENTS),
    Stage(
        "document-duplicates",
        search_documents,
        _document_partitions,
        "million documents",
        DOCUMENTS,
    ),
    Stage("decide", count_decisions, _decisions, PART),
    Stage("assemble", assemble_shard, _shards, "shard"),
)


def stages_for(settings: Settings, *, adds: bool) -> list[Stage]:
    """The stages that a preparation with these settings runs."""
    return [stage for stage in STAGES if stage.needed(settings, adds)]


def stage_of(task_name: str) -> str:
    """The name of the stage whose task function has this name."""
    return next(stage.name for stage in STAGES if stage.task.__name__ == task_name)


class StageRunner:
    """Runs the tasks of a stage; those that were done before are known by their receipts."""

    def __init__(self, run: Preparation, executor: Executor, progress: Progress) -> None:
        self.run, self.executor, self.progress = run, executor, progress
        self._stages = {stage.name: stage for stage in STAGES}

    def __call__(self, name: str) -> list[Receipt]:
        """The receipts of a stage in the order of its tasks; none where it is not needed."""
        stage, run = self._stages[name], self.run
        if not stage.needed(run.plan.settings, run.previous is not None):
            return []
        tasks = stage.tasks(run)
        receipts: list[Receipt] = [{}] * len(tasks)
        total = run.plan.bytes_in if stage.in_bytes else len(tasks)
        measure = bytes_and_tokens if stage.in_bytes else None
        results = self.executor.run(stage.task, [(run.out_dir, *task) for task in tasks])
        try:
            for number, receipt in self.progress.follow(
                name, results, total=total, measure=measure
            ):
                receipts[number] = receipt
        except WorkerDiedError as died:
            if stage.per == UNIT:
                unit = run.plan.units[died.task]
                died.source = run.plan.sources[unit.source].name
                died.message += f", reading {died.source} from {unit.start:,} to {unit.stop:,}"
            raise
        except PrepareError as error:
            if error.source:
                keep(run.plan.workspace.failed_file, error.source.encode("utf-8", "replace"))
            if isinstance(error, BadInputError):
                error.hint = f"{error.hint}; {FIXED}" if error.hint else FIXED
            raise
        return receipts
