"""Where a preparation into a bucket goes: a new prefix, a dataset that is added to, or replaced.

New objects are written under names that no manifest uses, and the manifest last, on the condition
that it is still the one that was seen at the start. So a reader sees the old dataset or the new
one, never a part of both. What replaces a dataset goes into a folder of its own below the prefix
(`v-0123456789abcdef/`). The objects of the dataset before stay for its readers, until the next
`--overwrite`.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import ClassVar

import orjson
import xxhash

from tokenmill.base.address import check_address, join, split
from tokenmill.errors import (
    CorruptShardError,
    LockedError,
    NotADatasetError,
    SettingsMismatchError,
    TokenmillError,
)
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.stages.accounts import Summary
from tokenmill.preparation.workspace.claim import Claim
from tokenmill.preparation.workspace.target import Target, hold_workspace, refuse_strange_folder
from tokenmill.preparation.workspace.upload_shards import (
    refuse_changed,
    upload_block_hashes,
    upload_file,
)
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.shards import block_hashes
from tokenmill.shards.entries import FileEntry
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, Manifest
from tokenmill.stores import objects
from tokenmill.text.inputs.open_input import Source

_OUR_OBJECT = re.compile(
    r"(?:v-[0-9a-f]{16}/)?(?:[\w-]+/shard_\d+\.\S+|tokenizer_state\.json)"
    r"|block_hashes-[0-9a-f]{16}\.xxh3|(?:v-[0-9a-f]{16}/)?sources-[0-9a-f]{16}\.jsonl"
)


@dataclass(frozen=True)
class RemoteTarget(Target):
    """A dataset in a bucket, made in a folder."""

    replaced: Manifest | None = None
    """The dataset that is replaced."""
    remedy: ClassVar[str] = "pass overwrite=True to make it again, or bring the objects back"

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

    def read_file(self, file: FileEntry) -> bytes:
        where = join(self.name, file.file)
        data = objects.read_all(where, at_most=MAX_BYTES)
        if data is None or xxhash.xxh3_128_hexdigest(data) != file.xxh3_128:
            raise CorruptShardError(
                f"{where} is not what its manifest says (xxh3-128 {file.xxh3_128})",
                hint=self.remedy,
            )
        return data

    def folder_for(self, settings: Settings, sources: Sequence[Source]) -> str:
        """Where new files go inside the dataset: never to the name of a file that is in use."""
        if self.previous is not None:
            folder = str(PurePosixPath(self.previous.tokenizer.state.file).parent)
            return "" if folder == "." else f"{folder}/"
        if self.replaced is None:
            return ""
        known = [[source.name, source.size, source.mtime_ns] for source in sources]
        made_of = orjson.dumps([settings.to_json(for_manifest=True), known])
        return f"v-{xxhash.xxh3_64_hexdigest(made_of)}/"

    def already_done(self, wanted: Settings, sources: list[Source]) -> Summary | None:
        """As for a folder; what a run left that was killed at its very end is removed."""
        ours = self.found is not None and self.workspace.has_published(self.found.digest)
        claim = Claim.of(self.workspace, self.name) if ours else None
        if done := super().already_done(wanted, sources):
            if claim is not None:
                self._clear_up(claim)
            remove_work(self.workspace.out_dir)
        return done

    def finish(self) -> None:
        """Compare what is in the bucket, publish by the manifest, then clear up."""
        here = self.workspace.out_dir
        claim = Claim.of(self.workspace, self.name)
        manifest = Manifest.load(here)
        for entry in manifest.files_beside_shards:
            upload_file(claim, here, entry.file)
        refuse_changed(self.workspace, manifest, self.name)
        upload_block_hashes(self.workspace, manifest, self.previous, self.name)
        claim.check()
        self._publish(manifest)
        if self.replaced is not None:
            self._remove_what_nobody_reads(manifest, self.replaced)
        self._clear_up(claim)
        remove_work(here)

    def _clear_up(self, claim: Claim) -> None:
        """The card is for people and goes up when the dataset is there; then the claim ends."""
        if (card := self.workspace.out_dir / "README.md").exists():
            objects.upload(card, join(self.name, card.name))
        claim.release()

    def _publish(self, manifest: Manifest) -> None:
        """Write the manifest where none is, or over the one that was there at the start."""
        where, before = join(self.name, FILE_NAME), self.previous or self.replaced
        condition = objects.NEW
        if before is not None:
            there = objects.read_with_etag(where, at_most=MAX_BYTES)
            known = {before.digest, manifest.digest}
            if there is None or Manifest.parse(there[0], where=where).digest not in known:
                raise LockedError(
                    f"{where} is no longer the manifest that was there at the start",
                    hint="somebody else changed the dataset; look at it, then prepare again",
                )
            condition = there[1]
        objects.put_if(where, manifest.to_bytes(), condition)

    def _remove_what_nobody_reads(self, manifest: Manifest, replaced: Manifest) -> None:
        """Objects of datasets before the one that was replaced; by name, never anything else."""
        used = {*manifest.files(), *replaced.files()}
        used |= {block_hashes.file_name(kept.to_bytes()) for kept in (manifest, replaced)}
        for name in self._listed:
            if name not in used and _OUR_OBJECT.fullmatch(name):
                objects.delete(join(self.name, name))


def remove_work(folder: Path) -> None:
    """Remove everything that a preparation leaves in its work folder."""
    tops = {"train", "val", *(path.name for path in folder.glob("val_*"))}
    with suppress(TokenmillError):
        tops |= {PurePosixPath(file).parts[0] for file in Manifest.load(folder).files()}
    Workspace(folder).remove()
    for name in (FILE_NAME, "README.md", *tops):
        if (folder / name).is_dir():
            shutil.rmtree(folder / name, ignore_errors=True)
        else:
            (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def open_remote_target(
    address: str,
    work_dir: str | os.PathLike[str] | None,
    *,
    append: bool,
    overwrite: bool,
    break_lock: bool,
) -> Iterator[RemoteTarget]:
    """Look at the bucket, and claim the prefix where it will be written to, before anything."""
    address = check_address(address)
    if work_dir is None:
        raise ValueError(
            f"the way to {address} needs a folder with room for the tokens, which all machines "
            "that take part can see; pass run=Run(work_dir=...)"
        )
    if Path(work_dir, FILE_NAME).exists() and not Workspace(Path(work_dir)).plan_file.exists():
        raise SettingsMismatchError(
            f"{work_dir} holds a dataset, so it is no place for the work on another",
            hint="name an empty or new folder",
        )
    refuse_strange_folder(Path(work_dir))  # what is made there is removed again, by name
    with hold_workspace(Path(work_dir), break_lock=break_lock) as workspace:
        found = Manifest.find(address)
        if append and found is None:
            raise NotADatasetError(
                f"there is no dataset at {address}, so nothing can be added to it",
                hint="leave append out to make one",
            )
        target = RemoteTarget(
            Path(work_dir),
            workspace,
            None if overwrite else found,
            append,
            destination=address,
            replaced=found if overwrite else None,
        )
        if found is not None and not append and not overwrite:
            yield target  # nothing will be written
            return
        claim = Claim.of(workspace, address)
        claim.take(break_lock=break_lock, may_be_full=found is not None)
        try:
            yield target
        finally:
            if not workspace.plan_file.exists():
                with suppress(TokenmillError):
                    claim.release()


def resume_remote_target(work_dir: Path, plan: Plan) -> RemoteTarget:
    """The target of a plan that was made before, for numbered jobs."""
    assert plan.destination is not None
    found = Manifest.find(plan.destination) if plan.previous or plan.folder else None
    append = plan.previous is not None
    target = RemoteTarget(
        work_dir,
        plan.workspace,
        found if append else None,
        append,
        destination=plan.destination,
        replaced=None if append else found,
    )
    if append and target.previous_hash != plan.previous:
        raise SettingsMismatchError(
            f"{plan.destination} changed since the plan to add to it was made",
            hint=f"remove {plan.workspace.root} and plan again",
        )
    return target
