"""Careful looks at files that others wrote: heads, sizes, JSON, and the names inside an index.

Nothing here trusts a claim: sizes come from the file system, JSON is read up to a cap, and a name
from an index is used only when it stays inside the dataset.
"""

import os
import re
from pathlib import Path
from typing import Any

import orjson

from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError

JSON_CAP = 64 << 20
NAME = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


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


def read_json(path: Path) -> Any:
    """A JSON object, or a typed error that names the file."""
    try:
        # orjson refuses NaN and lone surrogates, and nesting too deep for it without a crash.
        value = orjson.loads(read_whole(path))
    except orjson.JSONDecodeError as error:
        raise CorruptShardError(
            f"{path} is not JSON: {error}", hint="the file is damaged or cut; fetch it again"
        ) from None
    if not isinstance(value, dict):
        raise CorruptShardError(f"{path} holds a {type(value).__name__}, not an object")
    return value


def inside(root: Path, name: object, index: Path) -> Path:
    """The path of a file that an index names; refused when it could lie outside the dataset."""
    problem = None
    if not isinstance(name, str) or not NAME.fullmatch(name):
        problem = "is not a plain relative name"
    elif any(part in (".", "..") for part in name.split("/")):
        problem = "leaves the dataset"
    elif not (root / name).resolve().is_relative_to(root.resolve()):
        problem = "is a link out of the dataset"
    if problem:
        raise FormatError(
            f"{index} names the file {str(name)[:200]!r}, which {problem}",
            hint="do not use this dataset: a name like this can make a program read other files",
        )
    return root / str(name)


def file_size(path: Path, named_by: Path | None = None) -> int:
    """The size of a regular file that must be there."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        by = f", which {named_by} names" if named_by else ""
        raise NotADatasetError(
            f"there is no file {path}{by}", hint="fetch the missing file; nothing can stand in for it"
        ) from None
    return found.st_size


def expect_size(path: Path, found: int, expected: int, why: str) -> None:
    """A file must be exactly as long as what it claims to hold."""
    if found < expected:
        raise TruncatedShardError(
            f"{path} is {found:,} bytes; {why} promises {expected:,}",
            hint="the file was cut short or its header lies; fetch this file again",
        )
    if found > expected:
        raise CorruptShardError(
            f"{path} is {found:,} bytes; {why} promises {expected:,}",
            hint="there are bytes that nothing accounts for; fetch this file again",
        )


def whole_tokens(path: Path, num_bytes: int, itemsize: int, dtype_name: str) -> int:
    """How many tokens a headerless run of bytes holds; a remainder is refused."""
    if num_bytes % itemsize:
        raise TruncatedShardError(
            f"{path} has {num_bytes:,} bytes of tokens, no multiple of {itemsize} ({dtype_name})",
            hint="the file was cut short, or its tokens are of another dtype",
        )
    return num_bytes // itemsize
