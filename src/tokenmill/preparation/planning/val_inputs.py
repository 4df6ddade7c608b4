"""Validation sets from files: `val_input` becomes named splits, and the rules that they follow.

A file is held out for one split: `val`, or `val_NAME` for one with a name. No document of it is
trained on: held-out files come first in the order of all inputs, so a line or document that is in
both is a repetition in the other inputs, and without deduplication documents are compared as well.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from tokenmill.errors import PrepareError, SettingsMismatchError
from tokenmill.preparation.planning.inputs import HeldOut, Inputs, Paths, ValInput, as_list
from tokenmill.preparation.planning.settings import Settings
from tokenmill.shards.manifest import Manifest
from tokenmill.text.inputs.open_input import Source

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,39}")
_NAMED = re.compile(r"([A-Za-z0-9_]*)=(.*)", re.DOTALL)


def name_of_split(name: str) -> str:
    """Return `val_code` for the name `code`; `val` and `val_code` are names already."""
    if name == "val":
        return name
    short = str(name).removeprefix("val_")
    if not isinstance(name, str) or not _NAME.fullmatch(short) or short in ("train", "all"):
        raise ValueError(
            f"val_input: {name!r} cannot name a validation set; a name has up to 40 of a-z, 0-9 "
            "and _, such as code, and makes the split val_code"
        )
    return f"val_{short}"


def held_out_inputs(val_input: ValInput | None) -> HeldOut:
    """Return the inputs of each validation set, by the name of its split."""
    if val_input is None:
        return {}
    named = val_input if isinstance(val_input, Mapping) else {"val": val_input}
    held_out: HeldOut = {}
    for name, inputs in named.items():
        held_out.setdefault(name_of_split(name), []).extend(as_list(inputs))
    return held_out


def read_words(groups: Iterable[Sequence[str]]) -> dict[str, Inputs]:
    """Read `--val_input` as it is typed: a group is FILE..., or NAME=FILE... for a name.

    A name is for the files up to the next name, or to the end of its group.
    """
    named: dict[str, Paths] = {}
    for group in groups:
        name = "val"
        for word in group:
            file = word
            if found := _NAMED.fullmatch(word):
                name, file = found.groups()
            if found and os.path.lexists(word):
                raise ValueError(
                    f"--val_input {word}: is {name!r} the name of a validation set? There is a "
                    f"file of this whole name as well\n\nhint: write ./{word} for that file"
                )
            named.setdefault(name, Paths()).extend([file] if file else [])
    for name, files in named.items():
        if not files:
            raise ValueError(f"--val_input {name}= names no file")
    return {**named}


def files_by_split(sources: Iterable[Source]) -> dict[str, list[str]]:
    """Return the names of the held-out files of each split, as a manifest records them."""
    names: dict[str, list[str]] = {}
    for source in sources:
        if source.split is not None:
            names.setdefault(source.split, []).append(source.name)
    return names


def check_splits(settings: Settings, sources: Sequence[Source], previous: Manifest | None) -> None:
    """Refuse a `val` of two kinds, and a dataset without anything to train on."""
    held_out = files_by_split(sources)
    if "val" in held_out and settings.val_fraction > 0:
        raise SettingsMismatchError(
            "val would hold both the files of --val_input and a share of the other documents "
            f"(val_fraction {settings.val_fraction:g})",
            hint="give the files their own split: --val_input NAME=FILE"
            + ("; or leave --val_fraction out" if previous is None else ""),
        )
    if previous is None and all(source.split is not None for source in sources):
        raise PrepareError(
            "all inputs are held out for validation, and none is left to train on",
            hint="all words up to the next flag belong to --val_input: name the other inputs "
            "before it",
        )
