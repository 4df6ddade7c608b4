"""A file on its way: bytes under a name of their own until they are known to be right.

The name is HASH.PLACE.PID.RANDOM.part, so two processes never write to one file, whatever the
locks of the filesystem are worth. HASH is of the whole content: a file that changed on the hub has
another name and old bytes cannot get into it. A partial file whose process is gone is taken over by
renaming it, which only one of several takers can do.
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from tokenmill.base.atomic import rename_durably, sync_open_file
from tokenmill.base.lock import process_start
from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import RemoteFile

# Nobody waits longer than this between two bytes (see LONGEST_RETRY_AFTER): its writer is gone.
ABANDONED_AFTER = 3600.0  # seconds
_NAME = re.compile(
    r"(?P<hash>[0-9a-f]{40,64})\.(?P<place>[0-9a-f]{8})\.(?P<pid>\d+)\.[0-9a-f]+\.part"
)
_BLOCK = 1 << 20


class Partial:
    """One file on its way; what has arrived is hashed as it comes."""

    def __init__(self, file: RemoteFile, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = file
        self.path = folder / _own_name(file)
        self.resumed_from = 0
        self._is_sealed = False
        self._adopt(folder)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.fdopen(os.open(self.path, flags, 0o666), "r+b")
        self._begin()

    def _begin(self) -> None:
        """Hash what an earlier process left, and go on behind it."""
        self._hash = self.file.hasher()
        self.size = 0
        while block := self._handle.read(_BLOCK):
            self._hash.update(block)
            self.size += len(block)
        self.resumed_from = self.size
        if self.size > self.file.bytes:
            self.restart()

    def write(self, data: bytes) -> None:
        """Append; raises ValueError when the file would grow beyond its size."""
        if self.size + len(data) > self.file.bytes:
            raise ValueError(f"more than the {self.file.bytes:,} bytes of the file")
        self._handle.write(data)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Throw away what has arrived."""
        self._handle.seek(0)
        self._handle.truncate()
        self._hash = self.file.hasher()
        self.size = 0
        self.resumed_from = 0

    def is_whole(self) -> bool:
        """Whether all bytes have arrived."""
        return self.size == self.file.bytes

    def is_right(self) -> bool:
        """Whether the bytes that arrived are the file."""
        return self.is_whole() and self.file.digest_of(self._hash) == self.file.digest

    def head(self, count: int) -> bytes:
        """The first bytes."""
        self._handle.flush()
        return os.pread(self._handle.fileno(), count, 0)

    def seal(self) -> None:
        """Everything is on the disk, not only in memory."""
        sync_open_file(self._handle)
        self._handle.close()
        self._is_sealed = True

    def publish(self, target: Path) -> None:
        """Give a sealed file its final name."""
        target.parent.mkdir(parents=True, exist_ok=True)
        rename_durably(self.path, target)

    def close(self) -> None:
        """Leave what has arrived for the next run; nothing is left of nothing."""
        if not self._handle.closed:
            with contextlib.suppress(OSError):
                self._handle.close()
        if self.size == 0 and not self._is_sealed:
            self.discard()

    def discard(self) -> None:
        """Delete it."""
        with contextlib.suppress(OSError):
            self._handle.close()
        self.path.unlink(missing_ok=True)

    def _adopt(self, folder: Path) -> None:
        """Take over the longest partial file of this content whose writer is gone."""
        wanted = _hash_of(self.file)
        left = [p for p in orphans(folder) if p.name.startswith(f"{wanted}.")]
        for path in sorted(left, key=lambda p: p.stat().st_size, reverse=True):
            with contextlib.suppress(FileNotFoundError):
                if self.path.exists():
                    path.unlink()  # a shorter one
                else:
                    path.rename(self.path)


def orphans(folder: Path, *, untouched_for: float = 0.0) -> Iterator[Path]:
    """Partial files whose writer is gone: dead on this machine, or silent for an hour."""
    place = _place()
    for path in sorted(folder.glob("*.part")):
        match = _NAME.fullmatch(path.name)
        if match is None or path.is_symlink() or not path.is_file():
            continue
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            continue  # its writer has just given it its final name
        dead = match["place"] == place and process_start(match["pid"]) is None
        if (dead or age > ABANDONED_AFTER) and age >= untouched_for:
            yield path


def out_of_space(error: OSError, file: RemoteFile) -> DownloadError | None:
    """The error for a full disk, or None if that is not what happened."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return DownloadError(
        f"{file.path} ({file.bytes:,} bytes): {os.strerror(error.errno)}",
        hint="free some space; the same command goes on where it stopped",
    )


def _own_name(file: RemoteFile) -> str:
    return f"{_hash_of(file)}.{_place()}.{os.getpid()}.{secrets.token_hex(4)}.part"


def _hash_of(file: RemoteFile) -> str:
    return file.digest.partition(":")[2]


def _place() -> str:
    """Where process ids mean what they mean here: this host and this pid namespace."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]
