"""Hashes of the blocks of shards: so that a part of a shard can be checked without the rest.

A dataset in a store has them in a file named by the hash of its manifest (format.md), since
the manifest of a large dataset would become too long. Without it, shards are read whole.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import xxhash

from tokenmill.shards.manifest import Manifest, ShardEntry

BLOCK_BYTES = 1 << 20
MAGIC = b"tokenmill-blocks"
_DIGEST = 16


def file_name(manifest: bytes) -> str:
    """What the file is called that belongs to these bytes of a manifest."""
    return f"block_hashes-{xxhash.xxh3_64_hexdigest(manifest)}.xxh3"


def num_blocks(shard: ShardEntry) -> int:
    """How many blocks a shard has, the last one perhaps shorter; compressed ones have frames."""
    return 0 if shard.packed is not None else -(-shard.num_bytes // BLOCK_BYTES)


def hash_blocks(path: Path) -> str:
    """The entries of all blocks of a file, as hex."""
    found = bytearray()
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            found += xxhash.xxh3_64_intdigest(block).to_bytes(8, "little")
    return found.hex()


def to_bytes(manifest: Manifest, blocks: Mapping[str, str]) -> bytes | None:
    """The file, from the entries of each shard; None where those of some shard are unknown."""
    parts = [MAGIC]
    for shard in manifest.shards:
        entries = bytes.fromhex(blocks.get(shard.file, ""))
        if len(entries) != 8 * num_blocks(shard):
            return None
        parts += [bytes.fromhex(shard.xxh3_128), entries]
    return b"".join(parts)


def parse(data: bytes, manifest: Manifest) -> dict[str, str]:
    """The entries of each shard that are sound, as hex; the opposite of `to_bytes`."""
    found: dict[str, str] = {}
    ranges = find_ranges(manifest)
    for shard in manifest.shards:
        start, stop, _ = ranges[shard.file]
        stated = data[start : start + _DIGEST].hex()
        if data.startswith(MAGIC) and stated == shard.xxh3_128 and stop <= len(data):
            found[shard.file] = data[start + _DIGEST : stop].hex()
    return found


def find_ranges(manifest: Manifest) -> dict[str, tuple[int, int, int]]:
    """Where each shard is in the file: its first byte, its end, and the end of the file."""
    sizes = [_DIGEST + 8 * num_blocks(shard) for shard in manifest.shards]
    edges = list(itertools.accumulate(sizes, initial=len(MAGIC)))
    ranges = itertools.pairwise(edges)
    return {
        shard.file: (start, stop, edges[-1])
        for shard, (start, stop) in zip(manifest.shards, ranges, strict=True)
    }


def read_entry(data: bytes, digest: str) -> np.ndarray | None:
    """The hashes of the blocks of one shard, from its entry; None where it is of another one."""
    if data[:_DIGEST].hex() != digest:
        return None
    return np.frombuffer(data, "<u8", offset=_DIGEST)
