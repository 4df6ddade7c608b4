"""A file that is not complete yet: under a name of its own until its bytes are known to be right.

The name is HASH.MACHINE.PID.RANDOM.part, so two processes never write to one file, also where the
locks of the filesystem do not work. HASH is of the whole content: a file that changed on the hub
has another name, and old bytes cannot get into it. A file whose process is gone is taken over by
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
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError
from tokenmill.hub.remote_files import HubFile

# No writer waits longer than this between two bytes (see LONGEST_RETRY_AFTER).
ABANDONED_AFTER = 3600.0  # seconds
_NAME = re.compile(
    r"(?P<hash>[0-9a-f]{40,64})\.(?P<machine>[0-9a-f]{8})\.(?P<pid>\d+)\.[0-9a-f]+\.part"
)
_BLOCK = 1 << 20


class PartialFile:
    """One file; what arrives is hashed at once."""

    def __init__(self, file: HubFile, folder: Path) -> None:
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
        """Hash what an earlier process left, and continue after it."""
        self._hash = self.file.hasher()
        self.size = 0
        while block := self._handle.read(_BLOCK):
            self._hash.update(block)
            self.size += len(block)
        self.resumed_from = self.size
        if self.size > self.file.num_bytes:
            self.restart()

    def write(self, data: bytes) -> None:
        """Append; raises ValueError when the file would grow beyond its size."""
        if self.size + len(data) > self.file.num_bytes:
            raise ValueError(f"more than the {self.file.num_bytes:,} bytes of the file")
        self._handle.write(data)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        self._handle.seek(0)
        self._handle.truncate()
        self._hash = self.file.hasher()
        self.size = 0
        self.resumed_from = 0

    def is_whole(self) -> bool:
        return self.size == self.file.num_bytes

    def is_right(self) -> bool:
        """Whether the bytes that arrived are the file."""
        return self.is_whole() and self.file.digest_of(self._hash) == self.file.digest

    def head(self, count: int) -> bytes:
        self._handle.flush()
        return os.pread(self._handle.fileno(), count, 0)

    def seal(self) -> None:
        """Close it; everything is on the disk, not only in memory."""
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
    """PartialFile files whose writer is gone: dead on this machine, or silent for an hour."""
    machine = _machine()
    for path in sorted(folder.glob("*.part")):
        match = _NAME.fullmatch(path.name)
        if match is None or path.is_symlink() or not path.is_file():
            continue
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:
            continue  # its writer has just given it its final name
        dead = match["machine"] == machine and process_start(match["pid"]) is None
        if (dead or age > ABANDONED_AFTER) and age >= untouched_for:
            yield path


def out_of_space(error: OSError, file: HubFile) -> DownloadError | None:
    """The error for a full disk, or None if that is not what happened."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return None
    return DownloadError(
        f"{file.path} ({file.num_bytes:,} bytes): {os.strerror(error.errno)}",
        hint=f"free some space; {RESUME_HINT}",
    )


def _own_name(file: HubFile) -> str:
    return f"{_hash_of(file)}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}.part"


def _hash_of(file: HubFile) -> str:
    return file.digest.partition(":")[2]


def _machine() -> str:
    """This host and this pid namespace: where process ids mean the same."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]
