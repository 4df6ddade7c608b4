"""Our own datasets: a manifest that names every shard, its index, sizes and hashes.

docs/format.md is the specification, shards/manifest.py the strict reader. Opening compares the size
of each file with the manifest; `tokenmill verify --full` compares every byte. In a bucket, the
manifest is read at once and the shards when they are touched; names come from the manifest, never
from a listing.
"""

import functools
import os
import re
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.address import check_address, is_remote, join
from tokenmill.errors import FormatError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.format import Ask, FolderFormat, FoundData
from tokenmill.formats.engine.held_out import ALL
from tokenmill.formats.engine.writing import RollingWriter, WriteTarget
from tokenmill.reading.cached_file import CachedFile
from tokenmill.reading.frames import open_frames
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.token_file import (
    FRAMED,
    Lazy,
    ManifestHashes,
    Packed,
    TokenFile,
    TokenFiles,
    check_hash,
)
from tokenmill.shards import block_hashes
from tokenmill.shards.compression import level_of
from tokenmill.shards.entries import EndsEntry, FileEntry, ShardEntry, SplitEntry, TokenizerEntry
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, PREPARATION_FOLDER, Manifest

BLOCKS_AT_ONCE = 4 << 20
"""A file of block hashes up to this size is read whole, for a dataset of up to 500 GB."""


_reading_blocks = threading.Lock()


class OursWriter(RollingWriter):
    """One split as shards, each written by shards/writer.py."""

    whole_documents = False
    names_folders = True

    def __init__(self, folder: Path, target: WriteTarget) -> None:
        super().__init__(folder, target)
        self.shards: list[ShardEntry] = []

    def open_shard(self) -> None:
        from tokenmill.shards.layout import shard_name
        from tokenmill.shards.writer import ShardWriter

        name = shard_name(self.target.split or "train", self.number)
        level = level_of(self.target.compress) if self.target.compress else None
        shard = ShardWriter(self.folder, name, self.target.dtype, durable=True, level=level)
        self._shard = self._open.enter_context(shard)

    def write(self, tokens: np.ndarray) -> None:
        self._shard.write(tokens)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        self.shards.append(self._shard.finish(ends))
        self._open.close()


class Ours(FolderFormat):
    """A folder with a manifest, or one whose preparation is not done."""

    name = "tokenmill"
    writer = OursWriter
    written_suffixes = (".bin", ".ends", ".json", ".zst")
    dtypes = ("uint16", "uint32")
    tokens_per_shard = 10_000_000
    is_indexed = True
    needs_tokenizer = True
    compresses = True
    numbers_over_splits = True

    def claims_folder(self, folder: Path) -> bool:
        return (folder / FILE_NAME).is_file() or (folder / PREPARATION_FOLDER).is_dir()

    def read_folder(self, folder: Path, split: str | None, ask: Ask) -> FoundData:
        return _found(Manifest.load(folder), split, ask, _Folder(folder, folder / FILE_NAME))

    def finish(self, folder: Path, writers: Mapping[str, Any], tokenizer: Any) -> None:
        """What makes a folder of shards a dataset; the manifest last."""
        from tokenmill.shards.card import write_tokenizer_and_card

        state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
        target = next(iter(writers.values())).target
        manifest = Manifest(
            tokenizer=TokenizerEntry.of(tokenizer, state, target.begin_token_id),
            dtype=target.dtype.name,
            tokens_per_shard=target.tokens_per_shard,
            splits={name: SplitEntry.of(tuple(each.shards)) for name, each in writers.items()},
            settings={"compress": target.compress} if target.compress else {},
        )
        command = "tokenmill convert SOURCE DATASET --to tokenmill"
        write_tokenizer_and_card(folder, manifest, state, command)
        manifest.write(folder)


def is_ours(where: str | os.PathLike[str]) -> bool:
    """Whether a manifest is in this folder or at this address."""
    if not is_remote(where):
        return (Path(where) / FILE_NAME).is_file()
    from tokenmill.stores import objects

    return objects.find(join(os.fspath(where), FILE_NAME)) is not None


