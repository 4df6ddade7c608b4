"""Is what is there what the manifest says? Everything wrong is listed, not only the first.

Sizes, names and the stored tokenizer are compared at once (one `stat` a file). `full` reads every
byte again: hashes, the index, the largest id, and that documents, and nothing else, end with the
end-of-text id and begin with the begin token, where there is one. `subset="5%"` does that for a
part of the shards: the same part every time.

Cost of `full`: one pass at the speed of the disk, or about 1 GB/s on one core from the page cache;
memory 16 MB. A dataset in a store is fetched shard by shard. A damaged manifest is raised, not
listed: nothing can be compared with it.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import xxhash

from tokenmill.base.hashing import hash_file, read_regular
from tokenmill.errors import CorruptShardError
from tokenmill.shards.entries import FileEntry, ShardEntry
from tokenmill.shards.manifest import FILE_NAME, ITEM_SIZE, Manifest
from tokenmill.shards.packed import read_blocks, read_ends
from tokenmill.shards.verified_place import Folder, Stored, place_of

_Ends = npt.NDArray[np.uint64]
_FETCH = "fetch this file again, or prepare the dataset again"
_REBUILD = "the dataset was written by a tokenmill with a defect; prepare it again"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    file: str
    """Relative to the dataset."""
    what: str
    """`missing`, `size`, `frame`, `hash`, `index`, `ids`, `tokenizer` or `extra`."""
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
    place = place_of(folder)
    manifest = Manifest.load(folder)
    chosen = _choose(manifest, full, subset)
    findings = _check_tokenizer(place, manifest)
    findings += _check_sources(place, manifest.sources_file)
    for split in manifest.splits.values():
        last = split.shards[-1].file if split.shards else ""
        for shard in split.shards:
            found = [
                finding
                for file in shard.files
                for finding in _check_size(place, file.file, file.num_bytes)
            ]
            if not found and shard.file in chosen:
                with place.here([file.file for file in shard.files]) as there:
                    found = _check_shard(there, manifest, shard, ends_split=shard.file == last)
                if progress is not None:
                    progress(shard.file, sum(file.num_bytes for file in shard.files))
            findings += found
    return findings + _check_extra(place, manifest)


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


def _check_tokenizer(place: Folder | Stored, manifest: Manifest) -> list[Finding]:
    record = manifest.tokenizer.state
    if found := _check_size(place, record.file, record.num_bytes):
        return found
    with place.here([record.file]) as folder:
        path = folder / record.file
        if found := _check_hash(record.file, record.xxh3_128, hash_file(path)):
            return found
        try:
            stored = orjson.loads(read_regular(path))["fingerprint"]
        except (ValueError, KeyError, TypeError):
            stored = "no readable state"
    if stored != manifest.tokenizer.fingerprint:
        expected = f"fingerprint {manifest.tokenizer.fingerprint}"
        return [Finding(record.file, "tokenizer", expected, str(stored), _REBUILD)]
    return []


def _check_sources(place: Folder | Stored, record: FileEntry | None) -> list[Finding]:
    """The list of all inputs, where there is one."""
    if record is None:
        return []
    if found := _check_size(place, record.file, record.num_bytes):
        return found
    with place.here([record.file]) as folder:
        return _check_hash(record.file, record.xxh3_128, hash_file(folder / record.file))


def _check_hash(name: str, expected: str, found: str) -> list[Finding]:
    if found == expected:
        return []
    return [Finding(name, "hash", f"xxh3-128 {expected}", found, _FETCH)]


def _check_size(place: Folder | Stored, name: str, expected: int) -> list[Finding]:
    found = place.size(name)
    if isinstance(found, str):
        return [Finding(name, "missing", f"a file of {expected:,} bytes", found, _FETCH)]
    if found != expected:
        return [Finding(name, "size", f"{expected:,} bytes", f"{found:,} bytes", _FETCH)]
    return []


def _check_shard(
    folder: Path, manifest: Manifest, shard: ShardEntry, *, ends_split: bool
) -> list[Finding]:
    """Read a shard and its index once each; a wrong hash explains the rest, so it ends the list."""
    try:
        digest, largest, found_ends, begins = _read_ids(folder, shard, manifest)
        ends = read_ends(folder, shard.ends)
    except CorruptShardError as error:
        file = next(file for file in shard.files if file.file in error.message)
        return [Finding(file.file, "frame", "sound frames", error.message, _FETCH)]
    if findings := _check_hash(shard.on_disk.file, shard.xxh3_128, digest):
        return findings
    name = shard.ends.on_disk.file
    digest = xxhash.xxh3_128_hexdigest(ends.data)
    if findings := _check_hash(name, shard.ends.xxh3_128, digest):
        return findings
    for file in shard.files if shard.packed or shard.ends.packed else ():
        if findings := _check_hash(file.file, file.xxh3_128, hash_file(folder / file.file)):
            return findings
    if largest >= (vocab_size := manifest.tokenizer.vocab_size):
        expected = f"ids below {vocab_size:,}"
        findings = [Finding(shard.file, "ids", expected, f"id {largest:,}", _REBUILD)]
    wrong = list(_compare_ends(ends, found_ends, shard.num_tokens))
    if ends_split and (not ends.size or ends[-1] != shard.num_tokens):
        found = f"the last end at {int(ends[-1]):,}" if ends.size else "no end"
        wrong.append((f"an end at {shard.num_tokens:,}, where the split ends", found))
    if manifest.tokenizer.begin_token_id is not None and not wrong:
        wrong += _compare_begins(ends, begins, shard.num_tokens)
    return findings + [Finding(name, "index", *difference, _REBUILD) for difference in wrong]


def _compare_ends(stored: _Ends, found: _Ends, num_tokens: int) -> Iterator[tuple[str, str]]:
    """What an index should hold, and what it holds instead of it."""
    if stored.size and (stored[0] < 1 or stored[-1] > num_tokens):
        bad = stored[0] if stored[0] < 1 else stored[-1]
        yield f"ends from 1 to {num_tokens:,}", f"{int(bad):,}"
    elif (stored[1:] <= stored[:-1]).any():
        place = int((stored[1:] <= stored[:-1]).argmax())
        pair = f"{int(stored[place]):,} then {int(stored[place + 1]):,} at entry {place}"
        yield "ends that grow", pair
    else:
        # Where a split ends, a document may be cut short: an end without an end-of-text id.
        missing = np.setdiff1d(stored, np.append(found, np.uint64(num_tokens)))
        extra = np.setdiff1d(found, stored)
        if places := missing[:1].tolist() + extra[:1].tolist():
            yield (
                "an end after every end-of-text id and nowhere else",
                f"{missing.size:,} ends without an end-of-text id, {extra.size:,} ids without an "
                f"end (first at {min(places):,})",
            )


def _compare_begins(ends: _Ends, begins: _Ends, num_tokens: int) -> Iterator[tuple[str, str]]:
    """Begin tokens are where a document follows another one, and nowhere else.

    The first token is not judged: whether it begins a document, the shard before knows.
    """
    starts = ends[ends < num_tokens]
    missing = np.setdiff1d(starts, begins)
    extra = np.setdiff1d(begins[begins > 0], starts)
    if places := missing[:1].tolist() + extra[:1].tolist():
        yield (
            "a begin token at the start of every document and nowhere else",
            f"{missing.size:,} documents without one, {extra.size:,} begin tokens inside documents "
            f"(first at {min(places):,})",
        )


def _read_ids(folder: Path, shard: ShardEntry, manifest: Manifest) -> tuple[str, int, _Ends, _Ends]:
    """The hash of a shard, its largest id, the positions after each end-of-text id, and those of
    begin tokens."""
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


def _check_extra(place: Folder | Stored, manifest: Manifest) -> list[Finding]:
    known = {*manifest.files(), FILE_NAME, "README.md"}
    remedy = "nothing reads it; delete it if it is not yours"
    return [
        Finding(name, "extra", "only files of the manifest", "this file", remedy)
        for name in sorted(set(place.names()) - known)
    ]
