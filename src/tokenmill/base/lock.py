"""One writer at a time: a lock file that names its holder, not a lock that file systems may ignore.

`flock` succeeds for every caller on some network file systems. So correctness does not rest on
this lock (tasks are harmless if run twice, and the manifest is written once); it is here to report
another process that is at work.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson

from tokenmill.base.atomic import remove_abandoned, temporary_beside
from tokenmill.base.descriptors import lock as lock_descriptor
from tokenmill.base.descriptors import open_descriptor, rename, unlink_unused
from tokenmill.base.stalls import waiting_for
from tokenmill.base.system import host_name, process_start
from tokenmill.errors import LockedError

Holder = dict[str, object]


@contextmanager
def hold_lock(
    path: Path, *, break_lock: bool = False, guards: Path | None = None
) -> Iterator[None]:
    """Hold the lock at `path`; a lock left by a dead process of this machine is taken over.

    `guards` names what is written, in errors, if it is not the folder above the lock's folder.
    """
    me = this_process()
    while not _take(path, me):
        holder = _read(path)
        if holder is not None and not break_lock and may_be_alive(holder):
            raise _locked(path, holder, guards)
        _remove(path, holder)
        break_lock = False
    try:
        yield
    finally:
        if _read(path) == me:
            path.unlink(missing_ok=True)


@contextmanager
def wait_for_others(path: Path) -> Iterator[None]:
    """Wait for another process that makes this file; nothing depends on it.

    Where `flock` does not work, both make it. What a killed one had begun is removed.
    """
    lock = path.with_suffix(".lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_descriptor(lock, os.O_RDWR | os.O_CREAT, 0o600, follow=False)
    try:
        with suppress(OSError), waiting_for(f"the lock {lock}"):
            lock_descriptor(descriptor)
        remove_abandoned(path)
        yield
    finally:
        is_gone = unlink_unused(lock)
        os.close(descriptor)
        if not is_gone:  # it was open here
            unlink_unused(lock)


def is_held(path: Path) -> bool:
    """Return True if a process holds the lock that may be alive."""
    holder = _read(path)
    return holder is not None and may_be_alive(holder)


def refuse_locked(path: Path) -> None:
    """Raise if the lock is held; it is not taken."""
    if is_held(path):
        raise _locked(path, _read(path) or {})


def _take(path: Path, me: Holder) -> bool:
    """Make the lock appear with its holder in it; return False if there is one already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mine = temporary_beside(path)
    try:
        mine.write_bytes(orjson.dumps(me))
        try:
            os.link(mine, path)
        except PermissionError:  # a file system without links: the lock is empty for a moment
            with open(path, "xb") as file:
                file.write(orjson.dumps(me))
    except (FileExistsError, FileNotFoundError):
        return False  # the folder may vanish under us, when its holder is done with it
    finally:
        mine.unlink(missing_ok=True)
    return True


def _remove(path: Path, holder: Holder | None) -> None:
    """Remove the lock of this holder, but not another that was put there meanwhile."""
    aside = temporary_beside(path)
    with suppress(FileNotFoundError):
        rename(path, aside)
        if _read(aside) != holder:
            with suppress(FileExistsError):
                os.link(aside, path)
        aside.unlink()


def _read(path: Path) -> Holder | None:
    try:
        return holder_in(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None


def this_process() -> Holder:
    """Return what this process says of itself where it holds something."""
    pid = os.getpid()
    return {"host": host_name(), "pid": pid, "started": process_start(pid)}


def holder_in(data: bytes) -> Holder | None:
    """Return what a holder has said of itself; None, where that cannot be read."""
    with suppress(orjson.JSONDecodeError):
        holder = orjson.loads(data)
        return holder if isinstance(holder, dict) else None
    return None


def may_be_alive(holder: Holder) -> bool:
    """Return False if the holder was a process of this machine, and has ended."""
    if holder.get("host") != host_name():
        return True  # we cannot see processes of another machine
    return process_start(holder.get("pid")) == holder.get("started")


def _locked(path: Path, holder: Holder, guards: Path | None = None) -> LockedError:
    remedy = "pass run=Run(break_lock=True)" if guards is None else f"remove {path}"
    return locked(guards or path.parent.parent, holder, remedy)


def locked(guards: object, holder: Holder, remedy: str) -> LockedError:
    """Return an error that names the holder."""
    return LockedError(
        f"{guards} is being written by process {holder.get('pid')} on {holder.get('host')}",
        hint=f"wait for it, or stop it; if that machine is gone for good, {remedy}",
    )
