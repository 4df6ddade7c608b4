"""The contents of a dataset and how it was made: of any format, without reading its tokens.

Only `bytes_per_token` looks at tokens: a sample is decoded. Everything else is in headers, indices
and sizes.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.human import one_line, plural
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import check_at_least_one
from tokenmill.dataset import TokenDataset
from tokenmill.dataset import open as open_dataset
from tokenmill.errors import FormatError, NotADatasetError, TokenmillError
from tokenmill.formats.held_out import SPLITS
from tokenmill.hub.checked_files import origins
from tokenmill.look.show import ShownToken, show_ids
from tokenmill.look.token_sample import spread_ranges, text_size
from tokenmill.shards.manifest import Manifest

SAMPLE_PLACES = 16
SAMPLE_TOKENS = 4096  # at each place
DEEPEST = 3  # levels of folders that are searched for datasets


@dataclass(frozen=True)
class SplitInfo:
    """One split; `bytes` are those of its ids."""

    tokens: int
    documents: int | None
    """None where counting them would mean to read all tokens."""
    bytes: int
    shards: int
    tokens_per_shard: int
    first_file: str | None
    last_file: str | None
    part_of_a_file: bool
    windows: int
    """Windows of `block_size` tokens in an epoch."""
    fingerprint: str


@dataclass(frozen=True)
class TokenizerInfo:
    """The tokenizer as far as the data, or the caller, names it."""

    name: str | None
    vocab_size: int | None
    end_of_text_id: int | None
    end_of_text_comes: str | None
    begin_token_id: int | None
    fingerprint: str | None
    error: str | None
    """The reason why it cannot be loaded: not installed, or changed."""


@dataclass(frozen=True)
class Made:
    """The settings, accounts and sources in a manifest."""

    settings: dict[str, Any]
    accounts: dict[str, Any]
    sources: int
    source_bytes: int
    source_documents: int
    first_sources: list[str]


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect`."""

    path: str
    format: str
    dtype: str
    block_size: int
    splits: dict[str, SplitInfo]
    tokenizer: TokenizerInfo
    bytes_per_token: float | None
    """Of the text, from samples; None without the tokenizer."""
    details: dict[str, Any]
    """Further facts that the files of this format state."""
    fetched: list[dict[str, Any]]
    made: Made | None
    """None for data without a manifest."""

    @property
    def tokens(self) -> int:
        return sum(split.tokens for split in self.splits.values())

    @property
    def bytes(self) -> int:
        return sum(split.bytes for split in self.splits.values())

    @property
    def documents(self) -> int | None:
        counts = [split.documents for split in self.splits.values()]
        return None if None in counts else sum(count or 0 for count in counts)

    def to_json(self) -> dict[str, Any]:
        """The JSON of `tokenmill inspect --json`."""
        totals = {"tokens": self.tokens, "documents": self.documents, "bytes": self.bytes}
        return asdict(self) | totals

    def other_details(self) -> dict[str, str]:
        """The details that no other field repeats, each on one line."""
        named = self.details.items()
        return {k: shown_setting(v) for k, v in named if k not in ("tokenizer", "splits")}


@takes_keywords_of(open_dataset, but=("split",))
def open_splits(
    path: str | os.PathLike[str], *, held_out: bool = False, **open_options: Any
) -> dict[str, TokenDataset]:
    """Open every split; data without splits is `all`, as `tokenmill.open` opens it.

    With `held_out` such data is cut into `train` and `val`, by the rule for what is held out.
    """
    # Every file is looked at: what fails fails here.
    whole = open_dataset(path, "all", **open_options)
    with suppress(FormatError):  # there are splits, but no train
        if not held_out and open_dataset(path, **open_options).split is None:
            return {"all": whole}
    splits = {}
    for name in (*SPLITS, *whole.named_splits):
        with suppress(FormatError):  # there is no such split
            splits[name] = open_dataset(path, name, **open_options)
    return splits or {"all": whole}


@takes_keywords_of(open_dataset, but=("split",))
def inspect(
    path: str | os.PathLike[str], *, block_size: int = 1024, **open_options: Any
) -> Inspection:
    """Return what is known about token data; other keywords are those of `tokenmill.open`.

    `block_size` is the length of the windows that are counted, in tokens.
    """
    check_at_least_one(block_size=block_size)
    splits = open_splits(path, **open_options)
    data = next(iter(splits.values()))
    return Inspection(
        path=os.fspath(path),
        format=data.format,
        dtype=data.dtype.name,
        block_size=block_size,
        splits={name: _split(split, block_size) for name, split in splits.items()},
        tokenizer=_tokenizer(data),
        bytes_per_token=_bytes_per_token(splits.values()),
        details=data.details,
        fetched=origins(Path(path)),
        made=_made(Manifest.load(path)) if data.has_manifest else None,
    )


