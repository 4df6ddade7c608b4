"""Careful looks at files that others wrote: first bytes, sizes, JSON, names inside an index.

Nothing here trusts a claim: sizes come from the file system, JSON is read up to a limit, and a name
from an index is used only when it stays inside the dataset.
"""

import mmap
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tokenmill.base.descriptors import read_at
from tokenmill.base.hashing import regular
from tokenmill.base.strict_json import Form, check_fields, parse_object
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    NotADatasetError,
    TruncatedShardError,
    UnsupportedVersionError,
)
from tokenmill.reading.token_file import Dtype, Lazy

JSON_LIMIT = 64 << 20
MIRRORED = "/tokenmill-objects-"
"""In the path of a file that shows an object of a store (remote.py)."""
HEAD_BYTES = 128 << 10
"""The first bytes of an object that its file in a mirror holds."""


def open_first(path: Path, length: int) -> BinaryIO:
    """Open a regular file, of which the first `length` bytes will be read, also in a mirror."""
    if length > HEAD_BYTES and MIRRORED in str(path):
        from tokenmill.formats.remote import open_object

        return open_object(path)
    return open(path, "rb", buffering=0, opener=regular)


def head(path: Path, length: int = 1024) -> tuple[bytes, int]:
    """Return the first bytes of a file, and its size."""
    try:
        with open_first(path, length) as file:
            size = os.fstat(file.fileno()).st_size
            return read_at(file.fileno(), min(length, size), 0), size
    except FileNotFoundError:
        raise missing(path) from None
    except IsADirectoryError:
        raise FormatError(
            f"{path} is a folder in the place of a file", hint="open the folder by itself"
        ) from None


def map_file(path: Path, length: int, why: str, file: BinaryIO | None = None) -> mmap.mmap:
    """Map the first `length` bytes, or more, of a file; `file` is its content if compressed."""
    with file or open_first(path, length) as opened:
        expect_at_least(path, os.fstat(opened.fileno()).st_size, length, why)
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def ends_file(path: Path | str, count: int) -> Lazy:
    """Where documents end: `count` uint64 in a file, mapped when they are first needed."""
    return Lazy(map_ends, (str(path), count), count, str(path))


def map_ends(path: str, count: int) -> np.ndarray:
    """Return a read-only view; as int64, since no position comes near 2^63."""
    if count == 0:
        return np.empty(0, np.int64)
    why = "the dataset as it was opened"
    mapped = map_file(Path(path), 8 * count, why)
    expect_size(Path(path), len(mapped), 8 * count, why)
    return np.frombuffer(mapped, "<i8", count=count)


def read_whole(path: Path, *, limit: int = JSON_LIMIT) -> bytes:
    """Return the bytes of a small file; one larger than the limit is refused unread."""
    data, size = head(path, limit)
    if size > limit:
        raise FormatError(
            f"{path} is {size:,} bytes; such a file has at most {limit:,}",
            hint="this is not the index of a token dataset",
        )
    return data


def read_json(path: Path, form: Form) -> dict[str, Any]:
    """Return a JSON object that has at least the fields of this form."""
    tree = parse_object(read_whole(path), str(path))
    check_fields(tree, form, str(path), others=True)
    return tree


def version_of(path: Path) -> tuple[str, str]:
    """Return what names a file and its present content: address and ETag of what a mirror shows."""
    if MIRRORED in str(path):
        from tokenmill.formats.remote import object_at

        shown, _ = object_at(path)
        return shown.address, shown.etag
    about = path.stat()
    return str(path), f"{about.st_size}-{about.st_mtime_ns}-{about.st_ino}"


class Root:
    """The folder of a dataset, and the files that its index names in it.

    base/strict_json.py let plain, relative names pass; a link out of the folder is refused here.
    """

    def __init__(self, folder: Path, index: Path) -> None:
        self.folder = folder
        self.index = index
        self._real = os.path.realpath(folder)
        self._inside = {str(folder)}

    def path(self, name: str, size: int) -> str:
        """Return the path of a named file, which must be there and have this size."""
        path = f"{self.folder}/{name}"
        parent = path.rpartition("/")[0]
        if parent not in self._inside:
            self._refuse_link_out(name, parent)
            self._inside.add(parent)
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                self._refuse_link_out(name, path)
                about = os.stat(path)
        except FileNotFoundError:
            raise missing(Path(path), self.index) from None
        if about.st_size != size:
            expect_size(Path(path), about.st_size, size, self.index.name)
        return path

    def _refuse_link_out(self, name: str, path: str) -> None:
        # A link may point elsewhere inside the dataset, not out of it.
        real = os.path.realpath(path)
        if os.path.commonpath([self._real, real]) != self._real:
            raise FormatError(
                f"{self.index} names the file {name!r}, which is a link out of {self.folder}",
                hint="do not use this dataset: a link like this makes a program read other files",
            )


def file_size(path: Path, named_by: Path | None = None) -> int:
    """Return the size of a file that must be there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        raise missing(path, named_by) from None


def missing(path: Path, named_by: Path | None = None) -> NotADatasetError:
    """Return the error for a file that is not there."""
    by = f", which {named_by} names" if named_by else ""
    return NotADatasetError(
        f"there is no file {path}{by}", hint="fetch the missing file; nothing can replace it"
    )


def expect_version(path: Path, stated: int, expected: int) -> None:
    """Refuse another version of a format."""
    if stated != expected:
        raise UnsupportedVersionError(
            f"{path} is of version {stated:,}; known is {expected}",
            hint="the file is damaged, or its format is newer than this tokenmill",
        )


def expect_at_least(path: Path, size: int, least: int, why: str) -> None:
    """Refuse a file that cannot hold what it claims to."""
    if size < least:
        raise TruncatedShardError(
            f"{path} is {size:,} bytes; {why} promises {least:,}",
            hint="the file was cut short, or its header is wrong; fetch this file again",
        )


def expect_size(path: Path, size: int, expected: int, why: str) -> None:
    """Refuse a file that is not exactly as long as what it claims to hold."""
    expect_at_least(path, size, expected, why)
    if size > expected:
        raise CorruptShardError(
            f"{path} is {size:,} bytes; {why} promises {expected:,}",
            hint="there are bytes that nothing accounts for; fetch this file again",
        )


def damaged(path: Path | str, what: str) -> CorruptShardError:
    """Return the error for a file that contradicts itself."""
    return CorruptShardError(f"{path} {what}", hint="the file is damaged; fetch or write it again")


def mixed(path: Path | str, what: str) -> CorruptShardError:
    """Return the error for a file that contradicts the one next to it."""
    hint = "tokens and index are of different builds, or one was cut; fetch or write both again"
    return CorruptShardError(f"{path} {what}", hint=hint)


def whole_tokens(path: Path, num_bytes: int, dtype: Dtype) -> int:
    """Return the number of tokens in a headerless run of bytes; a remainder is refused."""
    if num_bytes % dtype.itemsize:
        raise TruncatedShardError(
            f"{path} has {num_bytes:,} bytes of tokens, no multiple of {dtype.itemsize} "
            f"({dtype.name})",
            hint="the file was cut short, or its tokens are of another dtype",
        )
    return num_bytes // dtype.itemsize
