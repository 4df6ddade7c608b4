"""A tokenmill dataset compressed, or unpacked: the same tokens, names and shards in other files.

Unlike a conversion it keeps all that the manifest says: splits, sources, settings, accounts, and
with them the fingerprint: the state of a run on the one resumes on the other.
"""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from tokenmill.base.atomic import write_atomically
from tokenmill.errors import CorruptShardError
from tokenmill.reading.token_file import check_hash
from tokenmill.shards.card import repacked_card
from tokenmill.shards.manifest import EndsEntry, Manifest, ShardEntry, SplitEntry, level_of
from tokenmill.shards.verify import read_blocks, verify
from tokenmill.shards.writer import NewFile

CARD = "README.md"
E = TypeVar("E", ShardEntry, EndsEntry)


def repack(source: Path, folder: Path, compress: str | None) -> Manifest:
    """Write the dataset at `source` to a folder; `compress` as `zstd:3`, None for plain files."""
    manifest = Manifest.load(source)
    level = None if compress is None else level_of(compress)
    splits = {
        name: SplitEntry.of(tuple(_shard(source, folder, shard, level) for shard in split.shards))
        for name, split in manifest.splits.items()
    }
    settings = {**manifest.settings, "compress": compress}
    made = replace(manifest, splits=splits, settings=settings)
    for entry in manifest.files_beside_shards:
        write_atomically(folder / entry.file, (source / entry.file).read_bytes())
    if (source / CARD).is_file():
        card = repacked_card((source / CARD).read_text("utf-8"), manifest, made)
        write_atomically(folder / CARD, card.encode())
    made.write(folder)
    for finding in verify(folder, full=True):
        raise CorruptShardError(f"what was written is not what was read: {finding}")
    return made


def _shard(source: Path, folder: Path, shard: ShardEntry, level: int | None) -> ShardEntry:
    index = _file(source, folder, shard.ends, level)
    return replace(_file(source, folder, shard, level), ends=index)


def _file(source: Path, folder: Path, entry: E, level: int | None) -> E:
    """Write the file of a shard or an index; return its entry."""
    with NewFile(folder, entry.file, durable=True, level=level) as file:
        for block in read_blocks(source, entry):
            file.write(memoryview(block))
        _, digest, packed = file.finish()
    check_hash(str(source / entry.on_disk.file), entry.xxh3_128, digest)
    return replace(entry, packed=packed)
