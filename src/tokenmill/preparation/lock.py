"""One writer at a time: a lock file that names its holder, not a lock that file systems may ignore.

`flock` succeeds for every caller on some network file systems. So correctness does not rest on
this lock (tasks are harmless if run twice, and the manifest is written once); it is here to tell
people that somebody else is at work.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from tokenmill.errors import LockedError


@contextmanager
def hold_lock(path: Path, *, break_lock: bool = False) -> Iterator[None]:
    """Hold the lock at `path`; a lock left by a dead process of this machine is taken over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    me = {"host": socket.gethostname(), "pid": os.getpid(), "started": _start_of(os.getpid())}
    while True:
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o644)
            break
        except FileExistsError:
            holder = _read(path)
            if holder is not None and not break_lock and _may_be_alive(holder):
                raise _locked(path, holder) from None
            path.unlink(missing_ok=True)
            break_lock = False
    try:
        os.write(handle, orjson.dumps(me))
        os.close(handle)
        yield
    finally:
        if _read(path) == me:
            path.unlink(missing_ok=True)


def refuse_locked(path: Path) -> None:
    """Raise where somebody holds the lock; nothing is taken."""
    holder = _read(path)
    if holder is not None and _may_be_alive(holder):
        raise _locked(path, holder)


def _read(path: Path) -> dict[str, object] | None:
    try:
        holder: dict[str, object] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return None
    return holder


def _may_be_alive(holder: dict[str, object]) -> bool:
    if holder.get("host") != socket.gethostname():
        return True  # we cannot see processes of another machine
    return _start_of(holder.get("pid")) == holder.get("started")


def _start_of(pid: object) -> str | None:
    """When a process started, in ticks since boot; None when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None if os.path.isdir("/proc/self") else _probe(pid)
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def _probe(pid: object) -> str | None:
    """Where there is no /proc: whether the process exists at all."""
    try:
        os.kill(int(str(pid)), 0)
    except (ProcessLookupError, ValueError):
        return None
    except PermissionError:
        pass
    return "alive"


def _locked(path: Path, holder: dict[str, object]) -> LockedError:
    return LockedError(
        f"{path.parent.parent} is being written by process {holder.get('pid')} on "
        f"{holder.get('host')}",
        hint="wait for it, or stop it; if that machine is gone for good, pass --break_lock",
    )
