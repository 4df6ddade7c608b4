"""Careful looks at files that others wrote: heads, sizes, JSON, and the names inside an index.

Nothing here trusts a claim: sizes come from the file system, JSON is read up to a cap, and a name
from an index is used only when it stays inside the dataset.
"""

import os
import stat
from pathlib import Path

from tokenmill.base.strict_json import Reader, check_name, parse_object
from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError

JSON_CAP = 64 << 20


def head(path: Path, length: int = 1024) -> tuple[bytes, int]:
    """The first bytes of a file, and its size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise missing(path) from None
    try:
        size = os.fstat(descriptor).st_size
        return os.pread(descriptor, min(length, size), 0), size
    except IsADirectoryError:
        raise FormatError(
            f"{path} is a folder in the place of a file", hint="open the folder by itself"
        ) from None
    finally:
        os.close(descriptor)


def read_whole(path: Path, *, cap: int = JSON_CAP) -> bytes:
    """A small file beside the tokens; one larger than the cap is refused unread."""
    data, size = head(path, cap)
    if size > cap:
        raise FormatError(
            f"{path} is {size:,} bytes; such a file has at most {cap:,}",
            hint="this is not the index of a token dataset",
        )
    return data


def read_json(path: Path) -> Reader:
    """A JSON object whose fields are asked for by name and type."""
    return Reader(parse_object(read_whole(path), str(path)), str(path))


class Root:
    """The folder of a dataset, and the files that its index names in it.

    A name is used only when it stays inside: plain, relative, and no link that leads out.
    """

    def __init__(self, folder: Path, index: Path) -> None:
        self.folder = folder
        self.index = index
        self._real = os.path.realpath(folder)
        self._checked = {str(folder)}

    def file(self, name: object) -> tuple[Path, int | None]:
        """The path of a named file, and its size; None when it is not there."""
        path = self.folder / check_name(name, str(self.index))
        parent = os.path.dirname(path)
        if parent not in self._checked:
            self._check(name, parent)
            self._checked.add(parent)
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                self._check(name, path)
                found = os.stat(path)
        except FileNotFoundError:
            return path, None
        return path, found.st_size

    def sized(self, name: object, expected: int) -> Path:
        """The path of a named file that must be there and have this size."""
        path, size = self.file(name)
        if size is None:
            raise missing(path, self.index)
        expect_size(path, size, expected, self.index.name)
        return path

    def _check(self, name: object, path: str | Path) -> None:
        # A link may point elsewhere inside the dataset, not out of it.
        real = os.path.realpath(path)
        if os.path.commonpath([self._real, real]) != self._real:
            raise FormatError(
                f"{self.index} names the file {name!r}, which is a link out of {self.folder}",
                hint="do not use this dataset: a link like this makes a program read other files",
            )


def file_size(path: Path, named_by: Path | None = None) -> int:
    """The size of a regular file that must be there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise missing(path, named_by) from None
    return found.st_size


def missing(path: Path, named_by: Path | None = None) -> NotADatasetError:
    """The error for a file that is not there."""
    by = f", which {named_by} names" if named_by else ""
    return NotADatasetError(
        f"there is no file {path}{by}", hint="fetch the missing file; nothing can stand in for it"
    )


def expect_size(path: Path, found: int, expected: int, why: str, hint: str | None = None) -> None:
    """A file must be exactly as long as what it claims to hold."""
    if found < expected:
        raise too_short(path, found, expected, why, hint)
    if found > expected:
        raise CorruptShardError(
            f"{path} is {found:,} bytes; {why} promises {expected:,}",
            hint=hint or "there are bytes that nothing accounts for; fetch this file again",
        )


def too_short(
    path: Path, found: int, expected: int, why: str, hint: str | None = None
) -> TruncatedShardError:
    """The error for a file that holds less than it should."""
    return TruncatedShardError(
        f"{path} is {found:,} bytes; {why} promises {expected:,}",
        hint=hint or "the file was cut short, or its header lies; fetch this file again",
    )


def empty(path: Path) -> FormatError:
    """The error for a file of no bytes, where its first ones would tell the token type."""
    return FormatError(
        f"{path} is empty: 0 bytes, so that nothing tells its token type",
        hint="whatever wrote it was stopped or had nothing to write; write it again or remove it",
    )


def whole_tokens(path: Path, num_bytes: int, itemsize: int, dtype_name: str) -> int:
    """How many tokens a headerless run of bytes holds; a remainder is refused."""
    if num_bytes % itemsize:
        raise TruncatedShardError(
            f"{path} has {num_bytes:,} bytes of tokens, no multiple of {itemsize} ({dtype_name})",
            hint="the file was cut short, or its tokens are of another dtype",
        )
    return num_bytes // itemsize
