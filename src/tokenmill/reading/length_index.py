"""Documents by length: what rows of whole documents need beside the tokens, built once.

For each length that occurs, the places where documents of that length begin (length_sort.py). It
depends on the documents alone, so that another `block_size` needs no other index. Small data is
sorted again each time, in memory. For larger data the index is a file in the user's cache folder,
bound to the data by its name: a hash of the fingerprint of the data, and of what says where its
documents end. The folder of a dataset does not change by reading it.

The file appears under its name when it is whole. Several processes that need the same index wait
for the first of them, where `flock` works; where it does not, each builds it, with the same bytes.
The starts are mapped: a row costs a page for each of its documents, whatever the size of the file.

    8 bytes    TMILDOCS
    8 bytes    length of the header (little-endian)
    header     JSON: version, key, num_tokens, num_documents, num_lengths, bytes, fingerprint
    then       lengths and counts (8 bytes each), starts (4 or 8 bytes); each begins at a
               multiple of 4096 bytes; numbers are little-endian and unsigned
"""

import errno
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import temporary_beside, user_cache
from tokenmill.base.lock import wait_for_others
from tokenmill.errors import CorruptShardError, MismatchError, TokenmillError
from tokenmill.reading.length_sort import sort_by_length, starts_dtype

VERSION = 1
IN_MEMORY = 1 << 24  # tokens; sorting the documents of so few takes a moment
_MAGIC = b"TMILDOCS"
_ALIGN = 4096
_HASHED_AT_ONCE = 1 << 20  # starts

log = logging.getLogger("tokenmill")

Ends = Callable[[], Iterable[np.ndarray]]
"""Gives where documents end, in blocks, ascending, each once."""


class LengthIndex:
    """Documents sorted by length; those of one length in the order of the axis."""

    def __init__(
        self,
        lengths: np.ndarray,
        counts: np.ndarray,
        starts: np.ndarray,
        fingerprint: str,
        path: Path | None = None,
    ) -> None:
        self.lengths, self.counts, self.starts = lengths, counts, starts
        self.fingerprint, self.path = fingerprint, path

    def __reduce__(self) -> tuple[object, ...]:
        if self.path is not None:  # the other process maps the file
            return _reopen, (self.path, self.fingerprint)
        return LengthIndex, (self.lengths, self.counts, self.starts, self.fingerprint)


class _Layout(NamedTuple):
    """Where the tables of an index file begin, in bytes, and its size."""

    lengths: int
    counts: int
    starts: int
    size: int

    @classmethod
    def of(cls, num_lengths: int, num_documents: int, dtype: np.dtype[Any]) -> "_Layout":
        table = _aligned(8 * num_lengths)
        starts = _ALIGN + 2 * table
        return cls(_ALIGN, _ALIGN + table, starts, starts + num_documents * dtype.itemsize)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def documents_by_length(key: str, name: str, num_tokens: int, ends: Ends) -> LengthIndex:
    """The index of the data with this key, from the cache or built now.

    `name` is what messages call the data.
    """
    if num_tokens <= IN_MEMORY:
        dtype = starts_dtype(num_tokens)
        found = sort_by_length(
            ends(), num_tokens, None, lambda lengths, counts: np.empty(counts.sum(), dtype)
        )
        return LengthIndex(*found, _fingerprint(*found))
    path = user_cache("documents") / f"{key}.documents"
    if path.exists():
        return _open(path, key)
    try:
        with wait_for_others(path.with_suffix(".lock")):
            if not path.exists():
                log.info("sorting the documents of %s by length, once: %s", name, path)
                _build(path, key, num_tokens, ends())
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else error.strerror
        raise TokenmillError(
            f"cannot write the index of documents of {name} in {path.parent}: {why}",
            hint="it takes up to 16 bytes a document while it is built; free some, or name another "
            "folder for it: XDG_CACHE_HOME=/path",
        ) from error
    return _open(path, key)


