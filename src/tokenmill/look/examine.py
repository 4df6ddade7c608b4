"""Open, sample, run every check; stop where one trap explains the rest."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError
from tokenmill.formats.format import TOKEN_SUFFIXES
from tokenmill.formats.held_out import is_named
from tokenmill.formats.not_tokens import known_head, likely_dtype
from tokenmill.formats.untrusted import head
from tokenmill.look import document_traps, misread, overlap, shard_files, wrong_tokenizer
from tokenmill.look.inspect import open_splits
from tokenmill.look.token_sample import BLOCK_TOKENS, BUDGET, SplitSample, Trap

Check = Callable[[SplitSample], Iterator[Trap]]
CONTENT: tuple[Check, ...] = (shard_files.check, wrong_tokenizer.check, document_traps.check)


@dataclass
class Examination:
    """The traps in a dataset, and the size of the sample."""

    findings: list[Trap] = field(default_factory=list)
    tokens_looked_at: int = 0
    tokens: int = 0
    assumed: dict[str, str] = field(default_factory=dict)
    """Facts that no file states, guessed from the data: {"dtype": "uint16"}."""

    @property
    def has_faults(self) -> bool:
        return any(trap.is_fault for trap in self.findings)


@takes_keywords_of(open_dataset, but=("split",))
def examine(
    path: str | os.PathLike[str], *, budget: int = BUDGET, **open_options: Any
) -> Examination:
    """Look for all known traps in token data; other keywords are those of `tokenmill.open`.

    `budget` tokens of each split are looked at. A path that holds no token data at all
    is an error, not a finding.
    """
    result = Examination()
    try:
        splits = _open(path, result, open_options)
    except NotADatasetError:
        raise
    except FormatError as error:
        result.findings.append(_why_not_open(path, error, open_options))
        return result
    first = next(iter(splits.values()))
    budget = max(budget, BLOCK_TOKENS)
    samples = {name: SplitSample(data, name, budget, first) for name, data in splits.items()}
    result.tokens = sum(data.num_tokens for data in splits.values())
    for sample in samples.values():
        found = list(_run(misread.check, sample))
        # What is read wrongly is wrong in every other way too.
        for check in () if found else CONTENT:
            found += _run(check, sample)
        result.findings += found
        result.tokens_looked_at += len(sample.ids)
    if "train" in samples and not result.has_faults:
        for name, sample in samples.items():
            if name == "val" or is_named(name):
                check = partial(overlap.check, val=sample)
                result.findings += _run(check, samples["train"])
    # A file of which train has the head and val the tail is named once.
    once = {(trap.name, trap.where): trap for trap in reversed(result.findings)}
    result.findings = list(reversed(once.values()))
    return result


def _run(check: Check, sample: SplitSample) -> Iterator[Trap]:
    """The traps that a check finds; damage that it meets is one of them."""
    try:
        yield from check(sample)
    except FormatError as error:
        yield _of_error(error, sample.split)


def _open(
    path: str | os.PathLike[str], result: Examination, open_options: dict[str, Any]
) -> dict[str, TokenDataset]:
    """Open; where no file states the dtype, guess it from the data."""
    try:
        return open_splits(path, held_out=True, **open_options)
    except (NotADatasetError, TruncatedShardError, CorruptShardError):
        raise
    except FormatError as error:
        file = _first_file(path)
        if open_options.get("dtype") or file is None or known_head(head(file)[0]):
            raise
        dtype = likely_dtype(head(file, 1 << 20)[0])
        try:
            splits = open_splits(path, held_out=True, **open_options | {"dtype": dtype})
        except FormatError:
            raise error from None
        result.assumed["dtype"] = dtype
        return splits


def _why_not_open(
    path: str | os.PathLike[str], error: FormatError, open_options: dict[str, Any]
) -> Trap:
    file = _first_file(path)
    if file is not None and open_options.get("format") and (what := known_head(head(file)[0])):
        return misread.header_trap(str(file), head(file)[0], 2, what)
    return _of_error(error, os.fspath(path))


def _of_error(error: FormatError, where: str) -> Trap:
    names = {TruncatedShardError: "cut-shard", CorruptShardError: "damaged"}
    name = names.get(type(error), "unreadable")
    return Trap(name, where, error.message, error.hint or "write or fetch the files again")


def _first_file(path: str | os.PathLike[str]) -> Path | None:
    if Path(path).is_file():
        return Path(path)
    found = sorted(Path(path).rglob("*"))  # nothing where there is no folder
    return next((p for p in found if p.suffix in TOKEN_SUFFIXES and p.is_file()), None)
