"""The claim to a prefix in a bucket: an object there that says who writes.

It is written before anything is uploaded, under the condition that there is none: of two
preparations that go to one place, one gets it and the other stops before it has done any work. The
claim belongs to a work folder, so a run that was killed resumes with it. It is removed when the
dataset is published, or when nothing was begun.
"""

import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import orjson

from tokenmill.base.address import join
from tokenmill.base.atomic import keep
from tokenmill.errors import LockedError, PrepareError
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.stores import objects

NAME = ".tokenmill-claim.json"
_AT_MOST = 1 << 16


@dataclass(frozen=True)
class Claim:
    """What this work folder says of a prefix."""

    address: str
    """Where the dataset goes."""
    data: bytes
    """What the object holds while the claim is ours."""

    @classmethod
    def of(cls, workspace: Workspace, address: str) -> "Claim":
        """The claim of a work folder; the same in all its processes, and after a restart."""
        if not workspace.claim_file.exists():
            fields = {
                "id": secrets.token_hex(16),
                "host": socket.gethostname(),
                "work_dir": str(Path(workspace.out_dir).absolute()),
                "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            }
            keep(workspace.claim_file, orjson.dumps(fields, option=orjson.OPT_INDENT_2))
        return cls(address, workspace.claim_file.read_bytes())

    @property
    def object(self) -> str:
        return join(self.address, NAME)

    def take(self, *, break_lock: bool, may_be_full: bool) -> None:
        """Claim the prefix, or raise; `may_be_full`: a dataset is there, and is to be changed."""
        is_new = objects.put(self.object, self.data, objects.NEW)
        there = objects.read_with_etag(self.object, at_most=_AT_MOST)
        if there is None or there[0] != self.data:
            if not break_lock or there is None:
                raise self._taken(there[0] if there else b"")
            objects.put_if(self.object, self.data, there[1])
        elif is_new:
            self._refuse_store_without_conditions()
            if not may_be_full and not break_lock:
                self._refuse_full_prefix()

    def check(self) -> None:
        """Raise LockedError unless the claim is still ours."""
        there = objects.read_all(self.object, at_most=_AT_MOST)
        if there != self.data:
            raise self._taken(there or b"")

    def release(self) -> None:
        """Remove the claim, if it is ours."""
        if objects.read_all(self.object, at_most=_AT_MOST) == self.data:
            objects.delete(self.object)

    def _refuse_store_without_conditions(self) -> None:
        if objects.put(self.object, self.data, objects.NEW):
            objects.delete(self.object)
            raise PrepareError(
                f"the store of {self.address} ignores the conditions of a write (If-None-Match): "
                "two writers could damage each other's dataset unnoticed",
                hint="prepare into a folder, then copy that folder to the store; the manifest, "
                "dataset_metadata.json, last",
            )

    def _refuse_full_prefix(self) -> None:
        """What is there without a manifest is not ours to replace."""
        found, folders = objects.list_folder(self.address)
        names = [f"{self.address}/{name.rpartition('/')[2]}" for name in folders]
        names += [f"{self.address}/{r.key.rpartition('/')[2]}" for r in found]
        if others := [name for name in names if name != self.object]:
            objects.delete(self.object)
            raise LockedError(
                f"{self.address} holds {len(others)} objects or folders but no dataset (such as "
                f"{others[0]})",
                hint="name a new prefix; or, where they are what a preparation left that was "
                "given up, pass run=Run(break_lock=True) to replace them",
            )

    def _taken(self, theirs: bytes) -> LockedError:
        try:
            fields = orjson.loads(theirs)
            who = f"work folder {fields['work_dir']} on {fields['host']}, since {fields['since']}"
        except (orjson.JSONDecodeError, KeyError, TypeError):
            who = "its claim was removed" if not theirs else "its claim cannot be read"
        return LockedError(
            f"another preparation writes to {self.address} ({who})",
            hint="wait for it to end, or resume it from its work folder; if it was given up, pass "
            "run=Run(break_lock=True) to take over",
        )
