"""`tokenmill.verify`: token data of any format, compared with what it says of itself.

A tokenmill dataset is compared with its manifest. Formats without hashes can only be compared with
themselves: sizes against headers and indices when they are opened, then with `full` every index
and every id against the vocabulary. Data that is whole may still be wrong, such as ids of another
tokenizer: examine.py looks at a sample of it.
"""

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
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
from tokenmill.hub.remote_files import OUR_FOLDER
from tokenmill.look.examine import Examination, examine
from tokenmill.look.token_sample import BUDGET, Trap, spread
from tokenmill.shards.manifest import STATE_FILE_NAME, Manifest
from tokenmill.shards.verify import Finding, share_of
from tokenmill.shards.verify import verify as verify_ours

BLOCK_TOKENS = 1 << 22
_FETCH = "fetch this file again, or write it again"
_PREPARE = "fetch the dataset again, or prepare it again"
Progress = Callable[[str, int], None]


@dataclass(frozen=True)
class Check:
    """The result of `verify`: the checks that were made, and the faults."""

    path: str
    format: str
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
    if Manifest.find(path) is not None:
        check = _check_ours(path, full, subset, progress)
        return check if check.damaged else _with_traps(check, examine(path, budget=sample))
    examined = examine(path, budget=sample, **open_options)
    try:
        data = open_dataset(path, "all", **open_options | examined.assumed)
    except (TruncatedShardError, CorruptShardError) as error:
        damage = _of_error(error, os.fspath(path), "size", "whole files")
        return Check(os.fspath(path), "", [damage])
    except FormatError:
        return _with_traps(Check(os.fspath(path), ""), examined)  # they say why
    check = _check_foreign(data, full, subset, progress)
    return check if check.damaged else _with_traps(check, examined)


def _with_traps(check: Check, examined: Examination) -> Check:
    return replace(
        check,
        traps=examined.findings,
        assumed=examined.assumed,
        tokens=examined.tokens,
        tokens_sampled=examined.tokens_looked_at,
    )


def _of_error(error: FormatError, file: str, what: str, expected: str) -> Finding:
    return Finding(file, what, expected, error.message, error.hint or _FETCH)


def _check_ours(
    folder: str | os.PathLike[str], full: bool, subset: str | None, progress: Progress | None
) -> Check:
    read = []

    def count(file: str, num_bytes: int) -> None:
        read.append(file)
        if progress is not None:
            progress(file, num_bytes)

    findings = verify_ours(os.fspath(folder), full=full, subset=subset, progress=count)
    damaged = [f for f in findings if f.is_error]
    notes = []
    if not any(f.what in ("missing", "size") or f.file == STATE_FILE_NAME for f in damaged):
        try:
            damaged = _check_tokenizer(folder) + damaged
        except ImportError as error:
            notes.append(f"the stored tokenizer is compared by its hash only: {error}")
    extra = [f.file for f in findings if f.what == "extra"]
    extra = [name for name in extra if not name.startswith(OUR_FOLDER + "/")]
    shards = len(Manifest.load(folder).shards)
    return Check(
        os.fspath(folder),
        "tokenmill",
        damaged,
        extra=extra,
        shards=shards,
        shards_read=len(read),
        has_hashes=True,
        notes=notes,
    )


def _check_tokenizer(folder: str | os.PathLike[str]) -> list[Finding]:
    """Build the stored tokenizer: it must be the one that the manifest describes."""
    try:
        _ = open_dataset(folder, "all").tokenizer
    except (FormatError, MismatchError) as error:
        expected = "the tokenizer that the manifest describes"
        return [Finding(STATE_FILE_NAME, "tokenizer", expected, error.message, _PREPARE)]
    return []


def _check_foreign(
    data: TokenDataset, full: bool, subset: str | None, progress: Progress | None
) -> Check:
    count = len(data.shards)
    share = 1.0 if full else 0.0 if subset is None else share_of(subset)
    chosen = spread(math.ceil(share * count), count)
    damaged = []
    for i in chosen:
        damaged += _check_shard(data, i)
        if progress is not None:
            progress(data.shards[i].file, data.files[i].file_bytes)
    return Check(data.path, data.format, damaged, shards=count, shards_read=len(chosen))


def _check_shard(data: TokenDataset, i: int) -> list[Finding]:
    """The index of a shard, and every id of it against the vocabulary."""
    file = data.files[i]
    start = data.shards[i].start
    stop = start + data.shards[i].num_tokens
    try:
        if file.ends is not None:
            data.document_ends(start, stop)
        if data.vocab_size is None:
            return []
        for low in range(start, stop, BLOCK_TOKENS):
            ids = data.tokens(low, min(low + BLOCK_TOKENS, stop))
            wrong = int(ids.max()) if ids.max() >= data.vocab_size else int(ids.min())
            if not 0 <= wrong < data.vocab_size:
                expected = f"ids below {data.vocab_size:,}"
                return [Finding(file.name, "ids", expected, f"id {wrong:,}", _FETCH)]
    except NotADatasetError as error:
        return [_of_error(error, file.name, "missing", "the file")]
    except (TruncatedShardError, CorruptShardError) as error:
        return [_of_error(error, file.name, "index", "a sound file")]
    return []
