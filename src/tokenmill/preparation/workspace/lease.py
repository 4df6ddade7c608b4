"""A lease on a bucket: who holds it has written the object again lately, by the clock of the store.

No dead machine can hold one: when nobody has written it for `SECONDS`, the next one takes it over,
at once where it sees that the process is dead. As with lock files, correctness does not rest on it:
tasks are harmless if run twice, and the manifest is written under a condition.
"""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import orjson

from tokenmill.base.system import host_name, process_start
from tokenmill.errors import LockedError, PrepareError, TokenmillError
from tokenmill.stores import objects

SECONDS = 60.0
"""Without a sign of its holder, a lease ends after this."""
_MAX_BYTES = 1 << 16


@contextmanager
def hold_lease(address: str, guards: str, *, break_lock: bool) -> Iterator[None]:
    """Hold the lease at `address` and write it again and again; `guards` is named in errors."""
    pid = os.getpid()
    me = {"host": host_name(), "pid": pid, "started": process_start(pid), "id": secrets.token_hex()}
    data = orjson.dumps(me)
    _take(address, data, guards, break_lock=break_lock)
    ended = threading.Event()
    renewing = threading.Thread(target=_renew, args=(address, data, ended), daemon=True)
    renewing.start()
    try:
        yield
    except (TokenmillError, OSError) as error:
        with suppress(TokenmillError):
            there = objects.read_all(address, at_most=_MAX_BYTES)
            if there is not None and there != data:
                raise _taken(there, guards) from error
        raise
    finally:
        ended.set()
        renewing.join()
        with suppress(TokenmillError):
            if objects.read_all(address, at_most=_MAX_BYTES) == data:
                objects.delete(address)


def refuse_leased(address: str, guards: str) -> None:
    """Raise LockedError if somebody holds the lease."""
    there = objects.read_with_etag(address, at_most=_MAX_BYTES)
    if there is not None and _may_be_alive(address, there[0]):
        raise _taken(there[0], guards)


def _take(address: str, data: bytes, guards: str, *, break_lock: bool) -> None:
    if objects.put(address, data, objects.NEW):
        if objects.put(address, data, objects.NEW):
            objects.delete(address)
            raise PrepareError(
                f"the store of {guards} ignores the conditions of a write (If-None-Match)",
                hint="work in a folder that all machines see, or in another store",
            )
        return
    there = objects.read_with_etag(address, at_most=_MAX_BYTES)
    if there is None:  # it ended at this moment
        return _take(address, data, guards, break_lock=break_lock)
    if there[0] == data:  # the answer to the first write was lost
        return None
    if not break_lock and _may_be_alive(address, there[0]):
        raise _taken(there[0], guards)
    if not objects.put(address, data, there[1]):
        raise _taken(objects.read_all(address, at_most=_MAX_BYTES) or b"", guards)
    return None


def _renew(address: str, data: bytes, ended: threading.Event) -> None:
    """Write the lease again, until it ends or is another's."""
    while not ended.wait(SECONDS / 4):
        with suppress(TokenmillError):  # the next time may be better
            there = objects.read_with_etag(address, at_most=_MAX_BYTES)
            if there is None or there[0] != data:
                return
            objects.put(address, data, there[1])


def _may_be_alive(address: str, holder: bytes) -> bool:
    fields = _fields(holder)
    if fields.get("host") == host_name():
        return process_start(fields.get("pid")) == fields.get("started")
    found = objects.find(address)
    return found is not None and _now(address) - found.modified_ns < SECONDS * 10**9


def _now(address: str) -> int:
    """Return the time by the clock of the store, in nanoseconds."""
    probe = f"{address}.{secrets.token_hex(8)}"
    objects.put(probe, b"?")
    try:
        return objects.stat(probe).modified_ns
    finally:
        objects.delete(probe)


def _fields(holder: bytes) -> dict[str, object]:
    with suppress(orjson.JSONDecodeError):
        fields = orjson.loads(holder)
        if isinstance(fields, dict):
            return fields
    return {}


def _taken(holder: bytes, guards: str) -> LockedError:
    fields = _fields(holder)
    return LockedError(
        f"{guards} is being written by process {fields.get('pid')} on {fields.get('host')}",
        hint="wait for it, or stop it; if that machine is gone, its lease ends by itself after "
        f"{SECONDS:g} s, or at once with run=Run(break_lock=True)",
    )
