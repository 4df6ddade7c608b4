"""Is what is there what the manifest says? Everything wrong is listed, not only the first.

Sizes, names and the files next to the shards are always compared. `full` reads every byte again:
hashes, the index, the largest id, and where end-of-text and begin tokens are; `subset="5%"` does
that for a part of the shards, the same part every time. It is one pass at the speed of the disk, or
about 1 GB/s on one core from the page cache; memory 16 MB. From a store, shards are fetched one by
one into a temporary folder. A damaged manifest is raised: nothing can be compared with it.
"""

import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from tokenmill.base.address import WRITABLE, is_remote, join, split
from tokenmill.base.hashing import hash_file, regular
from tokenmill.errors import CorruptShardError
from tokenmill.reading.frames import open_frames
from tokenmill.shards.manifest import (
    FILE_NAME,
    ITEM_SIZE,
    PREPARATION_FOLDER,
    FactsEntry,
    Manifest,
    NamedFile,
    ShardEntry,
)

_Positions = npt.NDArray[np.uint64]
_FETCH = "fetch this file again, or prepare the dataset again"
_BLOCK = 8 << 20  # bytes; a multiple of every item size
_REBUILD = "the dataset was written by a tokenmill with a defect; prepare it again"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    file: str
    """Relative to the dataset."""
    what: str
    """`missing`, `size`, `frame`, `hash`, `index`, `ids`, `tokenizer`, `forgotten` or `extra`."""
    expected: str
    found: str
    remedy: str

    @property
    def is_error(self) -> bool:
        return self.what != "extra"  # a file that the manifest does not name does no harm

    def __str__(self) -> str:
        return f"{self.file}: expected {self.expected}, found {self.found}\n\nhint: {self.remedy}"


def verify(
    folder: Path | str,
    *,
    full: bool = False,
    subset: str | None = None,
    progress: Callable[[str, int], None] | None = None,
) -> list[Finding]:
    """All findings, in the order of the manifest; an empty list is a sound dataset.

    `progress(file, bytes)` is called after each shard that was read.
    """
    manifest = Manifest.load(folder)
    # In the order of a hash: spread over the dataset, and the same shards every time.
    names = [shard.file for shard in manifest.shards]
    names.sort(key=lambda name: xxhash.xxh3_128_digest(name.encode()))
    share = float(full) if subset is None else share_of(subset)
    chosen = set(names[: math.ceil(len(names) * share)])
    sizes = _sizes_in_store(str(folder), manifest) if is_remote(folder) else _sizes_in(Path(folder))
    findings = []
    for file in manifest.files_beside_shards:
        if wrong_size := _check_size(file, sizes):
            findings += wrong_size
        elif share == 1 or not isinstance(file, FactsEntry):
            with _local(folder, [file]) as here:
                findings += _check_hash(file.file, file.xxh3_128, hash_file(here / file.file))
    last_shards = {part.shards[-1].file for part in manifest.splits.values() if part.shards}
    for shard in manifest.shards:
        found = [finding for file in shard.files for finding in _check_size(file, sizes)]
        if not found and shard.file in chosen:
            with _local(folder, shard.files) as here:
                ends_split = shard.file in last_shards
                found = _check_shard(here, manifest, shard, ends_split=ends_split)
            if progress is not None:
                progress(shard.file, sum(file.num_bytes for file in shard.files))
        findings += found
    known = {*manifest.files(), FILE_NAME, "README.md"}
    remedy = "nothing reads it; delete it if it is not yours"
    return findings + [
        Finding(name, "extra", "only files of the manifest", "this file", remedy)
        for name in sorted(set(sizes) - known)
        if not name.startswith("block_hashes-")
    ]


def share_of(subset: str) -> float:
    """The share that a percentage such as "5%" is."""
    try:
        percent = float(subset.removesuffix("%")) if subset.endswith("%") else -1.0
    except ValueError:
        percent = -1.0
    if not 0 < percent <= 100:
        raise ValueError(f"subset={subset!r} is not a percentage between 0 and 100 such as '5%'")
    return percent / 100


