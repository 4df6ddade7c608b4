"""Files that are whole or not there at all, and that survive a power failure.

A file is written under a temporary name in the same folder and renamed when it is complete. What
a killed process leaves under such a name is waste, and `is_temporary` knows it.
"""

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

from tokenmill.base.descriptors import (
    open_descriptor,
    rename,
    sync,
    sync_path,
    when_unused,
    written_ns,
)
from tokenmill.errors import TokenmillError

DAY = 24 * 60 * 60
_TEMPORARY = re.compile(r"\..+\.\d+-[0-9a-f]{8}\.tmp", re.DOTALL)


@contextmanager
def new_file(path: Path, *, durable: bool = False, make_folder: bool = True) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name only when it is whole.

    Until then it has a temporary name, and it is never reached through a symbolic link. `durable`
    syncs the file and its folder, so that it is also there after a power failure.
    """
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
    try:
        with open(open_descriptor(temporary, flags, follow=False), "w+b") as file:
            yield file
            if durable:
                sync_open_file(file, path)
        rename(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the name that the caller knows
        raise
    if durable:
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, if they are not there; their names are synced."""
    if not path.is_dir():
        make_folder(path.absolute().parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.absolute().parent)


def write_atomically(path: Path | str, data: bytes, *, durable: bool = True) -> None:
    """Write so that `path` holds all of `data` or is untouched."""
    with new_file(Path(path), durable=durable, make_folder=False) as file:
        file.write(data)


def keep(path: Path, data: bytes) -> None:
    """Write a small file unless it holds these bytes already.

    Several machines may come to the same conclusion. One that has the file open must not lose it,
    as happens on NFS when a file is replaced.
    """
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    with new_file(path) as file:
        file.write(data)


def rename_durably(path: Path, target: Path) -> None:
    """Give a complete and synced file or folder its final name; a file there is replaced."""
    rename(path, target)
    sync_folder(target.absolute().parent)


def replace_folder(new: Path, target: Path, aside: Path) -> None:
    """Put the folder `new` where `target` is. Until it is there, `aside` holds what was there.

    Readers that have old files open keep them; what cannot be removed stays aside.
    """
    if target.exists():
        rename(target, aside)
    rename_durably(new, target)
    with suppress(OSError):
        remove(aside)


def remove_whole(folder: Path) -> None:
    """Remove a folder that others may read: it is there whole, or not at all."""
    aside = temporary_beside(folder)
    rename_durably(folder, aside)  # else a loss of power may take files of it, and leave its name
    remove(aside)


def remove(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        import shutil  # only here: it costs 5 ms to import

        when_unused(partial(shutil.rmtree, path))
    else:
        when_unused(partial(path.unlink, missing_ok=True))


def was_written_after(path: str | os.PathLike[str], moment: int) -> bool:
    """Return True if a file was written after this time, in nanoseconds."""
    return written_ns(os.stat(path)) > moment


def temporary_beside(path: Path) -> Path:
    """Return a name in the same folder that nobody else uses."""
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def is_temporary(name: str) -> bool:
    """Return True if `temporary_beside` made this name."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_abandoned(path: Path) -> None:
    """Remove what was begun as this file, if nobody has written to it for a day."""
    for begun in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(FileNotFoundError):
            if is_temporary(begun.name) and time.time() - begun.stat().st_mtime > DAY:
                begun.unlink()


def sync_open_file(file: IO[bytes], path: Path | str | None = None) -> None:
    """Return when all that was written to this file is on the disk."""
    file.flush()
    sync_descriptor(file.fileno(), path or file.name)


def sync_file(path: Path | str) -> None:
    """Return when this file or folder is on the disk; an OSError means that it may be lost."""
    descriptor = sync_path(path)
    if descriptor is None:
        return
    try:
        sync_descriptor(descriptor, path)
    finally:
        os.close(descriptor)


def sync_descriptor(descriptor: int, path: Path | str) -> None:
    """Return when what is open as this is on the disk; errors name its path."""
    try:
        sync(descriptor)
    except OSError as error:
        error.filename = str(path)
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
        raise TokenmillError(
            f"{path} is on a file system that cannot sync it: fsync says {error.strerror!r}",
            hint="after a power failure it may be lost; write to a local disk, then copy it there",
        ) from error


def sync_folder(folder: Path | str) -> None:
    """Make renames in this folder durable, unless it is one that may not be read."""
    with suppress(PermissionError):
        sync_file(folder)


def user_cache(name: str) -> Path:
    """Return `$XDG_CACHE_HOME/tokenmill/NAME`: a folder for files that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tokenmill" / name
