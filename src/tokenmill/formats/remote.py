"""Datasets in a store: tokenmill's by their manifest, those of others through a mirror.

A mirror shows the files of other projects as a folder, so that every format opens them as it opens
files: one file in the cache for each object, of its size, with its first bytes and a hole after
them. `open_object` gives all bytes of such a file, through the cache, as tokens are read too. A
mirror is named by what is in the store (sizes and ETags): other objects make another mirror.
"""

import functools
import glob
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import orjson
import xxhash

from tokenmill.base.address import WRITABLE, check_address, is_remote, join
from tokenmill.base.address import split as split_address
from tokenmill.base.atomic import write_atomically
from tokenmill.base.suggest import did_you_mean
from tokenmill.errors import NotADatasetError, TokenmillError
from tokenmill.formats import ours
from tokenmill.formats.detect import detect
from tokenmill.formats.format import OURS, Ask, FoundData
from tokenmill.formats.untrusted import HEAD_BYTES
from tokenmill.reading.shard_cache import CachedFile, ShardCache
from tokenmill.reading.token_file import Lazy, TokenFile
from tokenmill.shards import block_hashes
from tokenmill.shards.manifest import (
    FILE_NAME,
    MAX_BYTES,
    EndsEntry,
    FactsEntry,
    FileEntry,
    Manifest,
    ShardEntry,
)
from tokenmill.stores import objects
from tokenmill.stores.store_requests import ObjectStat

MARK = ".objects.json"
UNUSED = 7 * 86400.0
"""Seconds after which a mirror that nobody opened is removed."""
_NAME = re.compile(r"(.*/tokenmill-objects-[0-9a-f]{32})/(.+)", re.DOTALL)
_BESIDE = (".bin", ".idx", ".index", ".metadata", ".csv.gz", ".tokenizer_state.json", ".loss",
           ".labels_mask")  # fmt: skip

Objects = dict[str, tuple[int, str]]
"""Key to size and ETag."""


def detect_remote(
    addresses: Sequence[str], split: str | None, *, format: str | None, ask: Ask, cache: ShardCache
) -> FoundData:
    """Return the shards of a split, as `detect` does for paths."""
    if len(addresses) == 1 and format in (None, OURS):
        found = _read_ours(addresses[0], split, ask, cache)
        if found is not None:
            return found
        if format is not None:
            raise NotADatasetError(f"there is no {join(addresses[0], FILE_NAME)}")
    expanded = [address for item in addresses for address in _expand(item)]
    mirror = make_mirror(expanded, cache)
    paths = [str(mirror.root / split_address(address).key) for address in expanded]
    is_one = len(addresses) == 1 == len(paths)
    try:
        found = detect(paths[0] if is_one else paths, split, format=format, ask=ask)
    except TokenmillError as error:  # name the objects, not the files of the mirror
        error.message = error.message.replace(str(mirror.root), mirror.bucket)
        error.hint = error.hint and error.hint.replace(str(mirror.root), mirror.bucket)
        raise
    return found.with_files(_in_store(file, mirror) for file in found.files)


def _in_store(file: TokenFile, mirror: "Mirror") -> TokenFile:
    """Return a file of the mirror as the object that it shows."""
    key = os.path.relpath(file.path, mirror.root)
    etag = mirror.objects[key][1]
    columns = tuple(c._replace(file=_in_store(c.file, mirror)) for c in file.columns)
    return replace(file, path=f"{mirror.bucket}/{key}", etag=etag, columns=columns)


def _expand(address: str) -> list[str]:
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
    blocks_file = join(address, block_hashes.file_name(data))
    bucket = _Bucket(address, cache, blocks_file, block_hashes.find_ranges(manifest))
    return ours.describe(manifest, address, split, ask, bucket)


@dataclass
class _Bucket(ours.Folder):
    """A dataset in a store: nothing is fetched when it is opened."""

    address: str
    cache: ShardCache
    blocks_file: str
    block_ranges: dict[str, tuple[int, int, int]]

    def path(self, name: str, size: int) -> str:
        return join(self.address, name)

    def blocks(self, shard: ShardEntry) -> Lazy | None:
        if shard.packed is not None:
            return None
        where = self.block_ranges[shard.file]
        return Lazy(load_blocks, (self.blocks_file, *where, shard.xxh3_128))

    def ends(self, path: str, entry: EndsEntry) -> Lazy:
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128, packed=ours.packed(entry))
        return Lazy(fetch_ends, (self.cache, file), entry.num_documents, path)

    def facts(self, path: str, entry: FactsEntry) -> Lazy:
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128)
        return Lazy(open_cached, (self.cache, file), file=path)

    def state(self, path: str, entry: FileEntry) -> Lazy:
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128)
        return Lazy(fetch, (self.cache, file), file=path)


def load_blocks(address: str, start: int, stop: int, size: int, digest: str) -> np.ndarray | None:
    """Return the hashes of the blocks of a shard, from the file of all; None without that file."""
    data = objects.read_if_there(address, start, stop, size)
    return None if data is None else block_hashes.read_entry(data, digest)


def fetch(cache: ShardCache, file: CachedFile) -> bytes:
    """Return all bytes of a small file, through the cache."""
    with os.fdopen(cache.open(file), "rb") as copy:
        return copy.read()


def open_cached(cache: ShardCache, file: CachedFile) -> BinaryIO:
    """Open a file, through the cache."""
    return os.fdopen(cache.open(file), "rb")


