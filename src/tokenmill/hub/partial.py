"""A file that is not complete yet: under its own name until its bytes are known to be right.

The name is HASH.MACHINE.PID.RANDOM.part, so two processes never write to one file, even where the
locks of the filesystem do not work. HASH is of the whole content: a file that changed on the hub
has another name, and old bytes cannot get into it. A file whose process is gone is taken over by
renaming it, which only one of several takers can do.
"""

import hashlib
import os
import re
import secrets
import socket
import time
from contextlib import suppress
from pathlib import Path

from tokenmill.base.atomic import sync_open_file
from tokenmill.base.hashing import hash_open
from tokenmill.base.lock import process_start
from tokenmill.hub.remote_files import HubFile

# No writer waits longer than this between two bytes (see LONGEST_RETRY_AFTER).
ABANDONED_AFTER = 3600.0  # seconds
_NAME = re.compile(r"[0-9a-f]{40,64}\.(?P<machine>[0-9a-f]{8})\.(?P<pid>\d+)\.[0-9a-f]+\.part")


class PartialFile:
    """One file; what arrives is hashed immediately."""

    def __init__(self, file: HubFile, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = file
        content = file.digest.partition(":")[2]
        self.path = folder / f"{content}.{_machine()}.{os.getpid()}.{secrets.token_hex(4)}.part"
        for path in filter(_is_orphan, folder.glob(f"{content}.*.part")):
            with suppress(FileNotFoundError):  # somebody else was faster
                path.rename(self.path)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._handle = os.fdopen(os.open(self.path, flags, 0o666), "r+b")
        self._hash = file.hasher()
        hash_open(self._handle.fileno(), self._hash)
        self.size = self.resumed_from = self._handle.seek(0, os.SEEK_END)
        if self.size > file.num_bytes:
            self.restart()

    def write(self, data: bytes) -> None:
        """Append; raises ValueError when the file would grow beyond its size."""
        if self.size + len(data) > self.file.num_bytes:
            raise ValueError(f"more than the {self.file.num_bytes:,} bytes of the file")
        self._handle.write(data)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Begin again, with nothing."""
        self._handle.seek(0)
        self._handle.truncate()
        self._hash = self.file.hasher()
        self.size = self.resumed_from = 0

    def is_whole(self) -> bool:
        """Return True if as many bytes have arrived as the file has."""
        return self.size == self.file.num_bytes

    def is_right(self) -> bool:
        """Return True if the bytes that arrived are the file."""
        return self.is_whole() and self.file.digest_of(self._hash) == self.file.digest

    def seal(self) -> None:
        """Close it; everything is on the disk, not only in memory."""
        sync_open_file(self._handle)
        self._handle.close()

    def close(self) -> None:
        """Leave what has arrived for the next run; nothing is left of nothing."""
        with suppress(OSError):
            self._handle.close()
        if self.size == 0 and self.file.num_bytes:
            self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove what has arrived."""
        with suppress(OSError):
            self._handle.close()
        self.path.unlink(missing_ok=True)


def _is_orphan(path: Path) -> bool:
    """Return True if the writer is dead on this machine, or has been silent for an hour."""
    match = _NAME.fullmatch(path.name)
    if match is None or path.is_symlink():
        return False
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:  # its writer has just given it its final name
        return False
    is_dead = match["machine"] == _machine() and process_start(match["pid"]) is None
    return is_dead or age > ABANDONED_AFTER


def _machine() -> str:
    """This host and this pid namespace: where process ids mean the same."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:8]
