"""The offline half in one place: text files become a dataset of token shards.

One rule: the plan is a function of the inputs and the settings, never of the workers. So one
worker or sixty-four, run through or killed and started again: the same bytes.

    plan                  list the inputs, cut them into units               plan.py
    unpack                large compressed files become text                 stages/unpack.py
    characters            the vocabulary of `chars`, from the input          stages/learn_chars.py
    existing-lines        hash the lines of the dataset that is added to     stages/duplicates.py
    lines                 read, clean, hash every line                       stages/line_hashes.py
    line-duplicates       find the lines that were seen before               stages/duplicates.py
    encode                clean, drop repeated lines, encode                 stages/encode.py
    join                  list all parts, long documents put together        stages/join.py
    existing-documents    hash the documents of that dataset                 stages/duplicates.py
    documents             hash every document                                stages/duplicates.py
    document-duplicates   find the documents that were seen before           stages/duplicates.py
    decide                train, val or dropped, for every document          stages/decide.py
    layout                prefix sums give every document its shard          shards/layout.py
    assemble              copy documents into shards, hash, read back        stages/assemble.py
    commit                balance the accounts, then write the manifest      stages/commit.py

Which of these a preparation needs, and what their tasks are, is a table: stage_table.py.
"""

import os
import time
from dataclasses import replace
from typing import Unpack

from tokenmill.base.progress import Progress
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import BadInputError
from tokenmill.executors.executor import Engine, Executor
from tokenmill.preparation.planning.disk_space import check_space, has_room_for_text, is_small_job
from tokenmill.preparation.planning.inputs import (
    HeldOut,
    Inputs,
    ValInput,
    find_inputs,
    notes_on_inputs,
)
from tokenmill.preparation.planning.memory_budget import Memory, decide_limits, fit_into_memory
from tokenmill.preparation.planning.plan import Plan, begin, keep_tokenizer
from tokenmill.preparation.planning.settings import (
    DETAILS,
    NO_DETAILS,
    USUAL_RUN,
    Details,
    Run,
    Settings,
    SettingsGiven,
    SettingsKeywords,
    with_details,
)
from tokenmill.preparation.planning.shard_count import choose_shard_size, refuse_too_many_shards
from tokenmill.preparation.stage_table import Preparation, compares_documents, compares_lines
from tokenmill.preparation.stages.accounts import (
    PreparationOutcome,
    Summary,
    check_accounts,
    summarize,
)
from tokenmill.preparation.stages.commit import commit
from tokenmill.preparation.stages.decide import choose_split, make_layout
from tokenmill.preparation.stages.encode import encode_unit
from tokenmill.preparation.stages.join import load_parts
from tokenmill.preparation.workspace.folder_contents import recorded_held_out
from tokenmill.preparation.workspace.target import Target, open_target
from tokenmill.text.inputs.units import (
    choose_unit_bytes,
    cut_into_units,
    group_small_files,
    worth_unpacking,
)
from tokenmill.tokens.tokenizer import say_if_slow


@takes_keywords_of(Settings, but=DETAILS)
def prepare(
    inputs: Inputs,
    out_dir: str | os.PathLike[str],
    *,
    val_input: ValInput | None = None,
    workers: int | None = None,
    append: bool = False,
    overwrite: bool = False,
    details: Details = NO_DETAILS,
    run: Run = USUAL_RUN,
    **settings: Unpack[SettingsKeywords],
) -> Summary:
    """Tokenize text files into a new dataset at `out_dir`, or resume a run that was stopped.

    `inputs` are files, folders or globs: .txt, .jsonl, .csv, .parquet, each also compressed, or
    "-" for standard input. `settings` are fields of `Settings`, such as `tokenizer="gpt2"`,
    `dedup="none"`, `val_fraction=0.1`; those that few need are in `details`. With `append=True` the
    documents are added to the dataset that is there, whose own settings hold where none are given.

    `val_input` are inputs that are held out whole, as the split `val`; or a dict of several such
    validation sets: {"code": "held/*.py", "law": [...]} makes `val_code` and `val_law`. What is in
    both is not trained on, and nothing else is held out unless `val_fraction` is given.

    `run` says how: `Run(max_ram="4G")` stays within this memory, `Run(engine="ray")` runs the tasks
    on a Ray cluster. Like `workers`, it never changes the result. Inputs and `out_dir` may be
    addresses at `s3://`, `gs://` or `az://` (inputs also at `https://`); the work on the way to one
    is done in the folder `Run(work_dir=...)`. `Run` and `Details` are in `tokenmill.preparation`.
    """
    started = time.monotonic()
    memory = fit_into_memory(workers, run.max_ram)
    engine = Engine(run.engine, workers, run.ray_address)
    given = with_details(settings, details)
    with open_target(out_dir, run, append=append, overwrite=overwrite) as target:
        begun = start(target, inputs, val_input, given, memory, run)
        return carry_out(begun, target, engine, run.progress, started)


