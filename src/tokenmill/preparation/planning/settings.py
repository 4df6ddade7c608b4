"""What a preparation is asked to do: `Settings` may change bytes of the result, `Run` may not."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal, TypedDict

from tokenmill.base.progress import Progress
from tokenmill.base.signatures import check_fields
from tokenmill.base.suggest import one_of
from tokenmill.executors.executor import Executor
from tokenmill.shards.manifest import checked_compression, level_of
from tokenmill.text.reading.chunks import ReadRules

UNIT_BYTES = 32 << 20


class SettingsKeywords(TypedDict, total=False):
    """The fields of `Settings` that are keyword arguments, for type checkers."""

    tokenizer: Any
    end_of_text: str | None
    begin_token: str | None
    dtype: Literal["uint16", "uint32"] | None
    tokens_per_shard: int
    val_fraction: float
    compress: str | None
    clean: bool
    dedup: Literal["none", "lines", "documents"]
    separator: str | None
    text_field: str
    on_bad_input: Literal["error", "skip", "replace"]


@dataclass(frozen=True, kw_only=True)
class Details:
    """Settings that few need, for `prepare(..., details=Details(dedup_min_chars=40))`.

    None leaves a setting as it is by default, or as it is in the dataset that is added to.
    """

    token_pattern: str | None = None
    """Splitting pattern of a .tiktoken file that is not a published one: its name (gpt2, cl100k...)
    or a regular expression."""
    dedup_min_chars: int | None = None
    """Lines with fewer characters are never duplicates; by default 16."""
    document_is: Literal["file", "line", "paragraph"] | None = None
    """What is one document in a text file; by default the whole file."""
    long_line: int | None = None
    """Lines of more bytes are never duplicates, and a document of more may be encoded in pieces; by
    default 8 MiB."""
    gitignore: bool | None = None
    """Leave out what git ignores in folders and globs, which must be in a checkout."""

    def __post_init__(self) -> None:
        check_fields(self)

    def added_to(self, settings: SettingsKeywords) -> dict[str, Any]:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {**settings, **given}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that decide the result; how many workers run is not among them.

    The docstring under a field is also the help text of its flag, the comment above a field the
    title of the flags from there on. Manifests list the fields in this order.
    """

    # Tokens
    tokenizer: Any = "gpt2"
    """gpt2, bytes, chars, a tokenizer.json, .tiktoken or .model file, or OWNER/NAME on the hub."""
    end_of_text: str | None = None
    """End-of-text token, where the tokenizer file has none."""
    begin_token: str | None = None
    """Token written before every document, by its spelling or its id; `auto` for the one that the
    tokenizer file is known to have."""
    token_pattern: str | None = None
    """Splitting pattern of a .tiktoken file, by name (gpt2, cl100k...) or as a regular expression,
    where the file is not a published one."""
    dtype: Literal["uint16", "uint32"] | None = None
    """Width of an id on disk; by default the smaller one that holds the vocabulary."""

    # Shards
    tokens_per_shard: int = 10_000_000
    """Tokens in each shard; by default more where there would be over 10,000 shards."""
    val_fraction: float = 0.1
    """Share of the documents held out as val/; 0 for none."""
    compress: str | None = None
    """Compress the shards: zstd or zstd:LEVEL, 1 (fast) to 22 (small); none does not."""

    # Cleaning
    clean: bool = False
    """Clean the text: Unicode NFC, line ends, surplus blanks and empty lines; without it, the text
    is left as it is."""
    dedup: Literal["none", "lines", "documents"] = "none"
    """Drop what was seen before, across all inputs."""
    dedup_min_chars: int = 16
    """Lines with fewer characters are never duplicates."""

    # Reading
    document_is: Literal["file", "line", "paragraph"] = "file"
    """What is one document in a text file."""
    separator: str | None = None
    """Cut text files into documents at this text."""
    text_field: str = "text"
    """Field or column that holds the text in .jsonl, .csv, .parquet and .arrow; or several, as in
    '{title}\\n\\n{body}'."""
    gitignore: bool = False
    """Leave out what git ignores in folders and globs, which must be in a checkout."""
    on_bad_input: Literal["error", "skip", "replace"] = "error"
    """What to do about text that cannot be read."""
    long_line: int = 8 << 20
    """Lines of more bytes are never duplicates, and a document of more may be encoded in pieces."""

    def __post_init__(self) -> None:
        one_of("dedup", self.dedup, ("none", "lines", "documents"))
        one_of("dtype", self.dtype, (None, "uint16", "uint32"))
        if self.tokens_per_shard < 1:
            raise ValueError(f"tokens_per_shard is {self.tokens_per_shard}, but must be at least 1")
        if not 0 <= self.val_fraction < 1:
            raise ValueError(f"val_fraction is {self.val_fraction}, but must be in [0, 1)")
        if self.dedup_min_chars < 0:
            raise ValueError(f"dedup_min_chars is {self.dedup_min_chars}, but must not be negative")
        object.__setattr__(self, "compress", checked_compression(self.compress))
        if not isinstance(self.tokenizer, str):
            from tokenmill.tokens.given_tokenizer import name_of

            object.__setattr__(self, "tokenizer", name_of(self.tokenizer, self.end_of_text))
        _ = self.read_rules  # which checks the other fields

    @property
    def compression_level(self) -> int | None:
        """Level of zstd; None for plain shards."""
        return None if self.compress is None else level_of(self.compress)

    @cached_property
    def read_rules(self) -> ReadRules:
        return ReadRules(
            document_is=self.document_is,
            separator=self.separator,
            text_field=self.text_field,
            on_bad_input=self.on_bad_input,
            long_line=self.long_line,
        )

    def to_json(self, *, for_manifest: bool = False) -> dict[str, Any]:
        """Plain values; in a manifest a tokenizer file has its name only, without folders."""
        tokenizer = os.path.basename(self.tokenizer) if for_manifest else self.tokenizer
        values = {**asdict(self), "tokenizer": tokenizer}
        return values if self.gitignore else {n: values[n] for n in values if n != "gitignore"}