def read_blocks(folder: Path, entry: NamedFile) -> Iterator[bytes | memoryview]:
    """The content of a file in order, in blocks that hold whole ids or ends."""
    if (packed := entry.packed) is not None:
        yield from open_frames(folder / packed.file, entry.num_bytes, packed.num_bytes)
        return
    with open(folder / entry.file, "rb", opener=regular) as file:
        while block := file.read(_BLOCK):
            yield block


def _sizes_in(folder: Path) -> dict[str, int]:
    """Sizes of all files in a folder, by name; a preparation that is not finished is one name."""
    sizes = {}
    for parent, folders, files in os.walk(folder):
        if PREPARATION_FOLDER in folders:
            folders.remove(PREPARATION_FOLDER)
            files.append(PREPARATION_FOLDER)
        for path in (Path(parent, name) for name in files):
            if path.exists():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
    return sizes


def _sizes_in_store(address: str, manifest: Manifest) -> dict[str, int]:
    """Sizes of all objects of a dataset; those at https cannot be listed: each is looked at."""
    from tokenmill.stores import objects

    place = split(address.rstrip("/"))
    if place.scheme in WRITABLE:
        start = len(place.key) + 1 if place.key else 0
        return {x.key[start:]: x.size for x in objects.list_records(address.rstrip("/"))}
    found = {name: objects.find(join(address, name)) for name in manifest.files()}
    return {name: record.size for name, record in found.items() if record is not None}


@contextmanager
def _local(where: Path | str, files: Sequence[NamedFile]) -> Iterator[Path]:
    """Give a folder with these files; those of a store are copied, as long as they are needed."""
    if not is_remote(where):
        yield Path(where)
        return
    from tokenmill.stores.object_file import ObjectFile

    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            path = Path(folder, file.file)
            path.parent.mkdir(parents=True, exist_ok=True)
            with ObjectFile(join(str(where), file.file)) as source, path.open("xb") as copy:
                shutil.copyfileobj(source, copy, 4 << 20)
        yield Path(folder)


def _check_hash(name: str, expected: str, found: str) -> list[Finding]:
    if found == expected:
        return []
    return [Finding(name, "hash", f"xxh3-128 {expected}", found, _FETCH)]


def _check_size(file: NamedFile, sizes: dict[str, int]) -> list[Finding]:
    size = sizes.get(file.file)
    if size is None:
        expected = f"a file of {file.num_bytes:,} bytes"
        return [Finding(file.file, "missing", expected, "no such file", _FETCH)]
    if size != file.num_bytes:
        expected = f"{file.num_bytes:,} bytes"
        return [Finding(file.file, "size", expected, f"{size:,} bytes", _FETCH)]
    return []


