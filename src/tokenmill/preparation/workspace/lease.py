"""A lease on a bucket: who holds it has written the object again lately, by the clock of the store.

No dead machine can hold one: when nobody has written it for `SECONDS`, the next one takes it over,
at once where it sees that the process is dead. As with lock files, correctness does not rest on it:
tasks are harmless if run twice, and the manifest is written under a condition.
"""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import orjson

from tokenmill.base.lock import holder_in, locked, may_be_alive, this_process
from tokenmill.base.system import host_name
from tokenmill.errors import LockedError, TokenmillError
from tokenmill.preparation.workspace.claim import Claim
from tokenmill.stores import objects

SECONDS = 60.0
"""Without a sign of its holder, a lease ends after this."""


class Lease(Claim):
    """A claim that ends with its owner."""

    @classmethod
    def of(cls, address: str, guards: str) -> "Lease":
        """Return the lease of this process."""
        me = {**this_process(), "id": secrets.token_hex()}
        return cls(address, guards, orjson.dumps(me))

    def has_ended(self, holder: bytes) -> bool:
        """Return True if this holder is dead, or was silent for too long."""
        process = holder_in(holder) or {}
        if process.get("host") == host_name():
            return not may_be_alive(process)
        found = objects.find(self.object)
        return found is None or self._now() - found.modified_ns >= SECONDS * 10**9

    def _now(self) -> int:
        """Return the time by the clock of the store, in nanoseconds."""
        probe = f"{self.object}.{secrets.token_hex(8)}"
        objects.put(probe, b"?")
        try:
            return objects.stat(probe).modified_ns
        finally:
            objects.delete(probe)

    def renew(self, ended: threading.Event) -> None:
        """Write it again and again, until it ends or is another's."""
        while not ended.wait(SECONDS / 4):
            with suppress(TokenmillError):  # the next time may be better
                there = self.read()
                if there is None or there[0] != self.data:
                    return
                objects.put(self.object, self.data, there[1])

    def taken(self, theirs: bytes) -> LockedError:
        ends = f"its lease ends by itself after {SECONDS:g} s, or at once with"
        return locked(self.guards, holder_in(theirs) or {}, f"{ends} run=Run(break_lock=True)")


@contextmanager
def hold_lease(address: str, guards: str, *, break_lock: bool) -> Iterator[None]:
    """Hold the lease at `address`; `guards` is named in errors."""
    lease = Lease.of(address, guards)
    lease.take(lambda holder: break_lock or lease.has_ended(holder))
    ended = threading.Event()
    renewing = threading.Thread(target=lease.renew, args=(ended,), daemon=True)
    renewing.start()
    try:
        yield
    except (TokenmillError, OSError) as error:
        theirs = None
        with suppress(TokenmillError):
            theirs = lease.theirs()
        if theirs:
            raise lease.taken(theirs) from error
        raise
    finally:
        ended.set()
        renewing.join()
        with suppress(TokenmillError):
            lease.release()


def refuse_leased(address: str, guards: str) -> None:
    """Raise LockedError if somebody holds the lease."""
    lease = Lease.of(address, guards)
    if (holder := lease.theirs()) and not lease.has_ended(holder):
        raise lease.taken(holder)
