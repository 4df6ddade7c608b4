"""Manifest and documents of the dataset that is added to, on the disk or in a bucket."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.address import join
from tokenmill.base.atomic import keep
from tokenmill.base.hashing import regular
from tokenmill.errors import CorruptShardError, SettingsMismatchError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.shards.entries import PackableEntry, ShardEntry
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, Manifest
from tokenmill.shards.packed import unpacked

KEPT = "previous.json"


def old_manifest(plan: Plan) -> Manifest:
    """Return the manifest of the dataset as it was when the plan was made."""
    if plan.destination is None:
        return Manifest.load(plan.workspace.out_dir)
    path = plan.workspace.root / KEPT
    where = join(plan.destination, FILE_NAME)
    if not path.exists():
        from tokenmill.stores import objects

        keep(path, objects.read_all(where, at_most=MAX_BYTES) or b"")
    manifest = Manifest.parse(path.read_bytes(), where=where)
    if manifest.digest != plan.previous:
        path.unlink()
        raise SettingsMismatchError(
            f"{plan.destination} changed since the plan to add to it was made",
            hint=f"remove {plan.workspace.root} and prepare again",
        )
    return manifest


def old_documents(plan: Plan, shards: Sequence[ShardEntry], at: int) -> Iterator[np.ndarray]:
    """Yield the ids of every document that ends in shard `at`, whatever shards it began in.

    They come without end-of-text, which a document lacks that the held-out end cut in two, and
    without begin token, which the second half of such a document lacks.
    """
    tokens, ends = _tokens_and_ends(plan, shards[at])
    if not len(ends):
        return
    before: list[np.ndarray] = []  # what earlier shards hold of the first document
    for earlier in reversed(shards[:at]):
        earlier_tokens, earlier_ends = _tokens_and_ends(plan, earlier)
        before.insert(0, earlier_tokens[earlier_ends[-1] if len(earlier_ends) else 0 :])
        if len(earlier_ends):
            break
    start = 0
    for stop in ends.tolist():
        ids = np.concatenate([*before, tokens[start:stop]]) if before else tokens[start:stop]
        ids = ids[1:] if ids[0] == plan.begin_token_id else ids
        yield ids[:-1] if len(ids) and ids[-1] == plan.tokenizer.end_of_text_id else ids
        start = stop
        before = []


def _tokens_and_ends(plan: Plan, shard: ShardEntry) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of an old shard, and the ends of its documents."""
    return _content(plan, shard).view(plan.dtype), _content(plan, shard.ends).view("<i8")


def _content(plan: Plan, entry: PackableEntry) -> np.ndarray:
    """Map the bytes of a file; unpacked or fetched, they take no room once the array is gone."""
    if entry.num_bytes == 0:
        return np.empty(0, np.uint8)
    path = plan.workspace.out_dir / entry.on_disk.file
    if plan.destination is None and entry.packed is None:
        return np.memmap(path, np.uint8, mode="r")
    file: Any
    if plan.destination is None:
        file = os.fdopen(regular(path), "rb")
    else:
        from tokenmill.stores.object_file import ObjectFile

        file = ObjectFile(join(plan.destination, entry.on_disk.file), hashed=True)
    hasher = xxhash.xxh3_128()
    with (
        tempfile.TemporaryFile(dir=plan.workspace.root) as copy,
        unpacked(file, entry) as source,
    ):
        while block := source.read(4 << 20):
            hasher.update(block)
            copy.write(block)
        copy.flush()
        if hasher.hexdigest() != entry.xxh3_128:
            raise CorruptShardError(
                f"{join(str(plan.destination or plan.workspace.out_dir), entry.on_disk.file)} is "
                f"not what its manifest says (xxh3-128 {entry.xxh3_128})",
                hint="the file was replaced or damaged; nothing was added",
            )
        return np.memmap(copy, np.uint8, mode="r")
