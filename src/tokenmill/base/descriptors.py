"""Open files, where Linux, macOS and Windows treat them differently.

Windows opens files as text unless it is told otherwise, has no call that reads at a position, and
neither replaces nor removes a file that a program has open. macOS calls a file synced when it is in
the cache of the disk.
"""

import errno
import gc
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tokenmill.errors import TokenmillError

AnyPath = str | os.PathLike[str]
_ZEROS = bytes(1 << 20)
# A scanner or an indexer has a new file open for a moment. Seconds between two attempts:
_WAITS = (0.01, 0.03, 0.1, 0.3, 0.6)
_moving = threading.Lock()


def open_descriptor(
    path: AnyPath, flags: int, mode: int = 0o666, *, follow: bool = True, wait: bool = True
) -> int:
    """Open a file as bytes, for this process alone.

    Without `follow`, no symbolic link; without `wait`, a named pipe is opened before its writer.
    """
    if sys.platform != "win32":
        flags |= os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW) | (0 if wait else os.O_NONBLOCK)
        return os.open(path, flags, mode)
    if not follow and os.path.islink(path):
        raise OSError(errno.ELOOP, "it is a symbolic link", os.fspath(path))
    try:
        return os.open(path, flags | os.O_BINARY | os.O_NOINHERIT, mode)
    except PermissionError:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", os.fspath(path)) from None
        raise


@contextmanager
def _moved(descriptor: int, start: int) -> Iterator[None]:
    """Move the position of a file, and back, where it is the only way to another byte."""
    with _moving:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, start, os.SEEK_SET)
        try:
            yield
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)


def read_at(descriptor: int, count: int, start: int) -> bytes:
    """Return up to `count` bytes from `start` on; the position of the file stays."""
    if sys.platform != "win32":
        return os.pread(descriptor, count, start)
    with _moved(descriptor, start):
        return os.read(descriptor, count)


def read_into(descriptor: int, view: memoryview, start: int) -> int:
    """Read from `start` on; return how many bytes of `view` were filled."""
    if sys.platform != "win32":
        return os.preadv(descriptor, [view], start)
    data = read_at(descriptor, len(view), start)
    view[: len(data)] = data
    return len(data)


def write_at(descriptor: int, data: bytes, start: int) -> None:
    """Write a few bytes at this position."""
    if sys.platform != "win32":
        os.pwrite(descriptor, data, start)
        return
    with _moved(descriptor, start):
        os.write(descriptor, data)


def reserve(descriptor: int, num_bytes: int) -> None:
    """Take this much of the disk for an empty file; an OSError means that it is full."""
    if sys.platform == "linux":
        os.posix_fallocate(descriptor, 0, num_bytes)
        return
    for start in range(0, num_bytes, len(_ZEROS)):
        write_at(descriptor, _ZEROS[: num_bytes - start], start)


def lock(descriptor: int) -> None:
    """Wait until no other process holds the lock of this file; closing the file ends the lock."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    import msvcrt

    while True:
        try:
            return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
        except OSError as error:
            if error.errno != errno.EDEADLK:  # what it says after ten seconds
                raise


def try_lock(descriptor: int) -> bool:
    """Take the same lock if no other process holds it; return False if one does."""
    try:
        if sys.platform != "win32":
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    except OSError:
        return False
    return True


def sync(descriptor: int) -> None:
    """Return when all that was written to this file is on the disk."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
        except OSError as error:  # a network file system has no such call
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY):
                raise
    os.fsync(descriptor)


def sync_path(path: AnyPath) -> int | None:
    """Open a file or folder to sync it; None for a folder of Windows, which needs no sync."""
    if sys.platform != "win32":
        return open_descriptor(path, os.O_RDONLY)
    return None if os.path.isdir(path) else open_descriptor(path, os.O_RDWR)


def when_unused(change: Callable[[], None]) -> None:
    """Rename or remove; on Windows try for a second, while a program has the file open."""
    for seconds in _WAITS if sys.platform == "win32" else ():
        try:
            return change()
        except PermissionError:
            gc.collect()  # maps that nobody uses any more
            time.sleep(seconds)
    change()


def rename(path: AnyPath, target: AnyPath) -> None:
    """Give a file or folder another name, in one step; a file of that name is replaced."""
    try:
        when_unused(partial(os.replace, path, target))
    except PermissionError as error:
        if sys.platform != "win32":
            raise
        raise TokenmillError(
            f"{os.fspath(path)} cannot become {os.fspath(target)}: {error.strerror}; a program has "
            "one of them open, or a file in it",
            hint="end what reads it, such as a training run; then give the same command again",
        ) from error


def rename_open(descriptor: int, path: AnyPath, target: AnyPath) -> int:
    """Give an open file another name; return its descriptor, which is another one on Windows."""
    if sys.platform == "win32":
        os.close(descriptor)
        rename(path, target)
        return open_descriptor(target, os.O_RDONLY, follow=False)
    os.replace(path, target)
    return descriptor


def unlink_unused(path: AnyPath) -> bool:
    """Remove a file; return False if Windows keeps it, because a program has it open."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except PermissionError:
        if sys.platform != "win32":
            raise
        return False
    return True


def is_closed_pipe(error: OSError) -> bool:
    """Return True if the reader of our output went away."""
    is_told_otherwise = sys.platform == "win32" and error.errno == errno.EINVAL
    return isinstance(error, BrokenPipeError) or is_told_otherwise


def read_by_page(mapped: mmap.mmap) -> None:
    """Ask the system not to read ahead in this map; Windows has no such call."""
    if sys.platform != "win32":
        mapped.madvise(mmap.MADV_RANDOM)


def written_ns(about: os.stat_result) -> int:
    """Return when a file was written, in nanoseconds.

    Its own time may be in the future: that of its inode, which only the kernel sets, is not.
    Windows has the time of creation in its place.
    """
    if sys.platform == "win32":
        return about.st_mtime_ns
    return min(about.st_mtime_ns, about.st_ctime_ns)