class OpenedData:
    """The data that pages are made from; keywords are those of `tokenmill.open`.

    Tokens are read, not mapped: a file that another process cuts short is then an error on a page,
    not the end of this process, and scattered places of cold files are read faster (4 s instead of
    30 s for a report on 20 GB of sparse shards).
    """

    @takes_keywords_of(open_dataset, but=("split",))
    def __init__(self, path: str, **open_options: Any) -> None:
        self.path = path
        self.name = Path(path).resolve().name
        self.open_options = {"backend": "pread", **open_options}
        self.splits = open_splits(path, **self.open_options)
        # Where there is an error, ids are shown instead of text.
        self.tokenizer, self.tokenizer_error = _load_tokenizer(next(iter(self.splits.values())))
        if self.tokenizer is not None:  # loaded once, and used for all
            self.open_options["tokenizer"] = self.tokenizer
            self.splits = open_splits(path, **self.open_options)

    @cached_property
    def known(self) -> Inspection:
        return inspect(self.path, **self.open_options)

    def shown(
        self, data: TokenDataset, ids: np.ndarray, targets: np.ndarray | None = None
    ) -> list[ShownToken]:
        """Return ids of a split as text."""
        end = data.end_of_text_id
        return show_ids(ids, self.tokenizer, end_of_text_id=end, targets=targets)


def _split(data: TokenDataset, block_size: int) -> SplitInfo:
    return SplitInfo(
        tokens=data.num_tokens,
        documents=data.num_documents,
        bytes=data.num_tokens * data.dtype.itemsize,
        shards=len(data.shards),
        tokens_per_shard=max((file.num_tokens for file in data.files), default=0),
        first_file=data.shards[0].file if data.shards else None,
        last_file=data.shards[-1].file if data.shards else None,
        part_of_a_file=any(file.partial for file in data.files),
        windows=max(0, data.num_tokens - 1) // block_size,
        fingerprint=data.fingerprint,
    )


def _load_tokenizer(data: TokenDataset) -> tuple[Any, str | None]:
    try:
        return data.tokenizer, None
    except (TokenmillError, ImportError) as error:
        return None, str(error)


def _tokenizer(data: TokenDataset) -> TokenizerInfo:
    tokenizer, error = _load_tokenizer(data)
    return TokenizerInfo(
        tokenizer.name if tokenizer else data.details.get("tokenizer"),
        data.vocab_size,
        data.end_of_text_id,
        data.end_of_text_comes,
        data.begin_token_id,
        tokenizer.fingerprint if tokenizer else None,
        error,
    )


def _bytes_per_token(splits: Iterable[TokenDataset]) -> float | None:
    """Bytes of text per token, from samples spread over the largest split."""
    data = max(splits, key=lambda split: split.num_tokens)
    try:
        if data.tokenizer is None or not data.num_tokens:
            return None
        ranges = spread_ranges(SAMPLE_PLACES, SAMPLE_TOKENS, 0, data.num_tokens)
        num_bytes, num_tokens = text_size(data, ranges, data.tokenizer)
    except (TokenmillError, ValueError, ImportError):
        return None
    return round(num_bytes / num_tokens, 3) if num_tokens else None


def _made(manifest: Manifest) -> Made:
    sources = manifest.sources
    return Made(
        settings=dict(manifest.settings),
        accounts=dict(manifest.accounts),
        sources=sum(source.num_files or 1 for source in sources),
        source_bytes=sum(source.num_bytes for source in sources),
        source_documents=sum(source.num_documents for source in sources),
        first_sources=[source.name for source in sources[:5]],
    )


def lines(known: Inspection) -> list[str]:
    """Return an inspection as lines for people."""
    rows = list(_rows(known))
    width = max(len(name) for name, _ in rows)
    names = ["", *(name for name, _ in rows)]  # each is printed where it differs from the last
    return [
        f"{'' if name == previous else name:<{width}}  {value}"
        for previous, (name, value) in zip(names, rows, strict=False)
    ]