def read_bucket(address: str, split: str | None, ask: Ask, cache: ShardCache) -> FoundData | None:
    """The shards of a split, by the manifest at an address; None where there is no manifest."""
    from tokenmill.stores import objects

    address = check_address(address)
    where = join(address, FILE_NAME)
    data = objects.read_all(where, at_most=MAX_BYTES)
    if data is None:
        return None
    manifest = Manifest.parse(data, where=where)
    return _found(manifest, split, ask, _Bucket(address, cache, manifest, data))


def _choose_splits(manifest: Manifest, asked: str | None, where: object) -> list[str]:
    """The split that was asked for; without one, train, or the only split there is."""
    names = list(manifest.splits)
    if asked == ALL or (asked is None and len(names) < 2):
        return names
    split = asked or "train"
    if split in names:
        return [split]
    raise FormatError(
        f"{where} has no {split} split; it has {', '.join(names)}",
        hint="to hold out a hundredth of its documents, prepare it again: "
        "tokenmill prepare INPUT... -o OUTPUT --val_fraction 0.01"
        if split == "val"
        else "open one of these; `prepare --val_input NAME=FILE` makes validation sets with names",
    )


def _found(
    manifest: Manifest, split: str | None, ask: Ask, where: "_Folder | _Bucket"
) -> FoundData:
    dtype = ask.agreed(np.dtype(manifest.dtype).newbyteorder("<"), where.folder)
    chosen = _choose_splits(manifest, split, where.folder)
    files = []
    number = 0
    for name, entry in manifest.splits.items():
        for shard in entry.shards:
            if name in chosen:
                files.append(_token_file(where, dtype, name, number, shard))
            number += 1
    if not files:  # a split without shards is one file without tokens
        ends = untrusted.ends_file(Path(), 0)
        files = [TokenFile("", "(no shards)", dtype, 0, 0, ends=ends)]
    tokenizer = manifest.tokenizer
    return FoundData(
        Ours.name,
        TokenFiles(files),
        vocab_size=tokenizer.vocab_size,
        end_of_text_id=tokenizer.end_of_text_id,
        begin_token_id=tokenizer.begin_token_id,
        tokenizer_state=where.state(tokenizer.state),
        tokenizer_fingerprint=tokenizer.fingerprint,
        has_manifest=True,
        ids_were_checked=True,
        details={
            "tokenizer": tokenizer.name,
            "splits": list(manifest.splits),
            **_compressed(files),
        },
    )


def _token_file(
    where: "_Folder | _Bucket", dtype: np.dtype[Any], split: str, number: int, shard: ShardEntry
) -> TokenFile:
    """Describe a shard; `number` counts the shards of all splits."""
    return TokenFile(
        where.path(shard.on_disk),
        _name_in_dataset(shard.file),
        dtype,
        shard.num_tokens,
        shard.num_bytes,
        ends=where.ends(shard.ends),
        hashes=ManifestHashes(shard.xxh3_128, shard.ends.xxh3_128),
        blocks=where.blocks(number, shard),
        split=split,
        packed=_packed(shard),
    )


def _name_in_dataset(file: str) -> str:
    """Return the name of a shard without the folder of a dataset that replaced another."""
    return re.sub(r"^v-[0-9a-f]{16}/", "", file) if file.startswith("v-") else file


def _compressed(files: Sequence[TokenFile]) -> dict[str, str]:
    """Say how much smaller compressed shards are."""
    if not any(file.packed for file in files):
        return {}
    plain = sum(file.file_bytes for file in files)
    there = sum(file.disk_bytes for file in files)
    return {"compressed": f"{there:,} bytes on disk, {there / plain:.2f} of the plain size"}


def _packed(entry: ShardEntry) -> Packed | None:
    packed = entry.packed
    return None if packed is None else Packed(packed.num_bytes, FRAMED, packed.xxh3_128)


