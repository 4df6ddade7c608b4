"""retokenize(src, out, tokenizer="tok/"): the same documents and splits with other ids.

A preparation whose input is a dataset: documents are decoded, encoded again, and decoded once more
to see that nothing was lost. It is as parallel and as safe to stop as any other preparation, and
gives the same bytes for any number of workers.
"""

import os
import time
from dataclasses import fields
from typing import Unpack

from tokenmill.base.signatures import refuse_fields, takes_keywords_of
from tokenmill.errors import SettingsMismatchError
from tokenmill.executors.executor import Engine
from tokenmill.preparation.planning.disk_space import check_space
from tokenmill.preparation.planning.memory_budget import Memory, decide_limits, fit_into_memory
from tokenmill.preparation.planning.plan import Plan, begin
from tokenmill.preparation.planning.settings import (
    NO_DETAILS,
    USUAL_RUN,
    Details,
    Run,
    Settings,
    SettingsGiven,
    SettingsKeywords,
    with_details,
)
from tokenmill.preparation.prepare import carry_out
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.stages.token_inputs import cut_into_documents, find_splits
from tokenmill.preparation.workspace.target import Target, open_target

TAKEN = ("tokenizer", "end_of_text", "begin_token", "dtype", "tokens_per_shard", "compress",
         "on_bad_input")  # fmt: skip
"""The settings that have a meaning here: texts are neither read from files, nor cleaned."""
_REFUSED = [field.name for field in fields(Settings) if field.name not in TAKEN]


@takes_keywords_of(Settings, but=_REFUSED)
def retokenize(
    src: str | os.PathLike[str],
    out_dir: str | os.PathLike[str],
    *,
    workers: int | None = None,
    overwrite: bool = False,
    details: Details = NO_DETAILS,
    run: Run = USUAL_RUN,
    **settings: Unpack[SettingsKeywords],
) -> Summary:
    """Write the documents of the dataset at `src` to a new dataset with another tokenizer.

    Splits stay splits, and documents keep their order. Each document is decoded from its new ids
    and compared with what it was by a hash of the text; one that differs is an error, and nothing
    is published. `settings` are those fields of `Settings` that concern tokens and shards, such as
    `tokenizer="tok/"`; all other arguments are as in `tokenmill.prepare`.
    """
    started = time.monotonic()
    refuse_fields("retokenize", details, "dedup_min_chars", "document_is", "long_line")
    refuse_fields("retokenize", run, "engine", "ray_address")
    memory = fit_into_memory(workers, run.max_ram)
    given = with_details(settings, details)
    with open_target(out_dir, run, append=False, overwrite=overwrite) as target:
        begun = _start(target, src, given, memory, run)
        return carry_out(begun, target, Engine(workers=workers), run.progress, started)


def _start(
    target: Target,
    src: str | os.PathLike[str],
    given: SettingsGiven,
    memory: Memory,
    run: Run,
) -> tuple[Plan, int] | Summary:
    """Return the plan and the number of workers that fit; or the outcome, if all was done."""
    if os.path.realpath(src) == os.path.realpath(target.out_dir):
        raise SettingsMismatchError(
            f"{target.name} is both the dataset to read and the one to write",
            hint="name another folder for the new dataset; nothing was written or removed",
        )
    given = {"val_fraction": 0.0, **given}
    settings = target.settings(given)
    sources = find_splits(src)
    if done := target.already_done(settings, sources):
        return done
    plan = Plan(
        target.workspace,
        settings,
        tuple(sources),
        tuple(cut_into_documents(sources, run.unit_bytes)),
        memory.chunk_bytes,
        target.previous_hash,
        target.destination,
        folder=target.folder_for(settings, sources),
    )
    check_space(plan)
    tokenizer = target.tokenizer(given)
    plan = begin(plan, tokenizer, restart=target.replaces, say=run.progress.say)
    return plan, decide_limits(plan, memory, tokenizer)
