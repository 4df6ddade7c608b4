"""Is what is on disk what the manifest says? Everything wrong is listed, not only the first.

Sizes, names and the stored tokenizer are compared at once (one `stat` a file). `full` reads every
byte again: hashes, the index, the largest id, and that documents, and nothing else, end with the
end-of-text id. `subset="5%"` does that for a part of the shards: the same part every time.

Cost of `full`: one pass at the speed of the disk, or about 1 GB/s on one core from the page cache;
memory 16 MB. A damaged manifest is raised, not listed: nothing can be compared with it.
"""

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from tokenmill.base.hashing import hash_file
from tokenmill.shards.manifest import (
    FILE_NAME,
    ITEM_SIZE,
    PREPARATION_FOLDER,
    Manifest,
    ShardEntry,
    SplitEntry,
)

_BLOCK = 8 << 20  # bytes; a multiple of every item size
_FETCH = "fetch this file again, or prepare the dataset again"
_REBUILD = "the dataset was written by a tokenmill with a defect; prepare it again"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    file: str
    """Relative to the dataset."""
    what: str
    """`missing`, `size`, `hash`, `index`, `ids`, `tokenizer` or `extra`."""
    expected: str
    found: str
    remedy: str

    @property
    def is_error(self) -> bool:
        return self.what != "extra"  # a file that is not ours does no harm

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
    folder = Path(folder)
    manifest = Manifest.load(folder)
    chosen = _choose(manifest, full, subset)
    findings = _check_tokenizer(folder, manifest)
    for split in manifest.splits.values():
        for shard in split.shards:
            found = _check_sizes(folder, shard)
            if not found and shard.file in chosen:
                found = list(_check_shard(folder, manifest, split, shard))
                if progress is not None:
                    progress(shard.file, shard.num_bytes + shard.ends.num_bytes)
            findings += found
    return findings + _check_extra(folder, manifest)


def share_of(subset: str) -> float:
    """The share that a percentage such as "5%" is."""
    try:
        percent = float(subset.removesuffix("%")) if subset.endswith("%") else -1.0
    except ValueError:
        percent = -1.0
    if not 0 < percent <= 100:
        raise ValueError(f"subset={subset!r} is not a percentage between 0 and 100 such as '5%'")
    return percent / 100


def _choose(manifest: Manifest, full: bool, subset: str | None) -> set[str]:
    names = [s.file for split in manifest.splits.values() for s in split.shards]
    if subset is None:
        return set(names) if full else set()
    # In the order of a hash: spread over the dataset, and the same shards every time.
    names.sort(key=lambda name: xxhash.xxh3_128_digest(name.encode()))
    return set(names[: math.ceil(len(names) * share_of(subset))])


def _check_tokenizer(folder: Path, manifest: Manifest) -> list[Finding]:
    record = manifest.tokenizer.state
    path = folder / record.file
    found = _check_size(path, record.file, record.num_bytes)
    if found:
        return found
    digest = hash_file(path)
    if digest != record.xxh3_128:
        return [Finding(record.file, "hash", f"xxh3-128 {record.xxh3_128}", digest, _FETCH)]
    try:
        state: Any = orjson.loads(path.read_bytes())
        stored = state["fingerprint"]
    except (ValueError, KeyError, TypeError):
        stored = "no readable state"
    if stored != manifest.tokenizer.fingerprint:
        expected = f"fingerprint {manifest.tokenizer.fingerprint}"
        return [Finding(record.file, "tokenizer", expected, str(stored), _REBUILD)]
    return []


def _check_sizes(folder: Path, shard: ShardEntry) -> list[Finding]:
    return [
        *_check_size(folder / shard.file, shard.file, shard.num_bytes),
        *_check_size(folder / shard.ends.file, shard.ends.file, shard.ends.num_bytes),
    ]


def _check_size(path: Path, name: str, expected: int) -> list[Finding]:
    try:
        found = os.stat(path).st_size
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return [Finding(name, "missing", f"a file of {expected:,} bytes", reason, _FETCH)]
    if found != expected:
        return [Finding(name, "size", f"{expected:,} bytes", f"{found:,} bytes", _FETCH)]
    return []


