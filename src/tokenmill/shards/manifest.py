"""The manifest of a dataset: what it holds, file by file, and how it was made. See format.md.

It is written last, so a folder without one is not a dataset. It is untrusted input: every field
is checked before anything is opened by it, and the sums in it must agree. It holds no clock, host
name, worker count or absolute path: equal inputs and settings give equal bytes.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
import xxhash

from tokenmill.base.address import is_remote, join
from tokenmill.base.atomic import write_atomically
from tokenmill.base.hashing import regular
from tokenmill.base.strict_json import (
    COUNT,
    COUNT_FROM_1,
    HEX128,
    OBJECT,
    TEXT,
    Maybe,
    Value,
    check_fields,
    is_plain_name,
    parse_object,
    wrong,
)
from tokenmill.base.strict_json import FILE_NAME as NAME
from tokenmill.errors import FormatError, NotADatasetError, UnsupportedVersionError

STATE_FILE_NAME = "tokenizer_state.json"
PACKED_SUFFIX = ".zst"
LEVELS = range(1, 23)
USUAL_LEVEL = 3
NONE = "none"
FILE_NAME = "dataset_metadata.json"
PREPARATION_FOLDER = ".preparation"
FORMAT = "tokenmill"
FORMAT_VERSION = 1
MAX_BYTES = 256 << 20
ITEM_SIZE = {"uint16": 2, "uint32": 4}
_LAST_LINE = b"\n}\n"
_HASH_FIELD = ',\n  "xxh3_128": "%s"\n}\n'  # how a manifest ends

_FILE = {"file": NAME, "bytes": COUNT, "xxh3_128": HEX128}
_PACKABLE = {**_FILE, "packed": Maybe(_FILE)}
_FORMER = Maybe(Value(lambda value: value == "" or HEX128.test(value), "32 hex digits, or none"))
_COLUMN = {"name": TEXT, "bits": COUNT_FROM_1, **_PACKABLE, "former": _FORMER}
_SHARD = {
    **_PACKABLE,
    "tokens": COUNT,
    "ends": {**_PACKABLE, "documents": COUNT},
    "columns": Maybe([_COLUMN]),
    "former": _FORMER,
}
_FACTS = {**_FILE, "documents": COUNT}
_SPLIT = {"tokens": COUNT, "documents": COUNT, "shards": [_SHARD], "facts": Maybe(_FACTS)}
_TOKENIZER = {
    "name": TEXT,
    "vocab_size": COUNT,
    "end_of_text_id": COUNT,
    "fingerprint": Maybe(HEX128),
    "state": Maybe(_FILE),
    "begin_token_id": Maybe(COUNT),
}
_SOURCE = {"name": TEXT, "bytes": COUNT, "documents": COUNT, "files": Maybe(COUNT_FROM_1)}
_VERSION = {"format": TEXT, "format_version": COUNT_FROM_1}
_MANIFEST = {
    **_VERSION,
    "dtype": Value(ITEM_SIZE.__contains__, f"one of {', '.join(ITEM_SIZE)}"),
    "tokenizer": _TOKENIZER,
    "tokens_per_shard": COUNT_FROM_1,
    "splits": Value(lambda splits: isinstance(splits, dict), "an object"),
    "sources": [_SOURCE],
    "sources_file": Maybe(_FILE),
    "removed": Maybe(_FILE),
    "forgotten": Maybe(_FILE),
    "settings": OBJECT,
    "accounts": OBJECT,
    "xxh3_128": HEX128,
}


class Entry:
    """A part of the manifest: `num_tokens` is written under the key `tokens`, None not at all."""

    __slots__: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        fields = {name.removeprefix("num_"): getattr(self, name) for name in self.__slots__}
        tree = {key: value for key, value in fields.items() if value is not None}
        for key, value in tree.items():
            if isinstance(value, Entry):
                tree[key] = value.to_json()
            elif isinstance(value, tuple):
                tree[key] = [entry.to_json() for entry in value]
            elif isinstance(value, dict):
                entries = value.items()
                tree[key] = {k: v.to_json() if isinstance(v, Entry) else v for k, v in entries}
        return tree

    @classmethod
    def from_json(cls, tree: Mapping[str, Any]) -> Self:
        """The opposite of `to_json`, for fields that were checked."""
        values = []
        for name in cls.__slots__:
            value = tree.get(name.removeprefix("num_"))
            if isinstance(value, dict) and name in _PARTS:
                value = _PARTS[name].from_json(value)
            elif isinstance(value, list):
                value = tuple(map(_PARTS[name].from_json, value))
            values.append(value)
        return cls(*values)


class NamedFile(Entry):
    """A file of the dataset, with its hash."""

    __slots__ = ()
    file: str
    num_bytes: int
    xxh3_128: str
    packed: "FileEntry | None" = None
    """The compressed file that is there instead; the other fields are of its content."""

    @property
    def on_disk(self) -> "NamedFile":
        """The file that is there."""
        return self.packed or self


@dataclass(frozen=True, slots=True)
class FileEntry(NamedFile):
    """A file as it is on the disk."""

    file: str
    num_bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True)
class FactsEntry(NamedFile):
    """The facts of the documents of a split: a Parquet file with a row for each."""

    file: str
    num_documents: int
    num_bytes: int
    xxh3_128: str


@dataclass(frozen=True, slots=True)
class EndsEntry(NamedFile):
    """The index of a shard: a file that says where documents end in it."""

    file: str
    num_documents: int
    num_bytes: int
    xxh3_128: str
    packed: FileEntry | None = None


@dataclass(frozen=True, slots=True)
class ColumnEntry(NamedFile):
    """A column of the tokens of a shard: a file with so many bits for each of them."""

    name: str
    bits: int
    file: str
    num_bytes: int
    xxh3_128: str
    packed: FileEntry | None = None
    former: str | None = None
    """Its hash before documents were forgotten, empty if it was not there: for fingerprints."""


@dataclass(frozen=True, slots=True)
class ShardEntry(NamedFile):
    """One file of ids, its index and its columns."""

    file: str
    num_tokens: int
    num_bytes: int
    xxh3_128: str
    ends: EndsEntry
    packed: FileEntry | None = None
    columns: tuple[ColumnEntry, ...] | None = None
    former: str | None = None
    """The hash of its ids before documents were forgotten."""

    @property
    def contents(self) -> tuple[NamedFile, ...]:
        """All files of the shard: ids, index, columns."""
        return self, self.ends, *(self.columns or ())

    @property
    def files(self) -> list[NamedFile]:
        """The same as they are there."""
        return [entry.on_disk for entry in self.contents]


@dataclass(frozen=True, slots=True)
class SplitEntry(Entry):
    """`train`, `val`, `val_code`...: shards in order, as one axis of tokens."""

    num_tokens: int
    num_documents: int
    shards: tuple[ShardEntry, ...]
    facts: FactsEntry | None = None

    @classmethod
    def of(cls, shards: tuple[ShardEntry, ...], facts: FactsEntry | None = None) -> "SplitEntry":
        """A split of these shards, with its sums."""
        tokens = sum(shard.num_tokens for shard in shards)
        return cls(tokens, sum(shard.ends.num_documents for shard in shards), shards, facts)


@dataclass(frozen=True, slots=True)
class TokenizerEntry(Entry):
    """Which tokenizer the ids belong to."""

    name: str
    vocab_size: int
    end_of_text_id: int
    fingerprint: str | None = None
    state: FileEntry | None = None  # of ids that were made elsewhere, nobody knows by what
    begin_token_id: int | None = None
    """The id before every document."""

    @classmethod
    def of(
        cls, tokenizer: Any, state: bytes, begin_token_id: int | None = None, folder: str = ""
    ) -> "TokenizerEntry":
        """The entry of this tokenizer; `state` is how it will be stored, in this folder."""
        name = folder + STATE_FILE_NAME
        stored = FileEntry(name, len(state), xxhash.xxh3_128_hexdigest(state))
        ids = (tokenizer.vocab_size, tokenizer.end_of_text_id)
        return cls(tokenizer.name, *ids, tokenizer.fingerprint, stored, begin_token_id)


@dataclass(frozen=True, slots=True)
class SourceEntry(Entry):
    """A file the text came from, or a folder of many. `name` is for users: it is never opened."""

    name: str
    """A byte of a file name that is not UTF-8 is written out, as in `caf\\xe9.txt`."""
    num_bytes: int
    num_documents: int
    num_files: int | None = None
    """Of a folder: how many files came from it."""

    def __post_init__(self) -> None:
        readable = self.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        object.__setattr__(self, "name", readable)


@dataclass(frozen=True, slots=True)
class Manifest(Entry):
    """All of `dataset_metadata.json`."""

    dtype: str
    tokenizer: TokenizerEntry
    tokens_per_shard: int
    splits: Mapping[str, SplitEntry]
    sources: tuple[SourceEntry, ...] = ()
    sources_file: FileEntry | None = None
    """Where `sources` are folders: the file that lists all inputs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, Any] = field(default_factory=dict)
    removed: FileEntry | None = None
    """Where rules left out documents: the file that lists these."""
    forgotten: FileEntry | None = None
    """Where documents were forgotten: the file that certifies it."""

    def to_bytes(self) -> bytes:
        """Return the bytes of the file: the content, with its hash as the last field."""
        content = self._content()
        hash_field = _HASH_FIELD % xxhash.xxh3_128_hexdigest(content)
        return content.removesuffix(_LAST_LINE) + hash_field.encode()

    @property
    def digest(self) -> str:
        """The hash that the file holds of itself."""
        return xxhash.xxh3_128_hexdigest(self._content())

    def _content(self) -> bytes:
        """Canonical JSON: fixed order of keys, UTF-8, a newline at the end; without the hash."""
        tree = {"format": FORMAT, "format_version": FORMAT_VERSION, **self.to_json()}
        return orjson.dumps(tree, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    @property
    def shards(self) -> list[ShardEntry]:
        """All shards, split after split."""
        return [shard for split in self.splits.values() for shard in split.shards]

    @property
    def is_packed(self) -> bool:
        """True if some of the files are compressed."""
        return any(file.packed for shard in self.shards for file in shard.contents)

    def write(self, folder: Path | str) -> None:
        """Check, then put the manifest into its folder, whole or not at all."""
        data = self.to_bytes()
        Manifest.parse(data, where=FILE_NAME)
        write_atomically(Path(folder) / FILE_NAME, data)

    @classmethod
    def load(cls, where: str | os.PathLike[str]) -> "Manifest":
        """Read and check the manifest of this folder, or of the dataset at this address."""
        if (manifest := cls.find(where)) is not None:
            return manifest
        if is_remote(where):
            raise NotADatasetError(f"there is no {join(os.fspath(where), FILE_NAME)}")
        folder = Path(where)
        if not folder.exists():
            raise NotADatasetError(f"{folder} does not exist")
        if not folder.is_dir():
            raise NotADatasetError(f"{folder} is not a folder, so it is no dataset of tokenmill")
        hint = "tokenmill prepare INPUT... -o OUT makes a dataset"
        if (folder / PREPARATION_FOLDER).is_dir():
            hint = (
                "its preparation was stopped before it was done; "
                "the same `tokenmill prepare` command resumes it"
            )
        raise NotADatasetError(f"{folder} has no {FILE_NAME}", hint=hint)

    @classmethod
    def find(cls, where: str | os.PathLike[str]) -> "Manifest | None":
        """The same; None where there is no manifest."""
        file = join(os.fspath(where), FILE_NAME)
        if is_remote(where):
            from tokenmill.stores import objects

            data = objects.read_all(file, at_most=MAX_BYTES)
            return None if data is None else cls.parse(data, where=file)
        try:
            with open(file, "rb", opener=regular) as opened:
                data = opened.read(min(os.fstat(opened.fileno()).st_size, MAX_BYTES) + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return cls.parse(data, where=file)

    @classmethod
    def parse(cls, data: bytes, *, where: str = FILE_NAME) -> "Manifest":
        """Check these bytes; `where` is what errors call them."""
        if len(data) > MAX_BYTES:
            raise FormatError(f"{where} is larger than {MAX_BYTES >> 20} MB, so it is no manifest")
        tree = parse_object(data, where)
        check_fields(tree, _VERSION, where, others=True)  # another version may have other fields
        if tree["format"] != FORMAT:
            raise FormatError(f"{where} says format {tree['format']!r}, not {FORMAT!r}")
        if tree["format_version"] != FORMAT_VERSION:
            raise UnsupportedVersionError(
                f"{where} is of format version {tree['format_version']}; this tokenmill reads "
                f"{FORMAT_VERSION}",
                hint="pip install --upgrade tokenmill",
            )
        check_fields(tree, _MANIFEST, where)
        for name, split in tree["splits"].items():
            if "/" in name or not is_plain_name(name):
                raise wrong(where, f"splits.{name}", name, "a plain name without '/'")
            check_fields(split, _SPLIT, where, f"splits.{name}")
        stated = tree["xxh3_128"]
        content = data.removesuffix((_HASH_FIELD % stated).encode()) + _LAST_LINE
        if (digest := xxhash.xxh3_128_hexdigest(content)) != stated:
            raise FormatError(
                f"{where} was changed after it was written: its hash is {digest}, but it states "
                f"{stated}",
                hint="fetch this file again, or prepare the dataset again",
            )
        splits = {name: SplitEntry.from_json(split) for name, split in tree["splits"].items()}
        manifest = cls.from_json({**tree, "splits": splits})
        for name, value, expected in manifest._contradictions():
            raise wrong(where, name, value, expected)
        # Without regard to case: on some disks `A.bin` and `a.bin` are one file.
        seen = {FILE_NAME.lower()}
        for name in manifest.files():
            if name.lower() in seen:
                raise FormatError(f"{where} names the file {name!r} twice")
            seen.add(name.lower())
        return manifest

    def _contradictions(self) -> Iterator[tuple[str, object, str]]:
        """Yield fields that contradict others: name, value, and what is expected."""
        vocab_size = self.tokenizer.vocab_size
        end = self.tokenizer.end_of_text_id
        begin = self.tokenizer.begin_token_id
        if begin is not None and (begin >= vocab_size or begin == end):
            expected = f"less than vocab_size {vocab_size} and another than end_of_text_id"
            yield "tokenizer.begin_token_id", begin, expected
        if end >= vocab_size:
            yield "tokenizer.end_of_text_id", end, f"less than vocab_size {vocab_size}"
        if vocab_size > 256 ** ITEM_SIZE[self.dtype]:
            yield "tokenizer.vocab_size", vocab_size, f"small enough for dtype {self.dtype}"
        for name, split in self.splits.items():
            for number, shard in enumerate(split.shards):
                for key, value, expected in self._contradictions_in(shard):
                    yield f"splits.{name}.shards[{number}].{key}", value, expected
            if (facts := split.facts) and facts.num_documents != split.num_documents:
                at = f"splits.{name}.facts.documents"
                yield at, facts.num_documents, f"{split.num_documents}, those of the split"
            sums = SplitEntry.of(split.shards)
            for key in ("num_tokens", "num_documents"):
                if (stated := getattr(split, key)) != (found := getattr(sums, key)):
                    at = f"splits.{name}.{key.removeprefix('num_')}"
                    yield at, stated, f"{found}, the sum of its shards"
        if any(shard.columns is not None for shard in self.shards):
            from tokenmill.shards.column_files import contradictions

            yield from contradictions(self.shards)

    def _contradictions_in(self, shard: ShardEntry) -> Iterator[tuple[str, object, str]]:
        ends = shard.ends
        tokens = shard.num_tokens
        item_size = ITEM_SIZE[self.dtype]
        if not 1 <= tokens <= self.tokens_per_shard:
            expected = f"at least 1 and at most tokens_per_shard {self.tokens_per_shard}"
            yield "tokens", tokens, expected
        if shard.num_bytes != tokens * item_size:
            yield "bytes", shard.num_bytes, f"{item_size} x {tokens} tokens"
        if ends.num_bytes != 8 * ends.num_documents:
            yield "ends.bytes", ends.num_bytes, f"8 x {ends.num_documents} documents"
        if ends.num_documents > tokens:
            yield "ends.documents", ends.num_documents, f"at most one for each of {tokens}"
        for key, file in zip(("", "ends."), shard.contents, strict=False):
            if file.packed and file.packed.file != (name := file.file + PACKED_SUFFIX):
                yield f"{key}packed.file", file.packed.file, name

    @property
    def files_beside_shards(self) -> list[NamedFile]:
        """The stored tokenizer, facts, and lists of sources, removed and forgotten documents."""
        facts = [split.facts for split in self.splits.values()]
        others = (self.tokenizer.state, self.sources_file, self.removed, self.forgotten)
        return [file for file in (*others, *facts) if file]

    def files(self) -> list[str]:
        """Every file that is there by the manifest, in order; the manifest itself is not one."""
        names = [entry.file for entry in self.files_beside_shards]
        return names + [file.file for shard in self.shards for file in shard.files]


_PARTS: dict[str, type[Entry]] = {
    "tokenizer": TokenizerEntry,
    "state": FileEntry,
    "packed": FileEntry,
    "ends": EndsEntry,
    "columns": ColumnEntry,
    "shards": ShardEntry,
    "facts": FactsEntry,
    "sources": SourceEntry,
    "sources_file": FileEntry,
    "removed": FileEntry,
    "forgotten": FileEntry,
}


def dtype_for(vocab_size: int) -> str:
    """The smallest stored type that holds every id: uint16 up to 65,536 ids, else uint32."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def checked_compression(asked: str | None) -> str | None:
    """Return the full name of a compression, such as `zstd:3`; None for no compression.

    >>> checked_compression("zstd")
    'zstd:3'
    """
    if asked is None or asked == NONE:
        return None
    codec, _, level = asked.partition(":")
    level = level or str(USUAL_LEVEL)
    if codec != "zstd" or not level.isdecimal() or int(level) not in LEVELS or asked[-1] == ":":
        raise ValueError(
            f"compress is {asked!r}; it must be zstd, zstd:LEVEL with a level from {LEVELS[0]} to "
            f"{LEVELS[-1]}, or {NONE}"
        )
    return f"{codec}:{int(level)}"


def level_of(compression: str) -> int:
    """Return the level in a full name."""
    return int(compression.partition(":")[2])
