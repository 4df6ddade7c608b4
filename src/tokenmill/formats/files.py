"""Careful looks at files that others wrote: heads, sizes, JSON, and the names inside an index.

Nothing here trusts a claim: sizes come from the file system, JSON is read up to a cap, and a name
from an index is used only when it stays inside the dataset.
"""

import os
from pathlib import Path

from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError
from tokenmill.shards.files import check_name
from tokenmill.shards.strict import Reader, parse_object

JSON_CAP = 64 << 20


def head(path: Path, length: int = 1024) -> tuple[bytes, int]:
    """The first bytes of a file, and its size."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, length, 0), os.fstat(descriptor).st_size
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


def inside(folder: Path, name: object, index: Path, root: Path | None = None) -> Path:
    """The path of a file that an index names; refused when it could lie outside the dataset.

    `root` is the resolved folder, for those who ask many times.
    """
    path = folder / check_name(name, str(index))
    root = root or folder.resolve()
    linked = path.is_symlink() or path.parent != folder
    # A link may point elsewhere inside the dataset, not out of it.
    if linked and not path.resolve().is_relative_to(root):
        raise FormatError(
            f"{index} names the file {name!r}, which is a link out of {folder}",
            hint="do not use this dataset: a link like this makes a program read other files",
        )
    return path


def file_size(path: Path, named_by: Path | None = None) -> int:
    """The size of a regular file that must be there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        by = f", which {named_by} names" if named_by else ""
        raise NotADatasetError(
            f"there is no file {path}{by}",
            hint="fetch the missing file; nothing can stand in for it",
        ) from None
    return found.st_size


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


def whole_tokens(path: Path, num_bytes: int, itemsize: int, dtype_name: str) -> int:
    """How many tokens a headerless run of bytes holds; a remainder is refused."""
    if num_bytes % itemsize:
        raise TruncatedShardError(
            f"{path} has {num_bytes:,} bytes of tokens, no multiple of {itemsize} ({dtype_name})",
            hint="the file was cut short, or its tokens are of another dtype",
        )
    return num_bytes // itemsize