def _rows(known: Inspection) -> Iterator[tuple[str, str]]:
    yield "path", one_line(known.path)
    yield "format", known.format
    yield "dtype", known.dtype
    yield "tokens", f"{known.tokens:,}"
    count = known.documents
    yield "documents", "not counted (no index)" if count is None else f"{count:,}"
    yield "tokenizer", _tokenizer_line(known.tokenizer)
    if known.tokenizer.error:
        reason = known.tokenizer.error.partition("\n\n")[0]
        yield "tokenizer", one_line(f"cannot be loaded: {reason}")
    if known.bytes_per_token is not None:
        yield "text", f"{known.bytes_per_token:.2f} bytes a token, from samples"
    width = max(len(name) for name in known.splits)
    for name, split in known.splits.items():
        documents = "" if split.documents is None else f"{plural(split.documents, 'document')}, "
        size = f"{split.bytes:,} bytes in {plural(split.shards, 'shard')}"
        part = " (part of a file)" if split.part_of_a_file else ""
        counts = f"{plural(split.tokens, 'token')}, {documents}{size}{part}"
        yield "split", f"{name:<{width}}  {counts}"
    windows = ", ".join(f"{name} {split.windows:,}" for name, split in known.splits.items())
    yield "windows", f"{windows}, of {plural(known.block_size, 'token')} each"
    for name, value in known.other_details().items():
        yield name.replace("_", " "), value
    for origin in known.fetched:
        yield "fetched", one_line("{repo} at {revision}, commit {commit}".format(**origin))
    if known.made is not None:
        yield from _made_rows(known.made)


def _tokenizer_line(tokenizer: TokenizerInfo) -> str:
    parts = [one_line(tokenizer.name or "not named by the files")]
    if tokenizer.vocab_size is not None:
        parts.append(f"{tokenizer.vocab_size:,} ids")
    if tokenizer.end_of_text_id is not None:
        where = tokenizer.end_of_text_comes
        parts.append(f"end-of-text {tokenizer.end_of_text_id} {where} each document")
    if tokenizer.begin_token_id is not None:
        parts.append(f"begin token {tokenizer.begin_token_id} before each document")
    if tokenizer.fingerprint is not None:
        parts.append(f"fingerprint {tokenizer.fingerprint[:12]}")
    return ", ".join(parts)


def shown_setting(value: object) -> str:
    """Write a setting, an account or a detail in words on one line; names of files are counted."""
    if value is None or value in ({}, []):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{one_line(str(k))}: {shown_setting(v)}" for k, v in value.items())
    if isinstance(value, list):
        names = any(isinstance(each, str) for each in value)
        return plural(len(value), "file") if names else ", ".join(map(shown_setting, value))
    return one_line(str(value))


def _made_rows(made: Made) -> Iterator[tuple[str, str]]:
    names = ", ".join(one_line(name) for name in made.first_sources)
    more = f" and {made.sources - 5:,} more" if made.sources > 5 else ""
    if any(name.endswith("/") for name in made.first_sources):
        more = f", {made.sources:,} files in all"
    if made.sources:
        yield "made from", f"{names}{more}: {made.source_bytes:,} bytes"
    yield from (("made with", f"{k}={shown_setting(v)}") for k, v in made.settings.items())
    yield from (("accounts", f"{k}: {shown_setting(v)}") for k, v in made.accounts.items())


def list_datasets(
    folder: str | os.PathLike[str], depth: int = DEEPEST, **open_options: Any
) -> Iterator[dict[str, Any]]:
    """The datasets in a folder and in the folders of it, in the order of their names.

    `error` says why one cannot be opened, such as a dtype that no file states, or damage.
    """
    inside = [path for path in Path(folder).glob("[!.]*") if path.is_dir()]
    for path in sorted(inside, key=lambda path: os.fsencode(path.name)):
        try:
            splits = open_splits(path, **open_options)
        except NotADatasetError:
            if depth > 1:
                yield from list_datasets(path, depth - 1, **open_options)
        except FormatError as error:
            no_data = {"format": "", "dtype": "", "tokens": {}}
            yield {"path": str(path), **no_data, "error": error.message}
        else:
            data = next(iter(splits.values()))
            tokens = {name: split.num_tokens for name, split in splits.items()}
            kind = {"format": data.format, "dtype": data.dtype.name}
            yield {"path": str(path), **kind, "tokens": tokens, "error": None}
