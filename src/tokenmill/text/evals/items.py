"""The items of test sets: questions and answers from files of JSON lines.

A passage is one text of an item: its question, or its answer. Which fields these are is detected by
their names, or said by the user. Options to choose from are not looked for unless they are named:
`none of the above` is in many documents. A passage of fewer than five words is not looked for.
"""

import glob
import gzip
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import xxhash

from tokenmill.errors import TokenmillError
from tokenmill.text.near.word_runs import words_of

FIELDS = (
    *("question", "problem", "prompt", "query", "instruction", "stem", "goal", "input", "text"),
    *("answer", "answers", "solution", "canonical_solution", "output", "target", "response"),
)
LEAST_WORDS = 5
_PATHS: dict[str, Path] = {}  # of the files that were named in this process


@dataclass(frozen=True)
class Passage:
    """One text of an item."""

    test_set: str
    item: int
    """The line of the item in its file, from 1 on."""
    words: list[bytes]


def name_sets(files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str:
    """Return `NAME@HASH` of each file, which the setting is; files may be globs."""
    if isinstance(files, str) and "@" in files and not os.path.exists(files):
        return files  # named before
    given = [files] if isinstance(files, str | os.PathLike) else files
    found = [path for pattern in given for path in _matches(os.fspath(pattern))]
    names: list[str] = []
    for path in dict.fromkeys(found):
        name = f"{path.name}@{xxhash.xxh3_64_hexdigest(path.read_bytes())}"
        if any(other.partition("@")[0] == path.name for other in names):
            raise ValueError(
                f"decontaminate has two files named {path.name}: results are by name; rename one"
            )
        _PATHS[name] = path
        names.append(name)
    return ",".join(names)


def _matches(pattern: str) -> list[Path]:
    found = sorted(glob.glob(pattern)) or [pattern]  # noqa: PTH207
    for path in map(Path, found):
        if not path.is_file() or "," in path.name:
            raise ValueError(
                f"decontaminate: there is no file {str(path)!r} (or its name has a comma)"
            )
    return list(map(Path, found))


def read_passages(names: str, fields: str | None) -> Iterator[Passage]:
    """Yield the passages of all files of a setting, in order, also those that are too short."""
    wanted = tuple(fields.split(",")) if fields else FIELDS
    for name in names.split(","):
        if name not in _PATHS:
            raise TokenmillError(
                f"the test set {name.partition('@')[0]} is known by name only",
                hint="give its file again: decontaminate=...",
            )
        yield from _read_file(_PATHS[name], wanted)


def _read_file(path: Path, fields: Sequence[str]) -> Iterator[Passage]:
    opened = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115
    found = 0
    with opened as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                item = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise TokenmillError(
                    f"{path}, line {number}: {error}; a test set has one JSON object per line"
                ) from error
            known = [item[name] for name in fields if isinstance(item, dict) and name in item]
            for text in _strings(known):
                found += 1
                yield Passage(path.name, number, words_of(text.encode()))
            if number == 1 and not known:
                there = ", ".join(item) if isinstance(item, dict) else type(item).__name__
                raise TokenmillError(
                    f"{path}: no field of line 1 is known to be a question or an answer ({there})",
                    hint='name them: decontaminate_fields="FIELD,FIELD"',
                )
    if not found:
        raise TokenmillError(f"{path} has no items")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