def fetch_ends(cache: ShardCache, file: CachedFile) -> np.ndarray:
    """Return where documents end in a shard: int64."""
    return np.frombuffer(fetch(cache, file) if file.size else b"", "<i8")


@dataclass(frozen=True)
class Mirror:
    """A folder that shows the objects of one bucket."""

    root: Path
    bucket: str
    """The address of the bucket."""
    objects: Objects
    cache: ShardCache


def make_mirror(addresses: Sequence[str], cache: ShardCache) -> Mirror:
    """A mirror of what these addresses mean: an object, a pair without its suffix, a folder."""
    bucket = split_address(addresses[0]).root
    if any(
        not is_remote(address) or split_address(address).root != bucket for address in addresses
    ):
        raise ValueError("all files of a dataset must be in one bucket")
    wanted: Objects = {}
    objects: Objects = {}
    folders: set[str] = set()
    for address in addresses:
        here, near, near_folders = _look_at(address)
        wanted |= here
        objects |= near | here
        folders |= near_folders
    known = orjson.dumps([bucket, sorted(objects.items()), sorted(wanted), cache.max_bytes])
    root = cache.folder.absolute() / f"tokenmill-objects-{xxhash.xxh3_128_hexdigest(known)}"
    mirror = Mirror(root, bucket, objects, cache)
    if not (root / MARK).exists():
        for mark in cache.folder.glob(f"tokenmill-objects-*/{MARK}"):
            if time.time() - mark.stat().st_mtime > UNUSED:
                shutil.rmtree(mark.parent, ignore_errors=True)
        _fill(mirror, wanted, folders)
    os.utime(root / MARK)  # used just now
    return mirror


def open_object(path: Path) -> BinaryIO:
    """Open the object that a file of a mirror shows, with all its bytes."""
    file, cache = object_at(path)
    if file.size <= HEAD_BYTES:
        return path.open("rb", buffering=0)
    return os.fdopen(cache.open(file), "rb", buffering=0)


def object_at(path: Path) -> tuple[CachedFile, ShardCache]:
    """Return the object that a file of a mirror shows, and the cache for it."""
    name = _NAME.fullmatch(str(path))
    assert name is not None, path
    mirror = _load(name[1])
    size, etag = mirror.objects[name[2]]
    return CachedFile(f"{mirror.bucket}/{name[2]}", size, "", etag), mirror.cache


@functools.lru_cache(maxsize=8)
def _load(root: str) -> Mirror:
    bucket, max_bytes, objects = orjson.loads((Path(root) / MARK).read_bytes())
    return Mirror(Path(root), bucket, objects, ShardCache(Path(root).parent, max_bytes))


def _look_at(address: str) -> tuple[Objects, Objects, set[str]]:
    """The objects that an address means; those beside it; and the folders beside it."""
    place = split_address(address)
    if place.scheme not in WRITABLE:
        return _probe(address), {}, set()
    below = {r.key: (r.size, r.etag) for r in objects.list_records(address)}
    near, folders = objects.list_folder(address.rpartition("/")[0] if place.key else address)
    beside = {r.key: (r.size, r.etag) for r in near}
    keys = {split_address(name).key for name in _names_near(address)}
    here = below | {key: value for key, value in beside.items() if key in keys}
    if not here:
        raise NotADatasetError(
            f"there is no object {address}, and none below it",
            hint="check the address for mistakes" + did_you_mean(place.key, [*beside, *folders]),
        )
    here, beside = (
        {key: value for key, value in found.items() if _is_file_name(key)}
        for found in (here, beside)
    )
    return here, beside, set(filter(_is_file_name, folders))


def _probe(address: str) -> Objects:
    """The object at an https address and those that may be beside it: there is no list."""
    found: Objects = {}
    for name in _names_near(address):
        if (known := objects.find(name)) is not None:
            found[split_address(name).key] = (known.size, known.etag)
    if not found:
        raise NotADatasetError(
            f"there is nothing at {address}",
            hint="name a file, or the folder of a dataset made by tokenmill; https servers have "
            "no list of their files",
        )
    return found


def _names_near(address: str) -> list[str]:
    """Return the addresses of an object and of what may describe it, without repetitions."""
    folder, _, name = address.rpartition("/")
    stem = address.rpartition(".")[0] if "." in name else address
    names = [base + suffix for base in (address, stem) for suffix in ("", *_BESIDE)]
    return [*dict.fromkeys(names), f"{folder}/meta.json"]


def _is_file_name(key: str) -> bool:
    parts = key.split("/")
    return not {"", ".", ".."} & set(parts) and all(len(part.encode()) < 250 for part in parts)


def _fill(mirror: Mirror, wanted: Objects, folders: set[str]) -> None:
    """Make the files, the first bytes of those that are wanted, and last the list of them."""
    for folder in folders:
        (mirror.root / folder).mkdir(parents=True, exist_ok=True)
    heads = {}
    for key, (size, etag) in wanted.items():
        if size:
            end = min(size, HEAD_BYTES)
            address = f"{mirror.bucket}/{key}"
            heads[key] = objects.begin_part(address, 0, end, ObjectStat(size, etag))
    for key, (size, _) in mirror.objects.items():
        path = mirror.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            if key in heads:
                file.write(heads[key].result()[0])
            file.truncate(size)
    fields = [mirror.bucket, mirror.cache.max_bytes, mirror.objects]
    write_atomically(mirror.root / MARK, orjson.dumps(fields), durable=False)
