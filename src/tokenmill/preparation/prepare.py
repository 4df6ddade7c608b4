"""The offline half: text files become a dataset of token shards.

One rule: the plan is a function of the inputs and the settings, never of the workers. So one
worker or sixty-four, run through or killed and started again: the same bytes.

  plan       list inputs, cut them into units                            plan.py
  map        read, clean, drop repeated lines, encode, a unit at a time  stages/encode.py
  decide     duplicates and splits, by hash                              stages/decide.py
  layout     prefix sums give every document its shard and place         shards/layout.py
  assemble   copy documents into shards, hash them, read them back       stages/assemble.py
  commit     balance the books, then write the manifest                  stages/commit.py
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tokenmill.base.atomic import keep
from tokenmill.base.progress import Progress, Silent
from tokenmill.base.signals import stop_on_signals
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.executors.engines import check_engine, open_engine
from tokenmill.executors.executor import Executor, WorkerDiedError
from tokenmill.preparation.budget.disk_space import check_space, explain_bad_disk, has_room_for_text
from tokenmill.preparation.budget.document_limits import decide_limits
from tokenmill.preparation.budget.memory_budget import Memory, fit_into_memory
from tokenmill.preparation.inputs import Inputs
from tokenmill.preparation.plan import UNIT_BYTES, Plan, begin, keep_tokenizer, make_plan
from tokenmill.preparation.settings import Settings, SettingsKeywords
from tokenmill.preparation.stages.assemble import Layout, assemble_shard, keep_layout
from tokenmill.preparation.stages.characters import build_tokenizer, find_characters
from tokenmill.preparation.stages.commit import (
    Outcome,
    check_books,
    commit,
    make_books,
    splits_of,
    tell_places,
)
from tokenmill.preparation.stages.decide import (
    Decision,
    count_fates,
    enough_documents,
    hash_documents,
    on_one_axis,
    stretches,
)
from tokenmill.preparation.stages.encode import encode_unit
from tokenmill.preparation.stages.encoded_list import JoinedParts, load_joined
from tokenmill.preparation.stages.hash_existing import (
    check_gives_text_back,
    hash_existing,
    shards_of,
)
from tokenmill.preparation.stages.join import join_units
from tokenmill.preparation.stages.lines import (
    Searched,
    hash_lines,
    num_partitions,
    search_partition,
)
from tokenmill.preparation.summary import Summary, summarize
from tokenmill.preparation.workspace.target import Target, open_target
from tokenmill.preparation.workspace.task import Receipt, TaskWithReceipt
from tokenmill.shards.layout import lay_out
from tokenmill.text.inputs.file_kind import lookalikes
from tokenmill.text.inputs.open_input import Source

MENDED = "with the file mended, the same command starts anew"


@takes_keywords_of(Settings)
def prepare(
    inputs: Inputs,
    out_dir: str | os.PathLike[str],
    *,
    workers: int | None = None,
    max_ram: int | str | None = None,
    append: bool = False,
    overwrite: bool = False,
    break_lock: bool = False,
    engine: str = "local",
    ray_address: str | None = None,
    work_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    unit_bytes: int = UNIT_BYTES,
    **settings: Unpack[SettingsKeywords],
) -> Summary:
    """Tokenize text files into a new dataset at `out_dir`, or go on where a stopped run left off.

    `inputs` are files, folders or globs: .txt, .jsonl, .csv, .parquet, each also compressed, or
    "-" for standard input. `settings` are the fields of `preparation.settings.Settings`, such as
    `tokenizer="gpt2"`, `dedup="none"`, `val_fraction=0.1`. With `append=True` the documents are
    added to the dataset that is there, whose own settings hold where none are given. `unit_bytes`
    is how much one task reads; like `workers` and `engine`, it never changes the result.

    `engine="ray"` runs the tasks on the Ray cluster at `ray_address`. Inputs and `out_dir` may be
    `s3://` addresses; the work on the way to one is done in the folder `work_dir`.
    """
    started = time.monotonic()
    memory = fit_into_memory(workers, max_ram)
    check_engine(engine, ray_address)
    with (
        stop_on_signals(),
        explain_bad_disk(Path(work_dir or out_dir)),
        open_target(
            out_dir,
            append=append,
            overwrite=overwrite,
            break_lock=break_lock,
            work_dir=work_dir,
        ) as target,
    ):
        progress = progress or Silent()
        asked = target.settings(settings)
        sources = target.sources(inputs, asked, progress)
        begun = start(
            target,
            sources,
            asked,
            settings,
            unit_bytes,
            memory,
            anew=overwrite,
            say=progress.say,
        )
        if isinstance(begun, Summary):
            return begun
        plan, processes = begun
        seen = lookalikes(sources, plan.settings.text_field)
        for note in seen:
            progress.say(note)
        target.workspace.clean_temporary()
        target.workspace.distrust_after_reboot()
        if engine != "local":
            target.workspace.share()
        with open_engine(
            engine,
            processes=processes,
            at_once=workers,
            ray_address=ray_address,
            shared=str(plan.workspace.plan_file.absolute()),
        ) as executor:
            try:
                summary = run_stages(plan, target, executor, progress)
            except BadInputError:
                if append:
                    plan.workspace.forget()  # the dataset is what it was, and open to others
                raise
            summary.notes += seen
        target.finish()
    summary.seconds = round(time.monotonic() - started, 3)
    return summary


def start(
    target: Target,
    sources: list[Source],
    settings: Settings,
    given: SettingsKeywords,
    unit_bytes: int,
    memory: Memory,
    *,
    anew: bool,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Plan, int] | Summary:
    """The plan, written or found, and how many workers fit; or the outcome, if all was done."""
    if done := target.already_done(settings, sources):
        return done
    plan = make_plan(
        target.workspace,
        settings,
        sources,
        previous=target.previous_hash,
        destination=target.destination,
        unit_bytes=unit_bytes,
        chunk_bytes=memory.chunk_bytes,
    )
    check_space(plan)
    tokenizer = target.tokenizer(given)
    plan = begin(plan, tokenizer, anew=anew, say=say)
    return plan, decide_limits(plan, memory, tokenizer)


def run_stages(plan: Plan, target: Target, executor: Executor, progress: Progress) -> Summary:
    """All the work, then the manifest."""
    outcome = make_all(plan, target, executor, progress)
    refuse_nothing(plan, outcome.books)
    check_books(outcome)
    manifest = commit(plan, target.previous, outcome)
    notes = target.notes(plan.settings, plan.sources) + outcome.notes(plan)
    summary = summarize(target.name, manifest, notes)
    summary.bad_input = outcome.bad_input
    return summary


def make_all(plan: Plan, target: Target, executor: Executor, progress: Progress) -> Outcome:
    """Stage by stage; finished tasks are known by their receipts and not repeated."""
    work = Work(plan, target, executor, progress)
    if plan.settings.tokenizer == "chars":
        work.learn_characters()
    lines = work.find_repeated_lines()
    units = work.encode(lines)
    joined = work.join()
    decision, fates = work.decide(joined)
    layout = work.lay_out(fates, decision)
    shards = work.assemble(layout)
    return Outcome(
        splits=splits_of(shards),
        books=make_books(units, joined, fates),
        documents_by_source=work.documents_by_source(units),
        by_hash=decision.by_hash,
        cut_documents=sum(shard["cut_document"] for shard in shards),
        bad_input=tell_places(plan, units),
    )


def refuse_nothing(plan: Plan, books: dict[str, Any]) -> None:
    """A dataset without a document is a mistake: publish nothing, and leave nothing behind."""
    if books["documents_written"]:
        return
    plan.workspace.forget()
    raise PrepareError(
        f"none of {books['documents_in']:,} documents is left to write "
        f"(dropped: {books['dropped']}, lines dropped: {books['lines_dropped']:,})",
        hint="nothing was written; are these the right files, and the right settings?",
    )


class Work:
    """One preparation under way: what to do, who runs the tasks, who watches."""

    def __init__(self, plan: Plan, target: Target, executor: Executor, progress: Progress) -> None:
        self.plan, self.executor, self.progress = plan, executor, progress
        self.previous = target.previous
        self.name = str(plan.workspace.out_dir.absolute())  # tasks may run in other folders
        self.existing = shards_of(target.previous)

    def run(
        self,
        what: str,
        function: TaskWithReceipt,
        tasks: list[tuple[Any, ...]],
        **total: int,
    ) -> list[Receipt]:
        """Run all tasks of a stage; their receipts in the order of the tasks."""
        receipts: list[Receipt] = [{}] * len(tasks)
        total = total or {"tasks": len(tasks)}
        results = self.executor.run(function, [(self.name, *task) for task in tasks])
        try:
            for number, receipt in self.progress.follow(what, results, **total):
                receipts[number] = receipt
        except WorkerDiedError as died:
            if function in (encode_unit, hash_lines, find_characters):
                unit = self.plan.units[died.task]
                died.source = self.plan.sources[unit.source].name
                died.message += f", reading {died.source} from {unit.start:,} to {unit.stop:,}"
            raise
        except PrepareError as error:
            if error.source:
                keep(self.plan.workspace.failed_file, error.source.encode("utf-8", "replace"))
            if isinstance(error, BadInputError):
                error.hint = f"{error.hint}; {MENDED}" if error.hint else MENDED
            raise
        return receipts

    def learn_characters(self) -> None:
        """The tokenizer `chars` knows the characters of the input, and no others."""
        if self.previous is not None:
            return  # begun with the vocabulary that is there
        tasks = [(unit,) for unit in range(len(self.plan.units))]
        found = self.run("characters", find_characters, tasks)
        keep_tokenizer(self.plan.workspace, build_tokenizer(found))

    def find_repeated_lines(self) -> Searched | None:
        """Hash all lines, those of a dataset that is added to first, and search for repetitions."""
        if self.plan.settings.dedup != "lines":
            return None
        if self.existing:
            check_gives_text_back(self.plan.tokenizer)
        before = self._hash_existing("lines")
        keep_text = has_room_for_text(self.plan)
        tasks = [(unit, len(before) + unit, keep_text) for unit in range(len(self.plan.units))]
        ours = self.run("lines", hash_lines, tasks, bytes=self.plan.bytes_in)
        return self._search("lines", before + ours)

    def encode(self, lines: Searched | None) -> list[Receipt]:
        """Read, clean, encode: where the time goes."""
        first = len(self.existing)
        tasks = [(unit, lines, first + unit) for unit in range(len(self.plan.units))]
        return self.run("tokenizing", encode_unit, tasks, bytes=self.plan.bytes_in)

    def join(self) -> JoinedParts:
        """Put documents that were cut by the edge of a unit together again."""
        self.run("joining", join_units, [()])
        return load_joined(self.name)

    def decide(self, joined: JoinedParts) -> tuple[Decision, list[Receipt]]:
        """Which documents are dropped as duplicates, and which split each goes to."""
        searched = None
        if self.plan.settings.dedup == "documents":
            before = self._hash_existing("documents")
            tasks = [(part, len(before) + part) for part in range(len(joined.parts))]
            searched = self._search(
                "documents", before + self.run("documents", hash_documents, tasks)
            )
        decision = Decision(by_hash=True, documents=searched, first_run=len(self.existing))
        fates = self.run(
            "splits", count_fates, [(part, decision) for part in range(len(joined.parts))]
        )
        kept = sum(sum(part["documents"][:2]) for part in fates)
        if not (self._splits_by_hash or enough_documents(kept, self.plan.settings.val_fraction)):
            decision = replace(decision, by_hash=False)
            fates = [on_one_axis(part) for part in fates]
        return decision, fates

    @property
    def _splits_by_hash(self) -> bool:
        """Whether a dataset is added to whose documents were split so: each keeps its split."""
        return self.previous is not None and self.previous.settings.get("split") == "hash"

    def lay_out(self, fates: list[Receipt], decision: Decision) -> Layout:
        """Prefix sums over the parts give every shard its range of the axis."""
        per_part = np.array([part["tokens"] for part in fates], np.int64).reshape(-1, 3)
        part_starts = [np.concatenate(([0], np.cumsum(per_part[:, axis]))) for axis in (0, 1)]
        train, val = (int(starts[-1]) for starts in part_starts)
        settings = self.plan.settings
        layout = Layout(
            lay_out(
                stretches(train, val, by_hash=decision.by_hash, val_fraction=settings.val_fraction),
                settings.tokens_per_shard,
                first=len(self.existing),
            ),
            part_starts,
            decision,
        )
        keep_layout(self.plan.workspace, layout)
        return layout

    def assemble(self, layout: Layout) -> list[Receipt]:
        """Write the shards."""
        tasks = [(number,) for number in range(len(layout.shards))]
        return self.run("shards", assemble_shard, tasks)

    def documents_by_source(self, units: list[Receipt]) -> list[int]:
        """How many documents each source was read as."""
        documents: Counter[int] = Counter()
        for unit, receipt in zip(self.plan.units, units, strict=True):
            documents[unit.source] += receipt["counts"].get("documents_in", 0)
        return [documents[source] for source in range(len(self.plan.sources))]

    def _hash_existing(self, stage: str) -> list[Receipt]:
        tasks = [(stage, *shard, number) for number, shard in enumerate(self.existing)]
        return self.run("dataset", hash_existing, tasks)

    def _search(self, stage: str, receipts: list[Receipt]) -> Searched:
        partitions = num_partitions(receipts)
        tasks = [(stage, at, partitions, len(receipts)) for at in range(partitions)]
        self.run("duplicates", search_partition, tasks)
        return Searched(stage, len(receipts), partitions)
