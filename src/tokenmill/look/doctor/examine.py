"""Open, sample, ask every check; stop where one finding explains the rest."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenmill.dataset import TokenDataset
from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError
from tokenmill.formats.engine.detect import TOKEN_SUFFIXES
from tokenmill.formats.engine.first_bytes import known_head
from tokenmill.look.doctor import (
    endings,
    foreign_ids,
    headers,
    overlap,
    shard_files,
    sort_order,
    tails,
    width,
    wrong_tokenizer,
)
from tokenmill.look.doctor.finding import Examination, Finding
from tokenmill.look.doctor.token_sample import BUDGET, Patient
from tokenmill.look.inspect import open_splits

# What is read wrongly is wrong in every other way too: these come first, and end the list.
READING: list[Callable[[Patient], Iterator[Finding]]] = [headers.check, width.check]
CONTENT: list[Callable[[Patient], Iterator[Finding]]] = [
    tails.check,
    shard_files.check,
    foreign_ids.check,
    endings.check,
    wrong_tokenizer.check,
    sort_order.check,
]
DTYPES = ("uint16", "uint32", "int32", "uint8", "int64")


def examine(path: str | os.PathLike[str], *, budget: int = BUDGET, **settings: Any) -> Examination:
    """All findings about token data; `settings` are those of `tokenmill.open`.

    `budget` is how many tokens of each split are looked at. A path that holds no token data at all
    is an error, not a finding.
    """
    result = Examination(os.fspath(path))
    try:
        splits = _open(path, result, settings)
    except NotADatasetError:
        raise
    except FormatError as error:
        result.findings += _why_not_open(path, error, settings)
        return result
    first = next(iter(splits.values()))
    patients = {name: Patient(data, name, budget, sister=first) for name, data in splits.items()}
    result.tokens = sum(data.num_tokens for data in splits.values())
    for patient in patients.values():
        for checks in (READING, CONTENT):
            found = [finding for check in checks for finding in _run(check, patient)]
            result.findings += found
            if found and checks is READING:
                break
        result.tokens_looked_at += len(patient.ids)
    if "train" in patients and "val" in patients and not result.has_faults:
        train, val = patients["train"], patients["val"]
        result.findings += _run(lambda p: overlap.check(p, val), train)
    # A file of which train has the head and val the tail is named once.
    once = {(finding.name, finding.where): finding for finding in reversed(result.findings)}
    result.findings = list(reversed(once.values()))
    return result


def _run(check: Callable[[Patient], Iterator[Finding]], patient: Patient) -> list[Finding]:
    """The findings of a check; damage that it runs into is one."""
    try:
        return list(check(patient))
    except FormatError as error:
        return [_of_error(error, patient.split)]


def _open(
    path: str | os.PathLike[str], result: Examination, settings: dict[str, Any]
) -> dict[str, TokenDataset]:
    """Open; where no file states the dtype, by the look of the data."""
    try:
        return open_splits(path, **settings)
    except NotADatasetError:
        raise
    except (TruncatedShardError, CorruptShardError):
        raise
    except FormatError as error:
        file = _first_file(path)
        if settings.get("dtype") or file is None or known_head(_head(file)):
            raise
        dtype = width.likely_dtype(_head(file, 1 << 20))
        try:
            splits = open_splits(path, **settings | {"dtype": dtype})
        except FormatError:
            raise error from None
        result.assumed["dtype"] = dtype
        return splits


def _why_not_open(
    path: str | os.PathLike[str], error: FormatError, settings: dict[str, Any]
) -> list[Finding]:
    file = _first_file(path)
    if file is not None and settings.get("format") and (what := known_head(_head(file))):
        return [headers.finding(str(file), _head(file), 2, what)]
    return [_of_error(error, os.fspath(path))]


def _of_error(error: FormatError, where: str) -> Finding:
    name = {TruncatedShardError: "cut-shard", CorruptShardError: "damaged"}.get(
        type(error), "unreadable"
    )
    return Finding(name, where, error.message, error.hint or "write or fetch the files again")


def _first_file(path: str | os.PathLike[str]) -> Path | None:
    place = Path(path)
    if place.is_file():
        return place
    if not place.is_dir():
        return None
    found = (p for p in sorted(place.rglob("*")) if p.suffix in TOKEN_SUFFIXES and p.is_file())
    return next(found, None)


def _head(path: Path, length: int = 64) -> bytes:
    with path.open("rb") as file:
        return file.read(length)
