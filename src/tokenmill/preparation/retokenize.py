"""retokenize(src, out, tokenizer="tok/"): the same documents and splits with other ids.

A preparation whose input is a dataset: documents are decoded, encoded again, and decoded once more
to see that nothing was lost.
"""

import os
import time
from dataclasses import fields
from typing import Unpack

from tokenmill.base.signatures import refuse_fields, takes_keywords_of
from tokenmill.errors import SettingsMismatchError
from tokenmill.executors.executor import Engine
from tokenmill.preparation.planning.limits import fit_into_memory
from tokenmill.preparation.planning.settings import Details, Run, Settings, SettingsKeywords
from tokenmill.preparation.prepare import carry_out, make_plan
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.stages.token_inputs import find_splits
from tokenmill.preparation.workspace.existing_dataset import find_done
from tokenmill.preparation.workspace.target import open_target

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
    details: Details = Details(),
    run: Run = Run(),
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
    refuse_fields("retokenize", details, "map", "mask", "filter", "filter_config")
    refuse_fields("retokenize", run, "engine", "ray_address")
    memory = fit_into_memory(workers, run.max_ram)
    given = {"val_fraction": 0.0, **details.added_to(settings)}
    with open_target(out_dir, run, append=False, overwrite=overwrite) as target:
        if os.path.realpath(src) == os.path.realpath(target.out_dir):
            raise SettingsMismatchError(
                f"{target.name} is both the dataset to read and the one to write",
                hint="name another folder for the new dataset; nothing was written or removed",
            )
        wanted = Settings(**given)
        sources = find_splits(src)
        summary = find_done(target, wanted, sources)
        if summary is None:
            plan = make_plan(target, wanted, sources, given, memory, run)
            summary = carry_out(plan, target, memory, Engine(workers=workers), run)
    summary.seconds = round(time.monotonic() - started, 3)
    return summary
