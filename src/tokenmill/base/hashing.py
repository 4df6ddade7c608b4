"""Regular files and their hashes.

Opening a pipe would wait for its writer, and a device never ends; so files of strangers are opened
with `open(path, "rb", opener=regular)`.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Any, Protocol

import orjson
import xxhash

from tokenmill.base.atomic import was_written_after
from tokenmill.base.descriptors import open_descriptor, read_at
from tokenmill.errors import FormatError

BLOCK_BYTES = 1 << 20
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Hasher(Protocol):
    """The part of a hashlib or xxhash object that is used here."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def hash_file(path: Path | str, hasher: Hasher | None = None) -> str:
    """Return the hash of all bytes, as hex: xxh3-128, or that of the given hasher."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        return hash_open(file.fileno(), hasher)


def hash_open(descriptor: int, hasher: Hasher | None = None) -> str:
    """Return the hash of an open file; its position does not change."""
    hasher = hasher or xxhash.xxh3_128()
    start = 0
    while block := read_at(descriptor, BLOCK_BYTES, start):
        hasher.update(block)
        start += len(block)
    return hasher.hexdigest()


def regular(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a regular file, or raise FormatError; folders are left to the caller."""
    try:
        descriptor = open_descriptor(path, flags, wait=False)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        kind = stat.S_IFSOCK
    else:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind not in _KINDS:
            return descriptor
        os.close(descriptor)
    raise FormatError(
        f"{os.fspath(path)} is {_KINDS[kind]}, not a regular file",
        hint="tokens are read in any order, often twice; write them to a file first",
    )


def hash_sample(path: Path | str, size: int = 1 << 16) -> str:
    """Return the hash of the beginning, the middle and the end of a file."""
    hasher = xxhash.xxh3_128()
    with open(path, "rb", opener=regular) as file:
        length = os.path.getsize(path)
        for start in (0, length // 2, max(0, length - size)):
            file.seek(start)
            hasher.update(file.read(size))
    return hasher.hexdigest()


_MEASURES: Any = {"bytes": os.path.getsize, "sample": hash_sample, "xxh3_128": hash_file}


def record_of(text: Path | str) -> dict[str, Any]:
    """Return size and hashes of the text that an array is made from, to be stored next to it."""
    return {name: measure(text) for name, measure in _MEASURES.items()}


def is_made_from(npy: Path, text: Path | str) -> bool:
    """Return True if an array is that of this text, by its record; without one, by the time."""
    try:
        record = orjson.loads(npy.with_suffix(".tokenizer_state.json").read_bytes())["text"]
    except (OSError, ValueError, KeyError, TypeError):
        return not was_written_after(text, npy.stat().st_mtime_ns)
    return all(record.get(name) == measure(text) for name, measure in _MEASURES.items())
