"""What a manifest says about one file, shard, split, tokenizer or source.

`manifest.py` checks their JSON, field by field; here are the values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import xxhash

STATE_FILE_NAME = "tokenizer_state.json"
PACKED_SUFFIX = ".zst"
LEVELS = range(1, 23)
USUAL_LEVEL = 3
NONE = "none"


class Entry:
    """A part of the manifest; a count such as `num_tokens` is written under the key `tokens`.

    What is None is not written.
    """

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


@dataclass(frozen=True, slots=True)
class FileEntry(NamedFile):
    """A file as it is on the disk."""

    file: str
    num_bytes: int
    xxh3_128: str


class PackableEntry(NamedFile):
    """A file that may be compressed."""

    __slots__ = ()
    packed: FileEntry | None
    """The compressed file that is there instead; the other fields are of its content."""

    @property
    def on_disk(self) -> NamedFile:
        """The file that is there."""
        return self.packed or self


@dataclass(frozen=True, slots=True)
class EndsEntry(PackableEntry):
    """The index of a shard: a file that says where documents end in it."""

    file: str
    num_documents: int
    num_bytes: int
    xxh3_128: str
    packed: FileEntry | None = None


@dataclass(frozen=True, slots=True)
class ShardEntry(PackableEntry):
    """One file of ids and its index."""

    file: str
    num_tokens: int
    num_bytes: int
    xxh3_128: str
    ends: EndsEntry
    packed: FileEntry | None = None

    @property
    def files(self) -> tuple[NamedFile, NamedFile]:
        """Both files of the shard, as they are there."""
        return self.on_disk, self.ends.on_disk


@dataclass(frozen=True, slots=True)
class SplitEntry(Entry):
    """`train`, `val`, `val_code`...: shards in order, as one axis of tokens."""

    num_tokens: int
    num_documents: int
    shards: tuple[ShardEntry, ...]

    @classmethod
    def of(cls, shards: tuple[ShardEntry, ...]) -> "SplitEntry":
        """A split of these shards, with its sums."""
        tokens = sum(shard.num_tokens for shard in shards)
        return cls(tokens, sum(shard.ends.num_documents for shard in shards), shards)


@dataclass(frozen=True, slots=True)
class TokenizerEntry(Entry):
    """Which tokenizer the ids belong to."""

    name: str
    vocab_size: int
    end_of_text_id: int
    fingerprint: str
    state: FileEntry
    begin_token_id: int | None = None
    """The id before every document."""

    @classmethod
    def of(
        cls, tokenizer: Any, state: bytes, begin_token_id: int | None = None
    ) -> "TokenizerEntry":
        """The entry of this tokenizer; `state` is how it will be stored."""
        stored = FileEntry(STATE_FILE_NAME, len(state), xxhash.xxh3_128_hexdigest(state))
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


_PARTS: dict[str, type[Entry]] = {
    "tokenizer": TokenizerEntry,
    "state": FileEntry,
    "packed": FileEntry,
    "ends": EndsEntry,
    "shards": ShardEntry,
    "sources": SourceEntry,
    "sources_file": FileEntry,
}


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
