"""`tokenmill.verify`: token data of any format, compared with what it says of itself.

A tokenmill dataset is compared with its manifest. Formats without hashes can only be compared with
themselves: sizes against headers and indices when they are opened, then with `full` every index
and every id against the vocabulary. Data that is whole may still be wrong, such as ids of another
tokenizer: every check for such traps looks at a sample of it.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    MismatchError,
    NotADatasetError,
    TruncatedShardError,
)
from tokenmill.formats.format import TOKEN_SUFFIXES
from tokenmill.formats.held_out import is_named
from tokenmill.formats.not_tokens import known_head, likely_dtype
from tokenmill.formats.untrusted import head
from tokenmill.hub.remote_files import OUR_FOLDER
from tokenmill.look import chat_traps, document_traps, shard_files, wrong_ids
from tokenmill.look.inspect import open_splits
from tokenmill.look.token_sample import BLOCK_TOKENS, BUDGET, SplitSample, Trap, spread
from tokenmill.shards.manifest import STATE_FILE_NAME, Manifest
from tokenmill.shards.verify import Finding, share_of
from tokenmill.shards.verify import verify as verify_ours

READ_TOKENS = 1 << 22  # at a time, with `full`
_FETCH = "fetch this file again, or write it again"
_PREPARE = "fetch the dataset again, or prepare it again"
Progress = Callable[[str, int], None]
TrapCheck = Callable[[SplitSample], Iterator[Trap]]
OF_READING: tuple[TrapCheck, ...] = (wrong_ids.headers, wrong_ids.wrong_type)
OF_CONTENT: tuple[TrapCheck, ...] = (
    *(shard_files.unfilled, shard_files.cut, shard_files.repeated),
    *(wrong_ids.numbers, wrong_ids.texts),
    *(document_traps.doubled_ends, document_traps.missing_ends, document_traps.no_ends),
    *(document_traps.begin_tokens, document_traps.never_shuffled, chat_traps.targets),
)
FOOLED: tuple[TrapCheck, ...] = (
    *(shard_files.unfilled, shard_files.repeated, document_traps.doubled_ends, chat_traps.targets),
)
"""Checks that take forgotten documents for faults; `full` reads the record of these."""


@dataclass
class Check:
    """The result of `verify`: the checks that were made, and the faults."""

    path: str
    format: str = ""
    damaged: list[Finding] = field(default_factory=list)
    traps: list[Trap] = field(default_factory=list)
    """Faults of the content, and notes on it; looked for where no file is damaged."""
    extra: list[str] = field(default_factory=list)
    """Files that are not part of the dataset; no fault."""
    shards: int = 0
    shards_read: int = 0
    has_hashes: bool = False
    notes: list[str] = field(default_factory=list)
    """Checks that were not possible; no fault."""
    tokens: int = 0
    tokens_sampled: int = 0
    assumed: dict[str, str] = field(default_factory=dict)
    """Facts that no file states, guessed from the data: {"dtype": "uint16"}."""

    @property
    def ok(self) -> bool:
        """True if the data is whole, unchanged and sound."""
        return not self.damaged and not any(trap.is_fault for trap in self.traps)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenmill verify --json`."""
        return asdict(self) | {"ok": self.ok}


@takes_keywords_of(open_dataset, but=("split",))
def verify(
    path: str | os.PathLike[str],
    *,
    full: bool = False,
    subset: str | None = None,
    sample: int = BUDGET,
    progress: Progress | None = None,
    **open_options: Any,
) -> Check:
    """Check that the token data at a path is whole, unchanged and sound.

    Sizes are compared with the manifest, or with headers and indices; with `full` every byte with
    its hash, with `subset="5%"` those of some shards. Then `sample` tokens of each split are
    searched for known traps, such as a header read as tokens (`look/`). Other keywords are
    those of `tokenmill.open`. A path without token data, or an unreadable manifest, is raised.
    """
    if full and subset is not None:
        raise ValueError("full reads everything and subset a part; give one of them")
    check = Check(os.fspath(path))
    if Manifest.find(path) is not None:
        _check_ours(check, full, subset, progress)
        if not check.damaged:
            _find_traps(check, sample, open_options)
            check.traps += _other_template(path, open_options.get("tokenizer"))
        return check
    _find_traps(check, sample, open_options)
    try:
        data = open_dataset(path, "all", **open_options | check.assumed)
    except (TruncatedShardError, CorruptShardError) as error:
        check.damaged.append(_damage(error, check.path, "size", "whole files"))
    except FormatError:
        return check  # the traps say why
    else:
        check.format = data.format
        check.shards = len(data.shards)
        share = float(full) if subset is None else share_of(subset)
        for i in spread(math.ceil(share * check.shards), check.shards):
            check.damaged += _check_shard(data, i)
            check.shards_read += 1
            if progress is not None:
                progress(data.shards[i].file, data.files[i].file_bytes)
    if check.damaged:
        check.traps = []
    return check


def _other_template(path: str | os.PathLike[str], tokenizer: Any) -> Iterator[Trap]:
    """Compare the template of chat with that of the tokenizer folder that is named, if any."""
    recorded = Manifest.load(path).settings
    if not recorded.get("chat") or not isinstance(tokenizer, str | os.PathLike):
        return
    from tokenmill.tokens.chat_template import find_template

    text, _ = find_template(os.fspath(tokenizer), None)
    if text != recorded.get("chat_template"):
        evidence = f"the conversations were written by another chat template than {tokenizer} has"
        fix = "prepare them again, or serve the model with the template in dataset_metadata.json"
        yield Trap("other-template", "dataset_metadata.json", evidence, fix)