def list_other_settings(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """List the settings that differ, one line each."""
    return [
        f"{name}   {theirs.get(name)!r} -> {ours.get(name)!r}"
        for name in {**ours, **theirs}
        if ours.get(name) != theirs.get(name)
    ]


@dataclass(frozen=True, kw_only=True)
class Run:
    """How a preparation runs, for `prepare(..., run=Run(max_ram="4G"))`; the result is the same.

    `retokenize`, `train_tokenizer` and the jobs take it too.
    """

    max_ram: int | str | None = None
    """Memory that all workers together stay within: bytes, or text such as "4G"."""
    engine: str | Executor = "local"
    """Where tasks run: `local` for processes of this machine, `ray` for a Ray cluster; or an
    `Executor` of your own, which is closed at the end."""
    ray_address: str | None = None
    """The cluster: `auto`, or HOST:PORT. Without it, Ray is started on this machine alone."""
    work_dir: str | os.PathLike[str] | None = None
    """Folder for the work where the dataset goes to `s3://`, `gs://` or `az://`; or a prefix in a
    bucket, such as `s3://bucket/tmp/job`: then machines need to share nothing else."""
    scratch: str | os.PathLike[str] | None = None
    """Folder on a disk of each machine for files on their way, where `work_dir` is in a bucket; by
    default that for temporary files."""
    max_scratch: int | str | None = None
    """Room that fetched files may take there: bytes, or text such as "20G"; by default 8 GiB."""
    break_lock: bool = False
    """Take the output over from a machine that is gone."""
    unit_bytes: int = UNIT_BYTES
    """Bytes of input that one task reads; more, where there would be over 16,384 units."""
    progress: Progress = field(default_factory=Progress, repr=False)
    """Shows stages and notes while they happen; by default nothing is shown."""

    def __post_init__(self) -> None:
        check_fields(self)
