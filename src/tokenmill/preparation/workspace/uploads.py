"""What a preparation writes to a bucket: a claim first, then shards as they are finished.

The claim is an object that says who writes, put under the condition that there is none: of two
preparations that go to one place, one gets it and the other stops before it has done any work. It
belongs to a work folder, so a run that was killed resumes with it.

Each file goes up whole, under a name that no dataset uses, on the condition that there is none;
what is found there instead must be the same bytes, or waste of a preparation that was given up.
What the store called it (its ETag) is kept in the receipt, and compared before the manifest is
written: an object that somebody else replaced is noticed.
"""

import secrets
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tokenmill.base.address import join, split
from tokenmill.base.atomic import keep
from tokenmill.errors import LockedError, PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.shards.block_hashes import file_name, hash_blocks, parse, to_bytes
from tokenmill.shards.manifest import Manifest, ShardEntry
from tokenmill.stores import objects

CLAIM = ".tokenmill-claim.json"
_MAX_CLAIM_BYTES = 1 << 16
_MAX_BLOCKS_BYTES = 1 << 30
BLOCKS = "blocks"
"""Key of a receipt: file to the hashes of its blocks."""
UPLOADED = "uploaded"
"""Key of a receipt: file to [size, ETag]."""


@dataclass(frozen=True)
class Claim:
    """What this work folder says of a prefix."""

    address: str
    """Where the dataset goes."""
    data: bytes
    """What the object holds while the claim is ours."""

    @classmethod
    def of(cls, workspace: Workspace, address: str) -> "Claim":
        """Return the claim of a work folder; the same in all its processes, and after a restart."""
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
        return join(self.address, CLAIM)

    def take(self, *, break_lock: bool, may_be_full: bool) -> None:
        """Claim the prefix, or raise; `may_be_full`: a dataset is there, and is to be changed."""
        is_new = objects.put(self.object, self.data, objects.NEW)
        there = objects.read_with_etag(self.object, at_most=_MAX_CLAIM_BYTES)
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
        there = objects.read_all(self.object, at_most=_MAX_CLAIM_BYTES)
        if there != self.data:
            raise self._taken(there or b"")

    def release(self) -> None:
        """Remove the claim, if it is ours."""
        if objects.read_all(self.object, at_most=_MAX_CLAIM_BYTES) == self.data:
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
        """Refuse to replace what is there without a manifest."""
        records, folders = objects.list_folder(self.address)
        names = [name.rpartition("/")[2] for name in (*folders, *(r.key for r in records))]
        if others := [name for name in names if name != CLAIM]:
            objects.delete(self.object)
            raise LockedError(
                f"{self.address} holds {len(others)} objects or folders but no dataset (such as "
                f"{join(self.address, others[0])})",
                hint="name a new prefix; or, where they are what a preparation left that was "
                "given up, pass run=Run(break_lock=True) to replace them",
            )

    def _taken(self, theirs: bytes) -> LockedError:
        try:
            fields = orjson.loads(theirs)
            who = f"work folder {fields['work_dir']} on {fields['host']}, since {fields['since']}"
        except (orjson.JSONDecodeError, KeyError, TypeError):
            who = "its claim was removed, or cannot be read"
        return LockedError(
            f"another preparation writes to {self.address} ({who})",
            hint="wait for it to end, or resume it from its work folder; if it was given up, pass "
            "run=Run(break_lock=True) to take over",
        )


def upload_shard(plan: Plan, shard: ShardEntry) -> dict[str, Any]:
    """Upload the files of a finished shard, remove them here, and return the facts."""
    assert plan.destination is not None
    claim = Claim.of(plan.workspace, plan.destination)
    folder = plan.workspace.out_dir
    names = [file.file for file in shard.files]
    blocks = "" if shard.packed is not None else hash_blocks(folder / shard.file)
    uploaded = {name: upload_file(claim, folder, name) for name in names}
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return {UPLOADED: uploaded, BLOCKS: {shard.file: blocks}}


def upload_file(claim: Claim, folder: Path, name: str) -> tuple[int, str]:
    """Upload one file, and return its size and ETag there."""
    path = folder / name
    address = join(claim.address, name)
    found = objects.upload(path, address, objects.NEW)
    if found is None and objects.has_content_of(address, path):
        found = objects.stat(address)  # an earlier try of ours
    elif found is None:
        claim.check()  # what is there was given up by others, or we were
        found = objects.upload(path, address)
    assert found is not None
    return found.size, found.etag


def upload_block_hashes(
    workspace: Workspace, manifest: Manifest, before: Manifest | None, address: str
) -> None:
    """Write the hashes of the blocks of all shards; those of old shards are in the old file."""
    known: dict[str, str] = {}
    if before is not None:
        where = join(address, file_name(before.to_bytes()))
        old = objects.read_all(where, at_most=_MAX_BLOCKS_BYTES)
        known = parse(old, before) if old is not None else {}
    for _, receipt in workspace.logs("shards").items():
        known |= receipt.get(BLOCKS, {})
    if (data := to_bytes(manifest, known)) is not None:
        objects.put(join(address, file_name(manifest.to_bytes())), data)


def refuse_changed(workspace: Workspace, address: str) -> None:
    """Raise where an object is not what was uploaded; its shard will be made again."""
    listed = {r.key: (r.size, r.etag) for r in objects.list_records(address)}
    prefix = split(address).key
    changed: dict[str, str] = {}  # names of receipts, by file
    for name, receipt in workspace.logs("shards").items():
        for file, known in receipt.get(UPLOADED, {}).items():
            is_listed = listed.get(f"{prefix}/{file}" if prefix else file) == tuple(known)
            if not is_listed and not _is_there(join(address, file), *known):  # lists may be old
                changed[file] = name
    if changed:
        workspace.logs("shards").remove(set(changed.values()))
        raise LockedError(
            f"{len(changed)} uploaded objects are no longer what was uploaded (such as "
            f"{join(address, min(changed))})",
            hint="something else writes there; nothing was published; when it has ended, the same "
            "command makes them again",
        )


def _is_there(address: str, size: int, etag: str) -> bool:
    found = objects.find(address)
    return found is not None and (found.size, found.etag) == (size, etag)
