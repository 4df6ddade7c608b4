"""Bring shards to a bucket as they are finished, and know at the end that they are still there.

Each file goes up whole, under a name that no dataset uses, on the condition that there is none;
what is found there instead must be the same bytes, or waste of a preparation that was given up.
What the store called it (its ETag) is kept in the receipt, and compared before the manifest is
written: an object that somebody else replaced is noticed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import xxhash

from tokenmill.base.address import join, split
from tokenmill.errors import LockedError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.workspace.claim import Claim
from tokenmill.preparation.workspace.work_folder import Workspace
from tokenmill.shards.block_hashes import file_name, hash_blocks, parse, to_bytes
from tokenmill.shards.entries import ShardEntry
from tokenmill.shards.manifest import Manifest
from tokenmill.stores import objects
from tokenmill.stores.object_file import ObjectFile

BLOCKS = "blocks"
"""The key of a receipt: file to the hashes of its blocks."""
MAX_BLOCKS = 1 << 30
UPLOADED = "uploaded"
"""The key of a receipt: file to [size, ETag]."""
Uploaded = dict[str, tuple[int, str]]


def upload_shard(plan: Plan, shard: ShardEntry) -> dict[str, Any]:
    """Bring the files of a finished shard to their place, and remove them here; the facts."""
    assert plan.destination is not None
    claim, folder = Claim.of(plan.workspace, plan.destination), plan.workspace.out_dir
    names = [file.file for file in shard.files]
    blocks = "" if shard.packed is not None else hash_blocks(folder / shard.file)
    uploaded = {name: upload_file(claim, folder, name) for name in names}
    for name in names:
        (folder / name).unlink(missing_ok=True)
    return {UPLOADED: uploaded, BLOCKS: {shard.file: blocks}}


def upload_block_hashes(
    workspace: Workspace, manifest: Manifest, before: Manifest | None, address: str
) -> None:
    """Write the hashes of the blocks of all shards; those of old shards are in the old file."""
    known: dict[str, str] = {}
    if before is not None:
        old = objects.read_all(join(address, file_name(before.to_bytes())), at_most=MAX_BLOCKS)
        known = parse(old, before) if old is not None else {}
    for _, receipt in workspace.logs("shards").items():
        known |= receipt.get(BLOCKS, {})
    if (data := to_bytes(manifest, known)) is not None:
        objects.put(join(address, file_name(manifest.to_bytes())), data)


def upload_file(claim: Claim, folder: Path, name: str) -> tuple[int, str]:
    """Bring one file to its place; its size and ETag there."""
    path, address = folder / name, join(claim.address, name)
    found = objects.upload(path, address, objects.NEW)
    if found is None and objects.has_content_of(address, path):
        found = objects.stat(address)  # an earlier try of ours
    elif found is None:
        claim.check()  # what is there was given up by others, or we were
        found = objects.upload(path, address)
    assert found is not None
    return found.size, found.etag


def refuse_changed(workspace: Workspace, manifest: Manifest, address: str) -> None:
    """Raise where an object is not what was uploaded; its shard will be made again."""
    uploaded, receipts = _receipts(workspace)
    hashes = {file: digest for file, digest in _hashes(manifest) if file in uploaded}
    key = split(address).key
    listed = {
        record.key.removeprefix(f"{key}/" if key else ""): (record.size, record.etag)
        for record in objects.list_records(address)
    }
    changed = [
        file
        for file, known in uploaded.items()
        if listed.get(file) != known and not _is_same(join(address, file), known, hashes.get(file))
    ]
    if not changed:
        return
    workspace.logs("shards").remove({receipts[file] for file in changed})
    raise LockedError(
        f"{len(changed)} of {len(uploaded)} uploaded objects are no longer what was uploaded (such "
        f"as {join(address, changed[0])})",
        hint="something else writes there; nothing was published; when it has ended, the same "
        "command makes them again",
    )


def _is_same(address: str, known: tuple[int, str], digest: str | None) -> bool:
    """Lists may be old, and the same bytes may have been written again: look at the object."""
    if (found := objects.find(address)) is None:
        return False
    return (found.size, found.etag) == known or (
        found.size == known[0] and digest is not None and hash_object(address) == digest
    )


def hash_object(address: str) -> str:
    """The xxh3-128 of an object, read in blocks."""
    hasher = xxhash.xxh3_128()
    with ObjectFile(address) as file:
        while block := file.read(4 << 20):
            hasher.update(block)
    return hasher.hexdigest()


def _receipts(workspace: Workspace) -> tuple[Uploaded, dict[str, str]]:
    """What was uploaded by the receipts of all shards, and the name of the receipt of each file."""
    uploaded: Uploaded = {}
    receipts: dict[str, str] = {}
    for name, receipt in workspace.logs("shards").items():
        for file, (size, etag) in receipt.get(UPLOADED, {}).items():
            uploaded[file], receipts[file] = (size, etag), name
    return uploaded, receipts


def _hashes(manifest: Manifest) -> Iterable[tuple[str, str]]:
    for entry in manifest.splits.values():
        for shard in entry.shards:
            yield from ((file.file, file.xxh3_128) for file in shard.files)
