"""Where a preparation into a bucket goes: a new prefix, a dataset that is added to, or replaced.

New objects are written under names that no manifest uses, and the manifest last, on the condition
that it is still the one that was seen at the start: docs/guides/storage.md, "Output".
"""

import os
import re
import secrets
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
import xxhash

from tokenmill.base.address import check_address, is_remote, join, split
from tokenmill.base.atomic import remove
from tokenmill.base.lock import holder_in
from tokenmill.errors import (
    LockedError,
    NotADatasetError,
    SettingsMismatchError,
    TokenmillError,
)
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Run, Settings
from tokenmill.preparation.workspace.claim import Claim
from tokenmill.preparation.workspace.target import Target, hold_workspace, refuse_strange_folder
from tokenmill.preparation.workspace.work_folder import WorkFolder
from tokenmill.preparation.workspace.workspace import CLAIM as CLAIM_FILE
from tokenmill.preparation.workspace.workspace import PLAN, Workspace
from tokenmill.shards import block_hashes
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, Manifest, ShardEntry
from tokenmill.stores import objects
from tokenmill.text.inputs.open_input import Source

_OUR_OBJECT = re.compile(
    r"(?:v-[0-9a-f]{16}/)?(?:[\w-]+/(?:shard_\d+\.\S+|documents\w*\.parquet)|tokenizer_state\.json)"
    r"|block_hashes-[0-9a-f]{16}\.xxh3|(?:v-[0-9a-f]{16}/)?sources-[0-9a-f]{16}\.jsonl"
)

CLAIM = ".tokenmill-claim.json"
_MAX_BLOCKS_BYTES = 1 << 30
BLOCKS = "blocks"
"""Key of a receipt: file to the hashes of its blocks."""
CARD = "card.md"
"""The dataset card, until it is uploaded."""
_STAGES_THAT_UPLOAD = ("shards", "facts")
UPLOADED = "uploaded"
"""Key of a receipt: file to [size, ETag]."""