class _Folder(untrusted.Root):
    """A dataset on a disk: sizes are compared when it is opened."""

    def path(self, entry: FileEntry) -> str:
        return self.sized_name(entry.file, entry.num_bytes)

    def blocks(self, number: int, entry: ShardEntry) -> None:
        """Files on a disk are read as they are."""

    def ends(self, entry: EndsEntry) -> Lazy:
        path = self.path(entry.on_disk)
        if entry.packed is None:
            return untrusted.ends_file(path, entry.num_documents)
        sizes = (entry.num_bytes, entry.packed.num_bytes)
        return Lazy(unpack_ends, (path, *sizes), entry.num_documents, path)

    def state(self, entry: FileEntry) -> Lazy:
        path = self.path(entry)
        return Lazy(read_hashed, (path, entry.xxh3_128), file=path)


class _Bucket:
    """A dataset in a bucket: nothing is fetched when it is opened."""

    def __init__(self, folder: str, cache: ShardCache, manifest: Manifest, data: bytes) -> None:
        """`data` is the manifest as it is in the bucket."""
        self.folder, self.cache = folder, cache
        self._places = block_hashes.find_places(manifest)
        self._blocks_file = join(folder, block_hashes.file_name(data))

    def blocks(self, number: int, entry: ShardEntry) -> Lazy | None:
        if entry.packed is not None:
            return None
        start, stop, size = self._places[[number, number + 1, -1]].tolist()
        return Lazy(load_blocks, (self._blocks_file, start, stop, size, entry.xxh3_128))

    def path(self, entry: FileEntry) -> str:
        return join(self.folder, entry.file)

    def ends(self, entry: EndsEntry) -> Lazy:
        path, packed = self.path(entry.on_disk), entry.packed
        framed = None if packed is None else Packed(packed.num_bytes, FRAMED, packed.xxh3_128)
        file = CachedFile(path, entry.num_bytes, entry.xxh3_128, packed=framed)
        return Lazy(fetch_ends, (self.cache, file), entry.num_documents, path)

    def state(self, entry: FileEntry) -> Lazy:
        file = CachedFile(self.path(entry), entry.num_bytes, entry.xxh3_128)
        return Lazy(fetch, (self.cache, file), file=file.address)


def read_hashed(path: str, digest: str) -> bytes:
    """All bytes of a small file, which must have this hash."""
    data = untrusted.read_whole(Path(path))
    check_hash(path, digest, xxhash.xxh3_128_hexdigest(data))
    return data


def unpack_ends(path: str, num_bytes: int, packed_bytes: int) -> np.ndarray:
    """Where documents end in a shard, from a compressed index."""
    frames = open_frames(path, num_bytes, packed_bytes)
    return np.frombuffer(b"".join(frames.read(0, num_bytes)), "<i8")


def load_blocks(address: str, start: int, stop: int, size: int, digest: str) -> np.ndarray | None:
    """The hashes of the blocks of a shard, from the file of all; None where there are none.

    For a thread that waits for a store: it sends requests itself.
    """
    if size > BLOCKS_AT_ONCE:
        entry = _read_blocks(address, start, stop, size)
        return None if entry is None else block_hashes.read_entry(entry, digest)
    with _reading_blocks:  # all threads need the same file
        data = _read_blocks(address, 0, size, size)
    return None if data is None else block_hashes.read_entry(data[start:stop], digest)


@functools.lru_cache(maxsize=4096)
def _read_blocks(address: str, start: int, stop: int, size: int) -> bytes | None:
    from tokenmill.stores.objects import ObjectStat, get_part
    from tokenmill.stores.store_requests import StoreFailure

    try:
        return get_part(address, start, stop, ObjectStat(size, "", 0), hashed=True).data
    except StoreFailure as failure:
        if failure.kind == "missing":
            return None
        raise


def fetch(cache: ShardCache, file: CachedFile) -> bytes:
    """All bytes of a small file, through the cache."""
    with os.fdopen(cache.open(file), "rb") as copy:
        return copy.read()


def fetch_ends(cache: ShardCache, file: CachedFile) -> np.ndarray:
    """Where documents end in a shard."""
    data = fetch(cache, file) if file.size else b""
    return np.frombuffer(data, "<i8")