def carry_out(
    begun: tuple[Plan, int] | Summary,
    target: Target,
    engine: Engine,
    progress: Progress,
    started: float,
) -> Summary:
    """All that comes after the plan, with as many workers as fit; nothing, if all was done."""
    if isinstance(begun, Summary):
        return begun
    plan, processes = begun
    if engine.workers is None and is_small_job(plan):
        processes = 1
    target.workspace.take_up()
    if engine.kind != "local":
        target.workspace.share()
    with engine.open(processes, str(plan.workspace.plan_file.absolute())) as executor:
        executor.get_ready(encode_unit, len(plan.units))
        seen = notes_on_inputs(plan.settings, plan.sources)
        for note in seen:
            progress.say(note)
        try:
            outcome = run_stages(plan, target, executor, progress)
        except BadInputError:
            if plan.previous is not None:
                plan.workspace.forget()  # the dataset is what it was, and open to others
            raise
    summary = publish(plan, target, outcome)
    summary.notes += seen
    summary.seconds = round(time.monotonic() - started, 3)
    return summary


def start(
    target: Target,
    inputs: Inputs,
    val_input: ValInput | None,
    given: SettingsGiven,
    memory: Memory,
    run: Run,
) -> tuple[Plan, int] | Summary:
    """The plan, written or found, and how many workers fit; or the outcome, if all was done."""
    progress = run.progress
    held_out: HeldOut = {}
    if val_input is not None:
        from tokenmill.preparation.planning.val_inputs import check_splits, held_out_inputs

        held_out = held_out_inputs(val_input)
        if target.previous is None:
            given = {"val_fraction": 0.0, **given}
    settings = target.settings(given)
    sources = find_inputs(inputs, held_out, target.out_dir, target.workspace, settings, progress)
    if held_out:
        check_splits(settings, sources, target.previous)
    if "tokens_per_shard" in given or target.previous is not None:
        refuse_too_many_shards(settings, sources)
    else:
        settings = replace(settings, tokens_per_shard=choose_shard_size(settings, sources))
    if done := target.already_done(settings, sources):
        return done
    unit_bytes = choose_unit_bytes(sources, run.unit_bytes)
    plan = Plan(
        target.workspace,
        settings,
        tuple(sources),
        (),
        memory.chunk_bytes,
        target.previous_hash,
        target.destination,
        bool(held_out) or bool(recorded_held_out(target.previous)),
        target.folder_for(settings, sources),
    )
    plan = cut_inputs(plan, unit_bytes)
    check_space(plan)
    tokenizer = target.tokenizer(given)
    if tokenizer is not None:
        say_if_slow(tokenizer, progress.say)
    plan = begin(plan, tokenizer, restart=target.replaces, say=progress.say)
    return plan, decide_limits(plan, memory, tokenizer)


def cut_inputs(plan: Plan, unit_bytes: int) -> Plan:
    """The plan with its units; large compressed files are cut too if there is room to unpack."""
    sources = plan.sources
    unpacked = worth_unpacking(sources)
    if unpacked and not has_room_for_text(plan):
        unpacked = []
    units = cut_into_units(sources, unit_bytes, unpacked=unpacked)
    return replace(plan, units=tuple(group_small_files(units, sources, unit_bytes)))


def run_stages(
    plan: Plan, target: Target, executor: Executor, progress: Progress
) -> PreparationOutcome:
    """All stages but the last, in order; one that the plan does not need has no receipts.

    Finished tasks are known by their receipts and not repeated. Numbered jobs come through here
    as well: with their executor, a stage that other jobs have not finished ends the run.
    """
    this = Preparation(plan, target.previous, executor, progress)
    find_documents(this)
    decision, decided = choose_split(
        this.first_decision,
        this.run("decide"),
        plan.settings.val_fraction,
        by_hash=target.splits_by_hash,  # each document of a dataset keeps its split
    )
    this.layout = make_layout(plan, decision, decided, first=this.first)
    shards = this.run("assemble")
    return PreparationOutcome.of(plan, decision, decided, shards)


def find_documents(this: Preparation) -> None:
    """The stages up to where all documents are encoded and repeated ones are known."""
    run, plan = this.run, this.plan
    run("unpack")

    if receipts := run("characters"):
        from tokenmill.tokens.bytes_and_chars import CharsTokenizer

        characters = set().union(*(receipt["characters"] for receipt in receipts))
        keep_tokenizer(plan.workspace, CharsTokenizer.build(characters))

    if compares_lines(plan):
        this.find_repeated("line", len(plan.units))
    run("encode")
    run("join")
    if compares_documents(plan):
        this.find_repeated("document", len(load_parts(this.out_dir)))


def publish(plan: Plan, target: Target, outcome: PreparationOutcome) -> Summary:
    """Commit: nothing is published unless the accounts balance, and the manifest goes last."""
    check_accounts(plan, outcome)
    known_sources = target.known_sources if target.previous is not None else ()
    manifest = commit(plan, target.previous, known_sources, outcome)
    notes = target.notes(plan.settings, plan.sources) + outcome.notes(plan)
    summary = summarize(target.name, manifest, notes)
    summary.bad_input = outcome.bad_input
    summary.changed_lines = outcome.changed_lines
    target.finish()
    return summary