def _damage(error: FormatError, file: str, what: str, expected: str) -> Finding:
    return Finding(file, what, expected, error.message, error.hint or _FETCH)


def _check_ours(check: Check, full: bool, subset: str | None, progress: Progress | None) -> None:
    def count(file: str, num_bytes: int) -> None:
        check.shards_read += 1
        if progress is not None:
            progress(file, num_bytes)

    findings = verify_ours(check.path, full=full, subset=subset, progress=count)
    check.format = "tokenmill"
    check.has_hashes = True
    check.shards = len(Manifest.load(check.path).shards)
    check.damaged = [f for f in findings if f.is_error]
    if full and not check.damaged and Manifest.load(check.path).forgotten is not None:
        from tokenmill.look.forgotten_proof import differences

        check.damaged += differences(check.path)
    extra = [f.file for f in findings if f.what == "extra"]
    check.extra = [name for name in extra if not name.startswith(OUR_FOLDER + "/")]
    if any(f.what in ("missing", "size") or f.file == STATE_FILE_NAME for f in check.damaged):
        return
    try:
        _ = open_dataset(check.path, "all").tokenizer
    except (FormatError, MismatchError) as error:
        expected = "the tokenizer that the manifest describes"
        damage = Finding(STATE_FILE_NAME, "tokenizer", expected, error.message, _PREPARE)
        check.damaged.insert(0, damage)
    except ImportError as error:
        check.notes.append(f"the stored tokenizer is compared by its hash only: {error}")


def _check_shard(data: TokenDataset, i: int) -> list[Finding]:
    file = data.files[i]
    start = data.shards[i].start
    stop = start + data.shards[i].num_tokens
    try:
        if file.ends is not None:
            data.document_ends(start, stop)
        if data.vocab_size is None:
            return []
        for low in range(start, stop, READ_TOKENS):
            ids = data.tokens(low, min(low + READ_TOKENS, stop))
            wrong = int(ids.max()) if ids.max() >= data.vocab_size else int(ids.min())
            if not 0 <= wrong < data.vocab_size:
                expected = f"ids below {data.vocab_size:,}"
                return [Finding(file.name, "ids", expected, f"id {wrong:,}", _FETCH)]
    except NotADatasetError as error:
        return [_damage(error, file.name, "missing", "the file")]
    except (TruncatedShardError, CorruptShardError) as error:
        return [_damage(error, file.name, "index", "a sound file")]
    return []


def _find_traps(check: Check, budget: int, open_options: dict[str, Any]) -> None:
    """Look for all known traps in `budget` tokens of each split; stop where one explains the rest.

    A path that holds no token data at all is an error, not a trap.
    """
    try:
        splits = _open(check, open_options)
    except NotADatasetError:
        raise
    except FormatError as error:
        file = _first_file(check.path)
        trap = _trap(error, check.path)
        if file is not None and open_options.get("format") and (what := known_head(head(file)[0])):
            trap = wrong_ids.header_trap(str(file), head(file)[0], 2, what)
        check.traps.append(trap)
        return
    first = next(iter(splits.values()))
    budget = max(budget, BLOCK_TOKENS)
    samples = {name: SplitSample(data, name, budget, first) for name, data in splits.items()}
    traps: list[Trap] = []
    for sample in samples.values():
        for checks in (OF_READING, OF_CONTENT):
            if sample.data.has_forgotten:
                checks = tuple(check_one for check_one in checks if check_one not in FOOLED)
            found = [trap for check_one in checks for trap in _run(check_one, sample)]
            traps += found
            if found:  # what is read wrongly is wrong in every other way too
                break
        check.tokens += sample.data.num_tokens
        check.tokens_sampled += len(sample.ids)
    if "train" in samples and not any(trap.is_fault for trap in traps):
        for name, sample in samples.items():
            if name == "val" or is_named(name):
                traps += _run(partial(document_traps.train_in_val, val=sample), samples["train"])
    # A file of which train has the head and val the tail is named once.
    once = {(trap.name, trap.where): trap for trap in reversed(traps)}
    check.traps = list(reversed(once.values()))


def _run(trap_check: TrapCheck, sample: SplitSample) -> Iterator[Trap]:
    """The traps that a check finds; damage that it meets is one of them."""
    try:
        yield from trap_check(sample)
    except FormatError as error:
        yield _trap(error, sample.split)


def _open(check: Check, open_options: dict[str, Any]) -> dict[str, TokenDataset]:
    """Open; where no file states the dtype, guess it from the data."""
    try:
        return open_splits(check.path, held_out=True, **open_options)
    except (NotADatasetError, TruncatedShardError, CorruptShardError):
        raise
    except FormatError as error:
        file = _first_file(check.path)
        if open_options.get("dtype") or file is None or known_head(head(file)[0]):
            raise
        dtype = likely_dtype(head(file, 1 << 20)[0])
        try:
            splits = open_splits(check.path, held_out=True, **open_options | {"dtype": dtype})
        except FormatError:
            raise error from None
        check.assumed["dtype"] = dtype
        return splits


def _trap(error: FormatError, where: str) -> Trap:
    names = {TruncatedShardError: "cut-shard", CorruptShardError: "damaged"}
    name = names.get(type(error), "unreadable")
    return Trap(name, where, error.message, error.hint or "write or fetch the files again")


def _first_file(path: str) -> Path | None:
    if Path(path).is_file():
        return Path(path)
    found = sorted(Path(path).rglob("*"))  # nothing where there is no folder
    return next((p for p in found if p.suffix in TOKEN_SUFFIXES and p.is_file()), None)
