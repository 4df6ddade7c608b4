"""An object that is put where there is none: while it holds what somebody wrote, it is theirs."""

from collections.abc import Callable
from dataclasses import dataclass

from tokenmill.errors import LockedError, PrepareError
from tokenmill.stores import objects

_MAX_BYTES = 1 << 16


@dataclass(frozen=True)
class Claim:
    """One owner's view of the object."""

    object: str
    guards: str
    """What is owned, for messages."""
    data: bytes
    """What the object holds while it is ours: JSON."""

    def take(self, may_take_over: Callable[[bytes], bool]) -> bool:
        """Own it from now on, or raise LockedError; return True if nobody did before.

        `may_take_over` is asked about what somebody else has written there.
        """
        is_new = objects.put(self.object, self.data, objects.NEW)
        there = self.read()
        if there is None:  # theirs ended at this moment
            return self.take(may_take_over)
        if there[0] == self.data:
            if is_new:
                self._refuse_store_without_conditions()
            return is_new
        if not may_take_over(there[0]):
            raise self.taken(there[0])
        objects.put(self.object, self.data, there[1])
        self.check()
        return False

    def read(self) -> tuple[bytes, str] | None:
        """Return what is there, and the ETag of this version of it."""
        return objects.read_with_etag(self.object, at_most=_MAX_BYTES)

    def theirs(self) -> bytes | None:
        """Return what somebody else wrote; None if it is ours; no bytes if it is gone."""
        there, _ = self.read() or (b"", "")
        return None if there == self.data else there

    def check(self) -> None:
        """Raise LockedError unless it is still ours."""
        if (theirs := self.theirs()) is not None:
            raise self.taken(theirs)

    def release(self) -> None:
        if self.theirs() is None:
            objects.delete(self.object)

    def taken(self, theirs: bytes) -> LockedError:
        """Return an error that names the other owner."""
        raise NotImplementedError

    def _refuse_store_without_conditions(self) -> None:
        if objects.put(self.object, self.data, objects.NEW):
            objects.delete(self.object)
            raise PrepareError(
                f"the store of {self.guards} ignores the conditions of a write (If-None-Match): "
                "two writers could damage each other's dataset unnoticed",
                hint="prepare in a folder that all machines see, then copy the dataset to the "
                "store; the manifest, dataset_metadata.json, last",
            )
