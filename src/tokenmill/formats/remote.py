"""Datasets in a store: tokenmill's by their manifest, those of others through a mirror.

The manifest is read when a dataset is opened and its shards when they are touched; names come from
the manifest, never from a listing.
"""

import functools
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tokenmill.base.address import check_address, join
from tokenmill.errors import NotADatasetError
from tokenmill.formats import ours, registry
from tokenmill.formats.detect import detect
from tokenmill.formats.format import Ask, FoundData
from tokenmill.formats.mirror import make_mirror
from tokenmill.reading.shard_cache import CachedFile, ShardCache
from tokenmill.reading.token_file import Lazy
from tokenmill.shards import block_hashes
from tokenmill.shards.entries import EndsEntry, FileEntry
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, Manifest
from tokenmill.stores import objects

BLOCKS_AT_ONCE = 4 << 20
"""A file of block hashes up to this size is read whole, for a dataset of up to 500 GB."""
_reading_blocks = threading.Lock()


def detect_remote(
    addresses: Sequence[str], split: str | None, *, format: str | None, ask: Ask, cache: ShardCache
) -> FoundData:
    """Return the shards of a split, as `detect` does for paths."""
    if len(addresses) == 1 and format in (None, registry.OURS):
        found = _read_ours(addresses[0], split, ask, cache)
        if found is not None:
            return found
        if format is not None:
            raise NotADatasetError(f"there is no {join(addresses[0], FILE_NAME)}")
    expanded = [address for item in addresses for address in _expand(item)]
    mirror = make_mirror(expanded, cache)
    with mirror.errors_with_addresses():
        paths = [mirror.path(address) for address in expanded]
        is_one = len(addresses) == 1 == len(paths)
        found = detect(paths[0] if is_one else paths, split, format=format, ask=ask)
    return found.with_files(mirror.with_addresses(found.files))


def _expand(address: str) -> list[str]:
    """Return one address, or what a glob matches."""
    import glob

    address = check_address(address)
    if not glob.has_magic(address):
        return [address]
    if not (matching := objects.list_matching(address)):
        raise NotADatasetError(f"no object matches {address!r}")
    return matching


def _read_ours(address: str, split: str | None, ask: Ask, cache: ShardCache) -> FoundData | None:
    """Return the shards of a split, by the manifest at an address; None where there is none."""
    address = check_address(address)
    where = join(address, FILE_NAME)
    data = objects.read_all(where, at_most=MAX_BYTES)
    if data is None:
        return None
    manifest = Manifest.parse(data, where=where)
    found = ours.describe(manifest, split, ask, _Bucket(address, cache))
    blocks_file = join(address, block_hashes.file_name(data))
    starts = block_hashes.find_starts(manifest).tolist()
    blocks = {}
    for shard, (start, stop) in zip(manifest.shards, pairwise(starts), strict=True):
        args = (blocks_file, start, stop, starts[-1], shard.xxh3_128)
        blocks[join(address, shard.file)] = Lazy(load_blocks, args)  # plain shards have blocks
    return found.with_files(replace(file, blocks=blocks.get(file.path)) for file in found.files)


class _Bucket:
    """A dataset in a store: nothing is fetched when it is opened."""

    def __init__(self, folder: str, cache: ShardCache) -> None:
        self.folder = folder
        self.cache = cache

    def path(self, name: str, size: int) -> str:
        return join(self.folder, name)

    def ends(self, path: str, entry: EndsEntry) -> Lazy:
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128, packed=ours.packed(entry))
        return Lazy(fetch_ends, (self.cache, file), entry.num_documents, path)

    def state(self, path: str, entry: FileEntry) -> Lazy:
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128)
        return Lazy(fetch, (self.cache, file), file=path)


def load_blocks(address: str, start: int, stop: int, size: int, digest: str) -> np.ndarray | None:
    """Return the hashes of the blocks of a shard, from the file of all; None without that file."""
    if size > BLOCKS_AT_ONCE:
        entry = objects.read_if_there(address, start, stop, size)
        return None if entry is None else block_hashes.read_entry(entry, digest)
    with _reading_blocks:  # all threads need the same file
        data = _read_all_blocks(address, size)
    return None if data is None else block_hashes.read_entry(data[start:stop], digest)


@functools.lru_cache(maxsize=64)
def _read_all_blocks(address: str, size: int) -> bytes | None:
    return objects.read_if_there(address, 0, size, size)


def fetch(cache: ShardCache, file: CachedFile) -> bytes:
    """Return all bytes of a small file, through the cache."""
    with os.fdopen(cache.open(file), "rb") as copy:
        return copy.read()


def fetch_ends(cache: ShardCache, file: CachedFile) -> np.ndarray:
    """Return where documents end in a shard: int64."""
    data = fetch(cache, file) if file.size else b""
    return np.frombuffer(data, "<i8")
