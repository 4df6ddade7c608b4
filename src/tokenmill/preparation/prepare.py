"""The offline half in one place: text files become a dataset of token shards.

One rule: the plan is a function of the inputs and the settings, never of the workers. So one
worker or sixty-four, run through or killed and started again: the same bytes.
A plan is made (plan.py), the stages run (stage_table.py has them as a table, in order), and what
they made is published (stages/commit.py).
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Unpack

from tokenmill.base.progress import Progress
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import BadInputError
from tokenmill.executors.executor import Engine, Executor
from tokenmill.preparation.planning import limits
from tokenmill.preparation.planning.inputs import (
    HeldOut,
    Inputs,
    ValInput,
    find_inputs,
    notes_on_inputs,
)
from tokenmill.preparation.planning.plan import PREVIOUS_FILE, Plan, begin, keep_tokenizer
from tokenmill.preparation.planning.settings import (
    APART,
    Chat,
    Details,
    Run,
    Settings,
    SettingsKeywords,
    all_given,
)
from tokenmill.preparation.stage_table import Preparation
from tokenmill.preparation.stages.accounts import PreparationOutcome, Summary, check_accounts
from tokenmill.preparation.stages.commit import commit
from tokenmill.preparation.stages.decide import choose_split, make_layout
from tokenmill.preparation.stages.encode import encode_unit, load_parts
from tokenmill.preparation.workspace import existing_dataset
from tokenmill.preparation.workspace.target import Target, open_target
from tokenmill.shards.manifest import Manifest, SourceEntry
from tokenmill.text.inputs import units
from tokenmill.text.inputs.open_input import TOKENS, Source
from tokenmill.tokens.tokenizer import note_if_slow


@takes_keywords_of(Settings, but=APART)
def prepare(
    inputs: Inputs,
    out_dir: str | os.PathLike[str],
    *,
    val_input: ValInput | None = None,
    workers: int | None = None,
    append: bool = False,
    overwrite: bool = False,
    chat: Chat | None = None,
    details: Details = Details(),
    run: Run = Run(),
    **settings: Unpack[SettingsKeywords],
) -> Summary:
    """Tokenize text files into a new dataset at `out_dir`, or resume a run that was stopped.

    `inputs` are files, folders or globs: .txt, .jsonl, .csv, .parquet, .arrow, also compressed; or
    "-" for standard input; or texts: an iterable of strings or mappings, a table. `settings` are
    fields of `Settings`, such as `tokenizer="gpt2"`, `dedup="none"`, `val_fraction=0.1`; those that
    few need are in `details`. With `append=True` the documents are added to the dataset that is
    there, whose own settings hold where none are given.

    `val_input` are inputs that are held out whole, as the split `val`; or a dict of several such
    validation sets: {"code": "held/*.py", "law": [...]} makes `val_code` and `val_law`. What is in
    both is not trained on, and nothing else is held out unless `val_fraction` is given.

    With `chat=Chat()` rows are conversations, see docs/guides/chat.md.

    `run` says how: `Run(max_ram="4G")` stays within this memory, `Run(engine="ray")` runs the tasks
    on a Ray cluster. Like `workers`, it never changes the result. Inputs and `out_dir` may be
    addresses at `s3://`, `gs://` or `az://` (inputs also `https://`, `hf://`); the work on the way
    to one is done in the folder `Run(work_dir=...)`. `Run` and `Details` are in
    `tokenmill.preparation`.
    """
    started = time.monotonic()
    memory = limits.fit_into_memory(workers, run.max_ram)
    engine = Engine(run.engine, workers, run.ray_address)
    given = all_given(settings, details, chat)
    with open_target(out_dir, run, append=append, overwrite=overwrite) as target:
        wanted, sources = choose_inputs(target, inputs, val_input, given, run)
        summary = existing_dataset.find_done(target, wanted, sources)
        if summary is None:
            plan = make_plan(target, wanted, sources, given, memory, run)
            summary = carry_out(plan, target, memory, engine, run)
    summary.seconds = round(time.monotonic() - started, 3)
    return summary


def choose_inputs(
    target: Target,
    inputs: Inputs,
    val_input: ValInput | None,
    given: dict[str, Any],
    run: Run,
) -> tuple[Settings, list[Source]]:
    """Return all settings, and the files to read."""
    held_out: HeldOut = {}
    if val_input is not None:
        from tokenmill.preparation.planning.val_inputs import check_splits, held_out_inputs

        held_out = held_out_inputs(val_input)
        if target.previous is None:
            given = {"val_fraction": 0.0, **given}
    settings = existing_dataset.settings_for(target, given)
    sources = find_inputs(
        inputs, held_out, target.out_dir, target.workspace, settings, run.progress
    )
    if held_out:
        check_splits(settings, sources, target.previous)
    if settings.keeps_facts:
        check_facts(settings, sources)
    is_given = "tokens_per_shard" in given or target.previous is not None
    size = limits.choose_shard_size(settings, sources, is_given=is_given)
    return replace(settings, tokens_per_shard=size), sources


def check_facts(settings: Settings, sources: Sequence[Source]) -> None:
    """Refuse, before anything is read, to keep facts that there are not."""
    from tokenmill.text.inputs.tables import pyarrow_for

    pyarrow_for("--facts and --keep: facts of documents are Parquet")
    plain = next((source.name for source in sources if source.kind == "text"), None)
    if settings.keep is not None and plain is not None:
        raise ValueError(
            f"keep={settings.keep!r}: {plain} is a text file, which has no fields; without keep, "
            "details=Details(facts=True) says where each document comes from"
        )


def make_plan(
    target: Target,
    settings: Settings,
    sources: Sequence[Source],
    given: dict[str, Any],
    memory: limits.Memory,
    run: Run,
) -> Plan:
    """Write the plan, or resume the same one."""
    keeps_apart = any(source.split and source.kind != TOKENS for source in sources)
    if target.previous is not None:
        keeps_apart |= bool(existing_dataset.recorded_held_out(target.previous))
    plan = Plan(
        target.workspace,
        settings,
        tuple(sources),
        units=(),
        chunk_bytes=memory.chunk_bytes,
        previous=target.previous_hash,
        destination=target.destination,
        keeps_apart=keeps_apart,
        folder=target.folder_for(settings, sources),
    )
    plan = cut_inputs(plan, units.choose_unit_bytes(sources, run.unit_bytes))
    limits.check_space(plan)
    tokenizer = existing_dataset.tokenizer_for(target, settings, given)
    is_measured = memory.max_ram is None and sources[0].kind != TOKENS and not settings.chat
    if is_measured and limits.is_tight(plan):
        from tokenmill.preparation.estimate import least_room

        with suppress(BadInputError):  # it is met again, and counted or raised, by the stages
            limits.require_space(plan, least_room(plan, tokenizer))
    say = run.progress.say
    for note in note_if_slow(tokenizer) if tokenizer is not None else ():
        say(note)
    plan = begin(plan, tokenizer, restart=target.replaces, say=say)
    if run.allow_heavy_dedup:
        from tokenmill.preparation.stages.heavy_dedup import ALLOWED

        plan.workspace.keep(ALLOWED, b"")
    if plan.finds_test_items:
        from tokenmill.preparation.stages.contamination import keep_test_sets

        keep_test_sets(plan)
    if target.previous is not None:
        plan.workspace.keep(PREVIOUS_FILE, target.previous.to_bytes())
    return plan


def cut_inputs(plan: Plan, unit_bytes: int) -> Plan:
    """Return the plan with units; large compressed files are cut too if there is room to unpack."""
    if plan.sources[0].kind == TOKENS:
        from tokenmill.preparation.stages.token_inputs import cut_into_documents

        return replace(plan, units=tuple(cut_into_documents(plan.sources, unit_bytes)))
    unpacked = units.worth_unpacking(plan.sources) if limits.has_room_for_text(plan) else []
    cut = units.cut_into_units(plan.sources, unit_bytes, unpacked=unpacked)
    return replace(plan, units=tuple(units.group_small_files(cut, plan.sources, unit_bytes)))


def carry_out(
    plan: Plan, target: Target, memory: limits.Memory, engine: Engine, run: Run
) -> Summary:
    """Run all stages, with as many workers as fit, and publish what they made."""
    workspace = plan.workspace
    is_local = engine.kind == "local"
    say = run.progress.say if is_local else Progress().say
    processes = limits.decide_limits(plan, memory, say)
    if engine.workers is None and limits.is_small_job(plan):
        processes = 1
    workspace.take_up()
    if not is_local:
        workspace.share()
    with engine.open(processes, workspace.must_see) as executor:
        executor.get_ready(encode_unit, len(plan.units))
        notes = notes_on_inputs(plan.settings, plan.sources)
        for note in notes:
            run.progress.say(note)
        try:
            outcome = run_stages(plan, target.previous, executor, run.progress)
        except BadInputError:
            if plan.previous is not None:
                workspace.forget()  # the dataset is what it was, and open to others
            raise
    summary = publish(plan, target, outcome)
    summary.notes += notes
    return summary


def run_stages(
    plan: Plan, previous: Manifest | None, executor: Executor, progress: Progress
) -> PreparationOutcome:
    """Run all stages but the last, in order; one that the plan does not need has no receipts.

    With the executor of numbered jobs, a stage that other jobs have not finished ends the run.
    """
    this = Preparation(plan, previous, executor, progress)
    find_documents(this)
    # Where documents were split by hash before, each keeps its split.
    was_by_hash = previous is not None and previous.settings.get("split") == "hash"
    by_hash, decided = choose_split(plan, this.run("decide"), was_by_hash=was_by_hash)
    this.layout = make_layout(
        plan, this.documents, decided.tokens, by_hash=by_hash, first=this.first
    )
    shards = this.run("assemble")
    outcome = PreparationOutcome.of(plan, decided, shards, this.run("facts"), by_hash=by_hash)
    return replace(outcome, bytes_read=this.bytes_read)


def find_documents(this: Preparation) -> None:
    """Run the stages up to where all documents are encoded and repeated ones are known."""
    this.run("unpack")
    if receipts := list(this.run("characters")):
        from tokenmill.tokens.bytes_and_chars import CharsTokenizer

        characters = set().union(*(receipt["characters"] for receipt in receipts))
        keep_tokenizer(this.plan.workspace, CharsTokenizer.build(characters))
    if this.plan.compares_lines:
        this.find_repeated("line", len(this.plan.units))
    for name in ("test-items", "test-items-to-cut", "encode", "join", "test-items-found"):
        this.run(name)
    if this.plan.compares_documents:
        this.find_repeated("document", len(load_parts(this.out_dir)))
    if this.plan.compares_near:
        this.find_near()


def publish(plan: Plan, target: Target, outcome: PreparationOutcome) -> Summary:
    """Commit: nothing is published unless the accounts balance, and the manifest goes last."""
    check_accounts(plan, outcome)
    known_sources: Sequence[SourceEntry] = ()
    notes = note_if_slow(plan.tokenizer) + outcome.notes(plan)
    if plan.settings.map is not None:
        from tokenmill.preparation.stages.removed_record import slow_map

        notes += [note] if (note := slow_map(plan)) else []
    if target.previous is not None:
        known_sources = existing_dataset.all_sources(target)
        notes = existing_dataset.notes_on_known_inputs(known_sources, plan) + notes
    manifest = commit(plan, target.previous, known_sources, outcome, target.read_file)
    summary = Summary.of(target.name, manifest, notes)
    summary.bad_input = outcome.bad_input
    summary.repeated_lines = outcome.repeated_lines
    summary.bytes_read = outcome.bytes_read
    summary.added = outcome.accounts if target.append else {}
    if plan.settings.clean:
        from tokenmill.preparation.stages.cleaned_text import changed_lines

        summary.changed_lines = changed_lines(plan)
    target.finish()
    return summary