def _build(path: Path, key: str, num_tokens: int, ends: Iterable[np.ndarray]) -> None:
    temporary = temporary_beside(path)
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        _write(descriptor, key, num_tokens, ends, path.parent)
        os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _write(
    descriptor: int, key: str, num_tokens: int, ends: Iterable[np.ndarray], folder: Path
) -> None:
    dtype = starts_dtype(num_tokens)

    def make(lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
        count = int(counts.sum())
        layout = _Layout.of(len(lengths), count, dtype)
        # All of it is taken from the disk now: where a mapped page finds no room, a process dies.
        os.posix_fallocate(descriptor, 0, layout.size)
        os.pwrite(descriptor, lengths.astype("<i8").data, layout.lengths)
        os.pwrite(descriptor, counts.astype("<i8").data, layout.counts)
        with open(descriptor, "r+b", closefd=False) as file:
            return np.memmap(file, dtype, "r+", layout.starts, (count,))

    found = sort_by_length(ends, num_tokens, folder, make)
    found.starts.flush()  # type: ignore[attr-defined]
    header = orjson.dumps(
        {
            "version": VERSION,
            "key": key,
            "num_tokens": num_tokens,
            "num_documents": len(found.starts),
            "num_lengths": len(found.lengths),
            "bytes": dtype.itemsize,
            "fingerprint": _fingerprint(*found),
        }
    )
    os.pwrite(descriptor, _MAGIC + len(header).to_bytes(8, "little") + header, 0)


def _open(path: Path, key: str | None = None) -> LengthIndex:
    """Map an index; `key` is that of the data it must be of."""
    with open(path, "rb") as file:
        first = file.read(_ALIGN)
        try:
            size = int.from_bytes(first[8:16], "little")
            header = orjson.loads(first[16 : 16 + size])
            counts = header["num_lengths"], header["num_documents"]
            dtype = np.dtype(f"<u{header['bytes']}")
            layout = _Layout.of(*counts, dtype)
            whole = first[:8] == _MAGIC and os.fstat(file.fileno()).st_size == layout.size
        except (orjson.JSONDecodeError, KeyError, TypeError):
            whole = False
        if not whole or header["version"] != VERSION:
            raise CorruptShardError(
                f"{path} is not a whole index of documents of version {VERSION}",
                hint="remove it; it is built again when it is needed",
            )
        if key not in (None, header["key"]):
            raise MismatchError(
                f"{path} is an index of other data (key {header['key']})",
                hint="remove it; it is built again when it is needed",
            )
        lengths, numbers = (
            np.fromfile(file, "<i8", counts[0], offset=at - file.tell())
            for at in (layout.lengths, layout.counts)
        )
        starts = np.empty(0, dtype)
        if counts[1]:
            starts = np.asarray(np.memmap(file, dtype, "r", layout.starts, (counts[1],)))
    return LengthIndex(lengths, numbers, starts, header["fingerprint"], path)


def _reopen(path: Path, fingerprint: str) -> LengthIndex:
    index = _open(path)
    if index.fingerprint != fingerprint:
        raise MismatchError(
            f"{path} was replaced by an index of other data while it was in use",
            hint="start again: the index is built again when it is needed",
        )
    return index


def _fingerprint(lengths: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> str:
    """A hash of where all documents are; the same for starts of 4 bytes and of 8."""
    hasher = xxhash.xxh3_128()
    for table in (lengths, counts):
        hasher.update(table.astype("<i8").data)
    for at in range(0, len(starts), _HASHED_AT_ONCE):
        hasher.update(starts[at : at + _HASHED_AT_ONCE].astype("<u8").data)
    return hasher.hexdigest()


def blocks_of_ends(
    ends_between: Callable[[int, int], np.ndarray], num_tokens: int
) -> Iterator[np.ndarray]:
    """All ends, in blocks that are neither too small nor too large, whatever the documents are."""
    start, length = 0, 1 << 22
    while start < num_tokens:
        stop = min(start + length, num_tokens)
        found = ends_between(start, stop)
        yield found
        start = stop
        if len(found) < 1 << 18:
            length = min(2 * length, 1 << 32)
        elif len(found) > 1 << 20:
            length = max(length // 2, 1 << 20)
