"""The folder of a trained tokenizer.

    tokenizer.tiktoken   the tokens with their ranks
    training.json        the settings and the outcome of the training
    tokenizer.json       written last: with it, the tokenizer is complete

No clock, host name, worker count or absolute path is in any of them.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.atomic import write_atomically
from tokenmill.base.human import plural
from tokenmill.errors import SettingsMismatchError
from tokenmill.preparation.planning.plan import other_settings
from tokenmill.preparation.planning.settings import Settings, list_other_settings
from tokenmill.shards.manifest import PREPARATION_FOLDER
from tokenmill.text.inputs.open_input import Source, printable
from tokenmill.tokens.trained_files import TrainedTokenizer

JSON_FILE = "tokenizer.json"
RANK_FILE = "tokenizer.tiktoken"
TRAINING_FILE = "training.json"
# Fields of `Settings` that are about tokens and shards.
NOT_TRAINING = (
    *("tokenizer", "end_of_text", "begin_token", "token_pattern", "dtype"),
    *("tokens_per_shard", "val_fraction", "compress"),
)


def refuse_strange(folder: Path) -> None:
    """Refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file, but a tokenizer is a folder; name another output")
    strangers = sorted(os.listdir(folder)) if folder.exists() else []
    if strangers and not {TRAINING_FILE, PREPARATION_FOLDER} & set(strangers):
        raise SettingsMismatchError(
            f"{folder} holds {plural(len(strangers), 'file')} (such as {strangers[0]!r}) but no "
            "tokenizer that was trained here",
            hint="name an empty or new folder; only what tokenmill made is ever replaced",
        )


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
        if source.mtime_ns > made
    ]
    if lines:
        hint = "use another folder, or overwrite=True to replace it"
        raise other_settings(f"{folder} holds a tokenizer", lines, hint)
    return outcome


def write_trained(
    folder: Path, trained: TrainedTokenizer, wanted: Mapping[str, Any], outcome: Mapping[str, Any]
) -> None:
    """Write all files, each whole or not at all."""
    about = {"asked": wanted, "outcome": outcome}
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    write_atomically(folder / RANK_FILE, trained.to_tiktoken())
    write_atomically(folder / TRAINING_FILE, orjson.dumps(about, option=options))
    write_atomically(folder / JSON_FILE, trained.to_tokenizer_json())
