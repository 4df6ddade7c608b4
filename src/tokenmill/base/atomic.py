"""Files of a dataset: names that stay inside it, writes that are whole or not there at all."""

import os
import re
import secrets
from pathlib import Path

import xxhash

from tokenmill.errors import FormatError

_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_TEMPORARY = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp", re.DOTALL)
_BLOCK = 1 << 20


def check_name(name: object, where: str) -> str:
    """Return the name if it is relative, plain and inside its folder; else FormatError."""
    if (
        not isinstance(name, str)
        or _NAME.fullmatch(name) is None
        or any(part in (".", "..") or len(part) > 255 for part in name.split("/"))
        or len(name) > 1024
    ):
        raise FormatError(
            f"{where} names the file {name!r:.200}, which is not a plain name inside the dataset",
            hint="names are made of letters, digits, '.', '_', '-' and '/', without '..'",
        )
    return name


def write_atomically(path: Path | str, data: bytes) -> None:
    """Write so that `path` holds all of `data` or is untouched, also if the power fails.

    A new file beside it (never through a link that lies in the way), flushed, then renamed.
    """
    path = Path(path)
    temporary = temporary_beside(path)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def temporary_beside(path: Path) -> Path:
    """A name in the same folder that nobody else uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_temporary(name: str) -> bool:
    """Whether `temporary_beside` made this name."""
    return _TEMPORARY.fullmatch(name) is not None


def sync_folder(folder: Path) -> None:
    """Make renames in this folder last. Some systems cannot open a folder; they need no sync."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path | str) -> None:
    """Make what was written to this file last; a failure here means that it may be lost."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hash_file(path: Path | str) -> str:
    """xxh3-128 of all bytes, as hex."""
    digest = xxhash.xxh3_128()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def hash_open(descriptor: int) -> str:
    """The same of an open file, wherever it stands."""
    digest, at = xxhash.xxh3_128(), 0
    while block := os.pread(descriptor, _BLOCK, at):
        digest.update(block)
        at += len(block)
    return digest.hexdigest()
