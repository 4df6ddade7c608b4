"""Train a byte-level BPE tokenizer on text files: a preparation with another output.

The text is read, cleaned and deduplicated as by `prepare` (with the tokenizer `bytes`, so that what
is encoded is the text itself). Then words are counted (count_words.py) and merges are learned from
them, in one process (tokens/merges.py). `tokenizer.json` is written last: with it, the tokenizer is
complete. No clock, host name, worker count or absolute path is in any of the files.
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import orjson

from tokenmill.base.atomic import write_atomically
from tokenmill.base.human import plural
from tokenmill.base.signatures import refuse_fields, takes_keywords_of
from tokenmill.errors import BadInputError
from tokenmill.executors.local import LocalExecutor
from tokenmill.preparation.count_words import choose_words, count_all_words
from tokenmill.preparation.planning import limits
from tokenmill.preparation.planning.inputs import Inputs, find_inputs
from tokenmill.preparation.planning.plan import (
    Plan,
    begin,
    list_differences,
    other_settings,
    read_plan,
)
from tokenmill.preparation.planning.settings import (
    Details,
    Run,
    Settings,
    SettingsKeywords,
    list_other_settings,
)
from tokenmill.preparation.prepare import cut_inputs, find_documents
from tokenmill.preparation.stage_table import Preparation
from tokenmill.preparation.workspace.target import hold_workspace, refuse_strange_folder
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.shards.manifest import PREPARATION_FOLDER
from tokenmill.text.inputs.open_input import Source, printable
from tokenmill.tokens.bytes_and_chars import BytesTokenizer
from tokenmill.tokens.merges import MergeLearner, TrainedTokenizer
from tokenmill.tokens.split_patterns import PATTERNS, find_pattern
from tokenmill.tokens.tiktoken_file import END_OF_TEXT
from tokenmill.tokens.words import check_pattern

JSON_FILE = "tokenizer.json"
RANK_FILE = "tokenizer.tiktoken"
TRAINING_FILE = "training.json"
# Fields of `Settings` that are about tokens and shards.
NOT_TRAINING = (
    *("tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype"),
    *("tokens_per_shard", "val_fraction", "compress"),
)
MOST_IDS = 1 << 20


@dataclass(frozen=True)
class Training:
    """Result of a training."""

    vocab_size: int
    """Ids, special ones included; fewer than asked for if no pair is left that occurs twice."""
    special_ids: Mapping[str, int]
    documents: int
    """Documents whose words were counted."""
    text_bytes: int
    """Their text, cleaned."""
    words: int
    """Different words."""
    left_out_words: int
    """Different words that did not fit into the memory."""
    least_count: int
    """Words that occur fewer times were left out; 1 where none was."""
    already_there: bool = False
    """True if the same was trained before, and left as it is."""
    seconds: float = 0.0


@takes_keywords_of(Settings, but=(*NOT_TRAINING, *Details.__dataclass_fields__))
def train_tokenizer(
    inputs: Inputs,
    out_dir: str | os.PathLike[str],
    *,
    vocab_size: int = 32768,
    pattern: str = "gpt2",
    special: Sequence[str] = (END_OF_TEXT,),
    workers: int | None = None,
    overwrite: bool = False,
    details: Details = Details(),
    run: Run = Run(),
    **settings: Unpack[SettingsKeywords],
) -> Training:
    """Train a byte-level BPE tokenizer, or resume a training that was stopped.

    `inputs`, `settings`, `details` and `run` are those of `prepare`. `vocab_size` counts all ids:
    256 bytes, the merges, and the `special` tokens, which are last. `pattern` splits a text before
    anything is merged: gpt2, cl100k, o200k, llama3, qwen2, qwen3.5, nemotron, deepseek3, nanochat,
    or a regular expression. `prepare(..., tokenizer=out_dir)` takes the result.

    The pair with the highest count is merged first; of several, the one with the smaller left id,
    then the smaller right id.
    """
    started = time.monotonic()
    out = Path(out_dir)
    num_merges = check_vocabulary(vocab_size, special)
    pattern = find_pattern(pattern)
    check_pattern(pattern)
    refuse_fields("train_tokenizer", details, "token_pattern")
    refuse_fields(
        "train_tokenizer", run, "engine", "ray_address", "work_dir", "scratch", "max_scratch"
    )
    memory = limits.fit_into_memory(workers, run.max_ram)
    given = details.added_to(settings)
    asked = Settings(**given, tokenizer="bytes", token_pattern=pattern, val_fraction=0.0)
    refuse_strange_folder(out, _holds_training, "tokenizer that was trained here")
    with hold_workspace(WorkFolder(out), break_lock=run.break_lock) as workspace:
        sources = find_inputs(inputs, {}, out, workspace, asked, run.progress)
        wanted = what_is_wanted(asked, sources, vocab_size, special)
        if not overwrite and (found := find_trained(out, wanted, sources)) is not None:
            workspace.remove()  # of a training that was killed when its files were in place
            return Training(**found, already_there=True)
        found_plan = read_plan(workspace) if overwrite else None
        if found_plan is not None and list_differences(asked, sources, found_plan):
            workspace.clear(keep=[os.path.basename(source.path) for source in sources])
        plan = Plan(workspace, asked, tuple(sources), (), memory.chunk_bytes)
        plan = cut_inputs(plan, run.unit_bytes)
        limits.check_space(plan, shards=False)
        bytes_as_ids = BytesTokenizer(cut_at="words" if pattern in PATTERNS else "nothing")
        plan = begin(plan, bytes_as_ids, say=run.progress.say)
        workspace.take_up()
        files, counted = _count(plan, memory, workers, run)
        words = choose_words(files, memory.max_ram)
        if not len(words.counts):
            workspace.forget()
            raise BadInputError(
                "the inputs hold no text to learn from", hint="are these the right files?"
            )
        steps = MergeLearner(words.text, words.lengths, words.counts, num_merges).run()
        merges = list(run.progress.follow("merges", steps, total=num_merges))
        trained = TrainedTokenizer(pattern, merges, special)
        outcome: dict[str, Any] = {
            "vocab_size": trained.vocab_size,
            "special_ids": trained.special_ids,
            **counted,
            "words": len(words.counts) + words.left_out,
            "left_out_words": words.left_out,
            "least_count": words.least_count,
        }
        about = {"asked": wanted, "outcome": outcome}
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        write_atomically(out / RANK_FILE, trained.to_tiktoken())
        write_atomically(out / TRAINING_FILE, orjson.dumps(about, option=options))
        write_atomically(out / JSON_FILE, trained.to_tokenizer_json())
        workspace.remove()
    return Training(**outcome, seconds=round(time.monotonic() - started, 3))


def check_vocabulary(vocab_size: int, special: Sequence[str]) -> int:
    """Return the number of merges; refuse what cannot be a vocabulary."""
    for number, text in enumerate(special):
        if not text or not text.isprintable():
            raise ValueError(f"the special token {text!r} is not printable text; write another")
        if text in special[:number]:
            raise ValueError(f"the special token {text!r} is given twice; leave one out")
    least = 256 + len(special)
    if not least <= vocab_size <= MOST_IDS:
        raise ValueError(
            f"vocab_size is {vocab_size:,}, but must be {least:,} (256 bytes and "
            f"{plural(len(special), 'special token')}) to {MOST_IDS:,}"
        )
    return vocab_size - least


def _count(
    plan: Plan, memory: limits.Memory, workers: int | None, run: Run
) -> tuple[list[Path], dict[str, int]]:
    processes = limits.decide_limits(plan, memory, run.progress.say)
    if workers is None and limits.is_small_job(plan):
        processes = 1
    with LocalExecutor(processes) as executor:
        this = Preparation(plan, None, executor, run.progress)
        find_documents(this)
        return count_all_words(this)


def _holds_training(folder: Path) -> bool:
    return any((folder / name).exists() for name in (TRAINING_FILE, PREPARATION_FOLDER))


def what_is_wanted(
    settings: Settings, sources: Sequence[Source], vocab_size: int, special: Sequence[str]
) -> dict[str, Any]:
    """Everything that decides the result, as it is stored."""
    given = {name: v for name, v in settings.to_json().items() if name not in NOT_TRAINING}
    return {
        "vocab_size": vocab_size,
        "pattern": settings.token_pattern,
        "special": list(special),
        **given,
        "inputs": [[printable(source.name), source.size] for source in sources],
    }


def find_trained(
    folder: Path, wanted: Mapping[str, Any], sources: Sequence[Source]
) -> dict[str, Any] | None:
    """Return the outcome of the same training, if it was finished before; refuse another one."""
    if not (folder / JSON_FILE).exists():
        return None
    try:
        training = orjson.loads((folder / TRAINING_FILE).read_bytes())
        lines = list_other_settings(dict(training["asked"]), wanted)
        outcome = dict(training["outcome"])
    except (OSError, ValueError, LookupError, TypeError):
        outcome = {}
        lines = list_other_settings({}, wanted)
    made = (folder / JSON_FILE).stat().st_mtime_ns
    lines += [
        f"input {printable(source.name)}   may have changed after the tokenizer was trained"
        for source in sources
        if source.changed_after(made)
    ]
    if lines:
        hint = "use another folder, or overwrite=True to replace it"
        raise other_settings(f"{folder} holds a tokenizer", lines, hint)
    return outcome