def _check_shard(
    folder: Path, manifest: Manifest, split: SplitEntry, shard: ShardEntry
) -> Iterator[Finding]:
    """Read a shard and its index once each; a wrong hash explains the rest, so it ends the list."""
    contents = _read_ids(folder / shard.file, manifest)
    if contents.digest != shard.xxh3_128:
        yield Finding(shard.file, "hash", f"xxh3-128 {shard.xxh3_128}", contents.digest, _FETCH)
        return
    index = (folder / shard.ends.file).read_bytes()
    digest = xxhash.xxh3_128_hexdigest(index)
    if digest != shard.ends.xxh3_128:
        expected = f"xxh3-128 {shard.ends.xxh3_128}"
        yield Finding(shard.ends.file, "hash", expected, digest, _FETCH)
        return
    vocab_size = manifest.tokenizer.vocab_size
    if contents.largest >= vocab_size:
        expected = f"ids below {vocab_size:,}"
        yield Finding(shard.file, "ids", expected, f"id {contents.largest:,}", _REBUILD)
    ends = np.frombuffer(index, "<u8")
    yield from _check_index(ends, contents.ends, shard)
    if shard is split.shards[-1] and (not ends.size or ends[-1] != shard.num_tokens):
        expected = f"an end at {shard.num_tokens:,}, where the split ends"
        found = f"the last end at {int(ends[-1]):,}" if ends.size else "no end"
        yield Finding(shard.ends.file, "index", expected, found, _REBUILD)


def _check_index(
    stored: npt.NDArray[np.uint64], found: npt.NDArray[np.uint64], shard: ShardEntry
) -> Iterator[Finding]:
    name = shard.ends.file
    if stored.size and (stored[0] < 1 or stored[-1] > shard.num_tokens):
        bad = stored[0] if stored[0] < 1 else stored[-1]
        expected = f"ends from 1 to {shard.num_tokens:,}"
        yield Finding(name, "index", expected, f"{int(bad):,}", _REBUILD)
    elif (stored[1:] <= stored[:-1]).any():
        place = int((stored[1:] <= stored[:-1]).argmax())
        pair = f"{int(stored[place]):,} then {int(stored[place + 1]):,} at entry {place}"
        yield Finding(name, "index", "ends that grow", pair, _REBUILD)
    elif not np.array_equal(stored, found):
        missing = np.setdiff1d(stored, found)
        missing = missing[
            missing != shard.num_tokens
        ]  # a document may be cut short where a split ends
        extra = np.setdiff1d(found, stored)
        if not missing.size and not extra.size:
            return
        what = f"{missing.size:,} ends without an end-of-text id, {extra.size:,} ids without an end"
        first = int(min(missing[:1].tolist() + extra[:1].tolist()))
        expected = "an end after every end-of-text id and nowhere else"
        yield Finding(name, "index", expected, f"{what} (first at {first:,})", _REBUILD)


@dataclass(frozen=True, slots=True)
class _Contents:
    digest: str
    largest: int
    ends: npt.NDArray[np.uint64]
    """Positions after each end-of-text id."""


def _read_ids(path: Path, manifest: Manifest) -> _Contents:
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    digest, largest, ends, start = xxhash.xxh3_128(), -1, [np.empty(0, np.uint64)], 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            ids = np.frombuffer(block, dtype, len(block) // ITEM_SIZE[manifest.dtype])
            largest = max(largest, int(ids.max(initial=0)))
            places = np.flatnonzero(ids == manifest.tokenizer.end_of_text_id)
            ends.append(places.astype(np.uint64) + np.uint64(start + 1))
            start += len(ids)
    return _Contents(digest.hexdigest(), largest, np.concatenate(ends))


def _check_extra(folder: Path, manifest: Manifest) -> list[Finding]:
    known = {*manifest.files(), FILE_NAME, "README.md"}
    names = []
    for parent, folders, files in os.walk(folder):
        if PREPARATION_FOLDER in folders:
            folders.remove(PREPARATION_FOLDER)
            names.append(Path(parent, PREPARATION_FOLDER).relative_to(folder).as_posix())
        names += [Path(parent, name).relative_to(folder).as_posix() for name in files]
    remedy = "nothing reads it; delete it if it is not yours"
    return [
        Finding(name, "extra", "only files of the manifest", "this file", remedy)
        for name in sorted(set(names) - known)
    ]
