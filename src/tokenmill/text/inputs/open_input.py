"""An input file (`Source`), and the only place where `text/` opens, sizes or reads one.

Paths are plain strings (with surrogate escapes where a name is not UTF-8), or addresses such as
s3://bucket/key, which the room stores/ reads.
"""

import errno
import os
from dataclasses import dataclass
from typing import BinaryIO, cast

from tokenmill.base.address import is_remote
from tokenmill.errors import BadInputError, PrepareError

_FAILING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
TOKENS = "tokens"
UNREADABLE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP)


@dataclass(frozen=True)
class Source:
    """One input file."""

    path: str
    """Path or address to open; not part of any output."""
    name: str
    """Name in manifests and messages; unique, never absolute."""
    size: int
    mtime_ns: int
    kind: str
    """`text`, `jsonl`, `csv` or `parquet`; `tokens` for a split of a dataset that is decoded; or
    `unreadable`, where that is to be counted."""
    compression: str | None
    """None, `gzip`, `zstd`, `xz` or `bzip2`."""
    split: str | None = None
    """Validation set that the whole file is held out for; None for all other inputs."""

    def changed_after(self, moment: int) -> bool:
        """Return True if the file was written after this time, in nanoseconds.

        The time of a file may be in the future: then the time of its inode, which only the kernel
        sets, decides.
        """
        if self.mtime_ns <= moment or is_remote(self.path):
            return self.mtime_ns > moment
        return os.stat(self.path).st_ctime_ns > moment


def stat(path: str) -> tuple[int, int]:
    """Return size and time of change, or raise PrepareError (DownloadError) naming the file."""
    if is_remote(path):
        from tokenmill.stores import objects

        about = objects.stat(path)
        return about.size, about.stamp
    try:
        found = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    return found.st_size, found.st_mtime_ns


def open_binary(path: str) -> BinaryIO:
    """Open a file for unbuffered reading; callers ask for large blocks."""
    if is_remote(path):
        from tokenmill.stores.object_file import ObjectFile

        return cast(BinaryIO, ObjectFile(path))
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise cannot_read(path, error) from error


def read_range(path: str, start: int, stop: int) -> bytes:
    """Return the bytes start..stop of a file; fewer only where the file ends."""
    if is_remote(path):
        from tokenmill.stores.object_file import read_range as read_remote

        return read_remote(path, start, stop)
    with open_binary(path) as file:
        file.seek(start)
        return read_full(file, stop - start)


def read_full(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes from the current position; fewer only at the end of the file."""
    blocks = []
    try:
        while size and (block := file.read(size)):
            blocks.append(block)
            size -= len(block)
    except OSError as error:
        raise cannot_read(file.name, error) from error
    return b"".join(blocks)


def cannot_read(path: str, error: OSError) -> PrepareError:
    """Return the error for a file that is missing, not readable, or on a failing disk."""
    shown = printable(path)
    hint = "check that the file is there and that you may read it"
    if error.errno in _FAILING:
        hint = "the disk or the network is failing; give the command again when it is repaired"
    return PrepareError(f"cannot read {shown}: {error.strerror or error}", hint=hint, source=shown)


def bad_file(name: str, what: str, *, hint: str = "fetch or make this file again") -> BadInputError:
    """Return the error for a file that is not what it should be: `what` follows its name."""
    return BadInputError(f"{name} {what}", hint=hint, source=name)


def printable(path: str) -> str:
    """Make a path safe for a message: no control characters, no undecodable bytes."""
    return path if path.isprintable() else ascii(path)[1:-1]