def _check_shard(
    folder: Path, manifest: Manifest, shard: ShardEntry, *, ends_split: bool
) -> list[Finding]:
    """Read a shard and its index once each; a wrong hash explains the rest, so it ends the list."""
    try:
        digest, largest, found_ends, begins = _read_ids(folder, shard, manifest)
        ends = np.frombuffer(b"".join(read_blocks(folder, shard.ends)), "<u8")
        columns = [(c.on_disk.file, c.xxh3_128, _hash(folder, c)) for c in shard.columns or ()]
    except CorruptShardError as error:
        file = next(file for file in shard.files if file.file in error.message)
        return [Finding(file.file, "frame", "sound frames", error.message, _FETCH)]
    name = shard.ends.on_disk.file
    hashes = [
        (shard.on_disk.file, shard.xxh3_128, digest),
        (name, shard.ends.xxh3_128, xxhash.xxh3_128_hexdigest(ends.data)),
        *columns,
    ]
    for file in filter(None, (entry.packed for entry in shard.contents)):
        hashes.append((file.file, file.xxh3_128, hash_file(folder / file.file)))
    for hashed in hashes:
        if findings := _check_hash(*hashed):
            return findings
    if largest >= (vocab_size := manifest.tokenizer.vocab_size):
        expected = f"ids below {vocab_size:,}"
        findings = [Finding(shard.file, "ids", expected, f"id {largest:,}", _REBUILD)]
    if manifest.forgotten is not None:  # look/forgotten_proof.py knows where other ids must be
        found_ends = np.intersect1d(found_ends, ends)
    wrong = _compare_ends(ends, found_ends, shard.num_tokens)
    if ends_split and (not ends.size or ends[-1] != shard.num_tokens):
        found = f"the last end at {int(ends[-1]):,}" if ends.size else "no end"
        wrong.append((f"an end at {shard.num_tokens:,}, where the split ends", found))
    if manifest.tokenizer.begin_token_id is not None and not wrong:
        # The first token is not judged: if it begins a document, the shard before knows.
        starts = ends[ends < shard.num_tokens]
        expected = "a begin token at the start of every document and nowhere else"
        in_words = ("documents without one", "begin tokens inside documents")
        wrong += _compare(starts, begins[begins > 0], expected, *in_words)
    return findings + [Finding(name, "index", *difference, _REBUILD) for difference in wrong]


def _hash(folder: Path, file: NamedFile) -> str:
    digest = xxhash.xxh3_128()
    for block in read_blocks(folder, file):
        digest.update(block)
    return digest.hexdigest()


def _compare_ends(stored: _Positions, found: _Positions, num_tokens: int) -> list[tuple[str, str]]:
    if stored.size and (stored[0] < 1 or stored[-1] > num_tokens):
        bad = stored[0] if stored[0] < 1 else stored[-1]
        return [(f"ends from 1 to {num_tokens:,}", f"{int(bad):,}")]
    if (stored[1:] <= stored[:-1]).any():
        at = int((stored[1:] <= stored[:-1]).argmax())
        falling = f"{int(stored[at]):,} then {int(stored[at + 1]):,} at entry {at}"
        return [("ends that grow", falling)]
    # Where a split ends, a document may be cut short: an end without an end-of-text id.
    if stored.size and stored[-1] == num_tokens:
        found = np.union1d(found, stored[-1:])
    expected = "an end after every end-of-text id and nowhere else"
    return _compare(stored, found, expected, "ends without an end-of-text id", "ids without an end")


def _compare(
    stored: _Positions, found: _Positions, expected: str, missing_are: str, extra_are: str
) -> list[tuple[str, str]]:
    missing = np.setdiff1d(stored, found)
    extra = np.setdiff1d(found, stored)
    if not missing.size and not extra.size:
        return []
    first = min(missing[:1].tolist() + extra[:1].tolist())
    counts = f"{missing.size:,} {missing_are}, {extra.size:,} {extra_are}"
    return [(expected, f"{counts} (first at {first:,})")]


def _read_ids(
    folder: Path, shard: ShardEntry, manifest: Manifest
) -> tuple[str, int, _Positions, _Positions]:
    """Return hash, largest id, positions after each end-of-text id, and those of begin tokens."""
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    entry = manifest.tokenizer
    digest = xxhash.xxh3_128()
    largest = -1
    start = 0
    ends = [np.empty(0, np.uint64)]
    begins = [np.empty(0, np.uint64)]
    for block in read_blocks(folder, shard):
        digest.update(block)
        ids = np.frombuffer(block, dtype, len(block) // ITEM_SIZE[manifest.dtype])
        largest = max(largest, int(ids.max(initial=0)))
        places = np.flatnonzero(ids == entry.end_of_text_id)
        ends.append(places.astype(np.uint64) + np.uint64(start + 1))
        if entry.begin_token_id is not None:
            places = np.flatnonzero(ids == entry.begin_token_id)
            begins.append(places.astype(np.uint64) + np.uint64(start))
        start += len(ids)
    return digest.hexdigest(), largest, np.concatenate(ends), np.concatenate(begins)
