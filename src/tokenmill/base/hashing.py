"""Regular files and their hashes.

Opening a pipe would wait for its writer, and a device never ends; so files of strangers are opened
with `open(path, "rb", opener=regular)`.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Protocol

import xxhash

from tokenmill.base.descriptors import open_descriptor, read_at, without_waiting
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
        descriptor = open_descriptor(path, without_waiting(flags))
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
