"""One file of token ids as a format describes it: where its tokens are, and where documents end.

Only a description: it is picklable, holds nothing open, and is all that a fork or another process
needs. shard_reader.py reads the tokens.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tokenmill.errors import CorruptShardError, TruncatedShardError

Dtype = np.dtype[Any]


@dataclass(frozen=True, slots=True)
class Lazy:
    """A table that is loaded when first needed: a function of a module and its arguments."""

    load: Callable[..., Any]
    args: tuple[Any, ...]
    count: int | None = None
    """Entries in the table, where the format says so without reading it."""
    file: str = ""
    """Where it is read from, for errors."""

    def __call__(self) -> Any:
        return self.load(*self.args)


class ManifestHashes(NamedTuple):
    """xxh3-128 of a file and of its index as hex, as a manifest names them."""

    tokens: str
    ends: str


class Packed(NamedTuple):
    """How a compressed file is on the disk."""

    num_bytes: int
    codec: str
    """`frames` (frames.py), or how another project compressed the file as one stream."""
    xxh3_128: str = ""
    """Of the compressed file; empty where nothing states it."""
    content_xxh3_128: str = ""
    """Of what is in it, where an index of another project states it."""


FRAMED = "frames"


class ColumnFile(NamedTuple):
    """A column of the tokens of a file (columns.py)."""

    name: str
    bits: int
    """Per token."""
    file: "TokenFile"
    """Its bytes: of the whole shard, also where only a part of the tokens is used."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """Where the tokens of one shard are."""

    path: str
    name: str
    """As shown to users and hashed into fingerprints: relative to the dataset."""
    dtype: Dtype
    num_tokens: int
    file_bytes: int
    """Size of the file when the dataset was opened; of a compressed one, that of its content."""
    offset: int = 0
    """Byte of the first token of the file."""
    first: int = 0
    """Tokens of the file that come before ours, when only a part of it is used."""
    partial: bool = False
    """Whether only a part of the file is used."""
    ends: Lazy | None = None
    """Loads where documents end in the file: sorted int64, in tokens, exclusive."""
    pieces: Lazy | None = None
    """Loads (starts, bytes) where headers are between the tokens: piece k holds the tokens
    starts[k] .. starts[k + 1] of the file, from byte bytes[k] on. None: one run."""
    hashes: ManifestHashes | None = None
    """What a manifest of ours promises; None without one."""
    former: str | None = None
    """The hash of its tokens before some were forgotten: the one in fingerprints."""
    stated_hash: str = ""
    """What else identifies the contents: the hash of an array in memory, or the hashes that an
    index of another project states (never compared with the bytes). Empty: nothing does."""
    etag: str = ""
    """What a store calls this version of the object, where the file is one without such hashes."""
    blocks: Lazy | None = None
    """Loads the hashes of its blocks (xxh3-64 of each 1 MiB), or None where there are none."""
    split: str | None = None
    """The split it belongs to by its manifest, if there is one."""
    columns: tuple[ColumnFile, ...] = ()
    """Values next to its tokens."""
    packed: Packed | None = None
    """Where the file is compressed: `path` is then the compressed file, and all other sizes, places
    and hashes are of its content."""

    @property
    def disk_bytes(self) -> int:
        """Size of the file as it is on the disk."""
        return self.file_bytes if self.packed is None else self.packed.num_bytes

    @property
    def known_contents(self) -> str:
        """What a fingerprint takes for the contents; empty where they must be sampled."""
        hashes = self.hashes
        if hashes is not None and self.former is not None:
            hashes = hashes._replace(tokens=self.former)
        contents = self.stated_hash if hashes is None else "".join(hashes)
        return contents + "".join(column.file.known_contents for column in self.columns)

    def part(self, start: int, stop: int) -> "TokenFile":
        """The tokens [start, stop) of ours."""
        if (start, stop) == (0, self.num_tokens):
            return self
        return replace(self, first=self.first + start, num_tokens=stop - start, partial=True)

    def check_size(self, found: int) -> None:
        """The file must still have the size that it had when the dataset was opened."""
        if found < self.disk_bytes:
            raise self.cut_short(found)
        if found != self.disk_bytes:
            raise CorruptShardError(
                f"{self.path} is {found:,} bytes; at opening it had {self.disk_bytes:,}",
                hint="something writes to this file; open the dataset again when it is finished",
            )

    def cut_short(self, found: int) -> TruncatedShardError:
        """The error for a file that is shorter than it was."""
        return TruncatedShardError(
            f"{self.path} is {found:,} bytes; at opening it had {self.disk_bytes:,}",
            hint="the file was cut short while in use; fetch it again, then open the dataset again",
        )


def index_state(file: TokenFile) -> object:
    """Return what changes when a file has another index: a hash, or the state of the index file."""
    if file.hashes is not None:
        return file.hashes.ends
    assert file.ends is not None
    names = (file.ends.file, *file.ends.args)
    paths = [name for name in names if isinstance(name, str) and os.path.isfile(name)]
    if paths:
        stats = [os.stat(path) for path in paths]
        return [(stat.st_size, stat.st_mtime_ns) for stat in stats]
    return hashlib.blake2b(file.ends().tobytes(), digest_size=16).hexdigest()


def check_hash(file: str, expected: str, found: str) -> None:
    """The bytes of a file must be those that its manifest names."""
    if found != expected:
        raise CorruptShardError(
            f"{file} has the hash {found}; its manifest promises {expected} (xxh3-128)",
            hint="the file is damaged or of another build; fetch it again, then run "
            "`tokenmill verify --full` on the dataset",
        )