class PrefixClaim(Claim):
    """What a workspace says of the prefix that its dataset goes to, until that is finished."""

    @classmethod
    def of(cls, workspace: Workspace, address: str) -> "PrefixClaim":
        """Return the claim of a workspace; the same in all its processes, and after a restart."""
        if not workspace.has(CLAIM_FILE):
            fields = {
                "id": secrets.token_hex(16),
                "host": socket.gethostname(),
                "work_dir": workspace.place,
                "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            }
            workspace.keep(CLAIM_FILE, orjson.dumps(fields, option=orjson.OPT_INDENT_2))
        return cls(join(address, CLAIM), address, workspace.read(CLAIM_FILE))

    def refuse_full_prefix(self) -> None:
        records, folders = objects.list_folder(self.guards)
        names = [name.rpartition("/")[2] for name in (*folders, *(r.key for r in records))]
        if others := [name for name in names if name != CLAIM]:
            objects.delete(self.object)
            raise LockedError(
                f"{self.guards} holds {len(others)} objects or folders but no dataset (such as "
                f"{join(self.guards, others[0])})",
                hint="name a new prefix; or, if a preparation that was given up left them, pass "
                "run=Run(break_lock=True) to replace them",
            )

    def taken(self, theirs: bytes) -> LockedError:
        fields = holder_in(theirs)
        who = "its claim was removed, or cannot be read"
        if fields:
            where = f"{fields.get('work_dir')} on {fields.get('host')}"
            who = f"work folder {where}, since {fields.get('since')}"
        return LockedError(
            f"another preparation writes to {self.guards} ({who})",
            hint="wait for it to end, or resume it from its work folder; if it was given up, pass "
            "run=Run(break_lock=True) to take over",
        )


def upload_shard(plan: Plan, shard: ShardEntry) -> dict[str, Any]:
    """Upload the files of a finished shard, remove them here, and return the facts."""
    path = plan.workspace.out_dir / shard.file
    blocks = "" if shard.packed is not None else block_hashes.hash_blocks(path)
    uploaded = upload_files(plan, [file.file for file in shard.files])
    return {**uploaded, BLOCKS: {shard.file: blocks}}


def upload_files(plan: Plan, names: list[str]) -> dict[str, Any]:
    """Upload finished files of the dataset, remove them here, and return the facts."""
    assert plan.destination is not None
    claim = PrefixClaim.of(plan.workspace, plan.destination)
    folder = plan.workspace.out_dir
    uploaded = {name: upload_file(claim, folder, name) for name in names}
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return {UPLOADED: uploaded}


def upload_file(claim: PrefixClaim, folder: Path, name: str) -> tuple[int, str]:
    """Upload one file, and return its size and ETag there."""
    # What is there and differs was given up by others, or we were.
    found = objects.upload_once(folder / name, join(claim.guards, name), claim.check)
    return found.size, found.etag


def upload_block_hashes(
    workspace: Workspace, manifest: Manifest, before: Manifest | None, address: str
) -> None:
    """Write the hashes of the blocks of all shards; those of old shards are in the old file."""
    known: dict[str, str] = {}
    if before is not None:
        where = join(address, block_hashes.file_name(before.to_bytes()))
        old = objects.read_all(where, at_most=_MAX_BLOCKS_BYTES)
        known = block_hashes.parse(old, before) if old is not None else {}
    for _, receipt in workspace.logs("shards").items():
        known |= receipt.get(BLOCKS, {})
    if (data := block_hashes.to_bytes(manifest, known)) is not None:
        objects.put(join(address, block_hashes.file_name(manifest.to_bytes())), data)


def refuse_changed(workspace: Workspace, address: str) -> None:
    """Raise where an object is not what was uploaded; its shard will be made again."""
    listed = {r.key: (r.size, r.etag) for r in objects.list_records(address)}
    prefix = split(address).key
    changed: dict[str, tuple[str, str]] = {}  # stages and names of receipts, by file
    for stage in _STAGES_THAT_UPLOAD:
        for name, receipt in workspace.logs(stage).items():
            for file, known in receipt.get(UPLOADED, {}).items():
                if listed.get(f"{prefix}/{file}" if prefix else file) == tuple(known):
                    continue
                found = objects.find(join(address, file))  # lists may be old
                if found is None or (found.size, found.etag) != tuple(known):
                    changed[file] = stage, name
    if changed:
        for stage in _STAGES_THAT_UPLOAD:
            workspace.logs(stage).remove({name for of, name in changed.values() if of == stage})
        raise LockedError(
            f"{len(changed)} uploaded objects are no longer what was uploaded (such as "
            f"{join(address, min(changed))})",
            hint="something else writes there; nothing was published; when it has ended, the same "
            "command makes them again",
        )


@dataclass(frozen=True)
class RemoteTarget(Target):
    """A dataset in a bucket, made in a folder."""

    replaced: Manifest | None = None
    """The dataset that is replaced."""

    @property
    def replaces(self) -> bool:
        return self.replaced is not None

    def finished_at(self) -> int:
        """When the manifest was written, in nanoseconds; S3 rounds down to seconds."""
        return objects.stat(join(self.name, FILE_NAME)).modified_ns + 10**9 - 1

    def size_of(self, file: str) -> int | None:
        if (size := self._listed.get(file)) is not None:
            return size
        found = objects.find(join(self.name, file))  # lists may be old
        return None if found is None else found.size

    @cached_property
    def _listed(self) -> dict[str, int]:
        key = split(self.name).key
        start = f"{key}/" if key else ""
        return {r.key.removeprefix(start): r.size for r in objects.list_records(self.name)}

    def read_file(self, file: str) -> bytes:
        return objects.read_all(join(self.name, file), at_most=MAX_BYTES) or b""

    def folder_for(self, settings: Settings, sources: Sequence[Source]) -> str:
        """Where new files go inside the dataset: never to the name of a file that is in use."""
        if self.previous is not None:
            assert self.previous.tokenizer.state is not None  # `settings_for` has refused it
            folder = str(PurePosixPath(self.previous.tokenizer.state.file).parent)
            return "" if folder == "." else f"{folder}/"
        if self.replaced is None:
            return ""
        known = [[source.name, source.size, source.mtime_ns] for source in sources]
        made_of = orjson.dumps([settings.to_json(for_manifest=True), known])
        return f"v-{xxhash.xxh3_64_hexdigest(made_of)}/"

    def finish(self) -> None:
        """Compare what is in the bucket, publish by the manifest, then clear up."""
        here = self.workspace.out_dir
        claim = PrefixClaim.of(self.workspace, self.name)
        manifest = Manifest.load(here)
        for entry in manifest.files_beside_shards:
            if (here / entry.file).exists():  # else it is of the dataset that is added to
                upload_file(claim, here, entry.file)
        refuse_changed(self.workspace, self.name)
        upload_block_hashes(self.workspace, manifest, self.previous, self.name)
        self.workspace.keep(CARD, (here / "README.md").read_bytes())
        claim.check()
        self._publish(manifest)
        if self.replaced is not None:
            # Objects of datasets before the one that was replaced, by name.
            used = {*manifest.files(), *self.replaced.files()}
            used |= {block_hashes.file_name(kept.to_bytes()) for kept in (manifest, self.replaced)}
            for name in self._listed:
                if name not in used and _OUR_OBJECT.fullmatch(name):
                    objects.delete(join(self.name, name))
        self.clear_up()

    def clear_up(self) -> None:
        """Upload the card, which is for people; end the claim; empty the work folder."""
        folder = self.workspace.out_dir
        if self.workspace.has(CARD):
            objects.put(join(self.name, "README.md"), self.workspace.read(CARD))
        PrefixClaim.of(self.workspace, self.name).release()
        names = {"train", "val", FILE_NAME, "README.md", *(p.name for p in folder.glob("val_*"))}
        with suppress(TokenmillError):
            names |= {PurePosixPath(file).parts[0] for file in Manifest.load(folder).files()}
        self.workspace.remove()
        for name in names:
            remove(folder / name)
        with suppress(OSError):
            folder.rmdir()

    def _publish(self, manifest: Manifest) -> None:
        """Write the manifest where none is, or over the one that was there at the start."""
        where = join(self.name, FILE_NAME)
        before = self.previous or self.replaced
        condition = objects.NEW
        if before is not None:
            there = objects.read_with_etag(where, at_most=MAX_BYTES)
            known = {before.digest, manifest.digest}
            if there is None or Manifest.parse(there[0], where=where).digest not in known:
                raise LockedError(
                    f"{where} is no longer the manifest that was there at the start",
                    hint="another writer changed the dataset; look at it, then prepare again",
                )
            condition = there[1]
        objects.put_if(where, manifest.to_bytes(), condition)


@contextmanager
def open_remote_target(
    address: str, run: Run, *, append: bool, overwrite: bool
) -> Iterator[RemoteTarget]:
    """Look at the bucket, and claim the prefix where it will be written to, before anything."""
    address = check_address(address)
    if run.work_dir is None:
        raise ValueError(
            f"to write to {address}, tokenmill needs a work folder with room for the tokens, which "
            "all machines that take part can see, or a prefix in a bucket; pass "
            "run=Run(work_dir=...)"
        )
    work = _work_at(run.work_dir, address, run)
    with hold_workspace(work, break_lock=run.break_lock) as workspace:
        found = Manifest.find(address)
        if append and found is None:
            raise NotADatasetError(
                f"there is no dataset at {address}, so nothing can be added to it",
                hint="leave append out to make one",
            )
        target = _target(workspace, address, found, append=append, overwrite=overwrite)
        if found is not None and not append and not overwrite:
            yield target  # nothing will be written
            return
        claim = PrefixClaim.of(workspace, address)
        is_new = claim.take(lambda _: run.break_lock)
        if is_new and found is None and not run.break_lock:
            claim.refuse_full_prefix()
        try:
            yield target
        finally:
            if not workspace.has(PLAN):
                with suppress(TokenmillError):
                    claim.release()


def _work_at(work_dir: str | os.PathLike[str], address: str, run: Run) -> Workspace:
    """Return the workspace that the user named: what is made there is removed again."""
    if isinstance(work_dir, str) and is_remote(work_dir):
        from tokenmill.preparation.workspace.work_bucket import BucketPlace, open_bucket

        place = BucketPlace.of(work_dir, run.scratch, run.max_scratch)
        if f"{place}/".startswith(f"{address}/") or f"{address}/".startswith(f"{place}/"):
            raise ValueError(
                f"work_dir is {place}, but the dataset goes to {address}: one must not be inside "
                "the other; name another prefix for the work"
            )
        return open_bucket(place)
    folder = Path(work_dir)
    if (folder / FILE_NAME).exists() and not WorkFolder(folder).has(PLAN):
        raise SettingsMismatchError(
            f"{folder} holds a dataset, so it cannot be the work folder of another",
            hint="name an empty or new folder",
        )
    refuse_strange_folder(folder)
    return WorkFolder(folder)


def resume_remote_target(plan: Plan) -> RemoteTarget:
    """Return the target of a plan that was made before, for numbered jobs."""
    assert plan.destination is not None
    append = plan.previous is not None
    found = Manifest.find(plan.destination) if append or plan.folder else None
    return _target(plan.workspace, plan.destination, found, append=append, overwrite=not append)


def _target(
    workspace: Workspace, address: str, found: Manifest | None, *, append: bool, overwrite: bool
) -> RemoteTarget:
    return RemoteTarget(
        workspace.out_dir,
        workspace,
        None if overwrite else found,
        append,
        destination=address,
        replaced=found if overwrite else None,
    )
