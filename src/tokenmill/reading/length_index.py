"""Documents by length: what rows of whole documents need beside the tokens (docs/guides/rows.md).

For each length that occurs, the places where documents of that length begin, in the order of the
axis. Of large data it is a file in the user's cache folder, named by a hash of the fingerprint of
the data and of what says where its documents end. Where `flock` does not work, each process builds
it, with the same bytes. The starts are mapped: a row costs a page for each of its documents.

    8 bytes       TMILDOCS
    4088 bytes    JSON: version, key, num_documents, num_lengths, bytes, fingerprint; then spaces
    tables        lengths, then counts: 8 bytes each
    starts        4 or 8 bytes each, from the next multiple of 4096 bytes on

Numbers are little-endian and unsigned. Documents without a token are left out.

The memory of the sort does not grow with the documents: their edges are written into a file; one
pass over it counts each length, the second sorts a block at a time and puts its runs where they go.
"""

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import orjson
import xxhash

from tokenmill.base.atomic import new_file, user_cache
from tokenmill.base.descriptors import reserve
from tokenmill.base.lock import wait_for_others
from tokenmill.errors import CorruptShardError, MismatchError, TokenmillError
from tokenmill.order.document_pieces import DocumentsByLength

VERSION = 1
IN_MEMORY = 1 << 24  # tokens; sorting the documents of so few takes a moment
_MAGIC = b"TMILDOCS"
_ALIGN = 4096
_BLOCK = 1 << 20  # documents at a time: 8 MB an array
_TOKENS_AT_ONCE = 1 << 23  # of which the ends are asked for
_SMALL = 1 << 16  # lengths below this are counted in a table
_A_DAY = 24 * 3600  # seconds
_REBUILD = "remove it; it is built again when it is needed"

log = logging.getLogger("tokenmill")

EndsBetween = Callable[[int, int], np.ndarray]
"""Returns the ends of documents after one position, up to another: ascending, each once."""
MakeArray = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Makes the array that the starts are put into, from lengths and counts."""


@dataclass(frozen=True)
class LengthIndex(DocumentsByLength):
    """Documents by length in memory, or mapped from the file at `path`."""

    path: Path | None = None

    def __reduce__(self) -> tuple[object, ...]:
        if self.path is not None:  # the other process maps the file
            return _reopen, (self.path, self.fingerprint)
        return LengthIndex, (self.lengths, self.counts, self.starts, self.fingerprint)


def documents_by_length(key: str, name: str, num_tokens: int, ends: EndsBetween) -> LengthIndex:
    """Return the index of the data with this key, cached or built now; `name` is for messages."""
    if num_tokens <= IN_MEMORY:
        dtype = _starts_dtype(num_tokens)
        blocks = _blocks_of_ends(ends, num_tokens)
        make = lambda _, counts: np.empty(counts.sum(), dtype)  # noqa: E731
        tables = sort_by_length(blocks, num_tokens, None, make)
        return LengthIndex(*tables, _fingerprint(*tables))
    path = user_cache("documents") / f"{key}.documents"
    try:
        if not path.exists():
            with wait_for_others(path):
                if not path.exists():
                    log.info("sorting the documents of %s by length, once: %s", name, path)
                    _build(path, key, num_tokens, ends)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        why = "the disk is full" if full else error.strerror
        raise TokenmillError(
            f"cannot write the index of documents of {name} in {path.parent}: {why}",
            hint="it takes up to 16 bytes a document while it is built; free some, or name another "
            "folder for it: XDG_CACHE_HOME=/path",
        ) from error
    return _open(path, key)


def _build(path: Path, key: str, num_tokens: int, ends: EndsBetween) -> None:
    for left in path.parent.glob(f".{path.stem}.*.tmp"):  # by builders that were killed
        if time.time() - left.stat().st_mtime > _A_DAY:
            left.unlink(missing_ok=True)
    with new_file(path, durable=True) as file:
        header = {"version": VERSION, "key": key, **_write_tables(file, path, num_tokens, ends)}
        file.seek(0)
        file.write((_MAGIC + orjson.dumps(header)).ljust(_ALIGN))


def _write_tables(
    file: IO[bytes], path: Path, num_tokens: int, ends: EndsBetween
) -> dict[str, Any]:
    """Write all but the header, and return it; nothing maps the file when this is done."""
    dtype = _starts_dtype(num_tokens)

    def make(lengths: np.ndarray, counts: np.ndarray) -> np.ndarray:
        num_documents = int(counts.sum())
        at = _starts_at(len(lengths))
        # All is taken from the disk now: where a mapped page finds no room, a process dies.
        reserve(file.fileno(), at + num_documents * dtype.itemsize)
        file.seek(_ALIGN)
        file.write(np.stack([lengths, counts]).astype("<i8").data)
        file.flush()
        return np.memmap(file, dtype, "r+", at, (num_documents,))

    blocks = _blocks_of_ends(ends, num_tokens)
    lengths, counts, starts = sort_by_length(blocks, num_tokens, path.parent, make)
    starts.flush()  # type: ignore[attr-defined]
    return {
        "num_documents": len(starts),
        "num_lengths": len(lengths),
        "bytes": dtype.itemsize,
        "fingerprint": _fingerprint(lengths, counts, starts),
    }


def _open(path: Path, key: str | None = None) -> LengthIndex:
    """Map an index; `key` is that of the data it must be of; None: another process has checked it.

    The check reads the whole file: 0.03 s for 10^8 documents that are in memory.
    """
    with open(path, "rb") as file:
        first = file.read(_ALIGN)
        try:
            header = orjson.loads(first[len(_MAGIC) :])
            num_lengths, num_documents = header["num_lengths"], header["num_documents"]
            of_data, fingerprint = header["key"], header["fingerprint"]
            dtype = np.dtype(f"<u{header['bytes']}")
            size = _starts_at(num_lengths) + num_documents * dtype.itemsize
            is_whole = first.startswith(_MAGIC) and os.fstat(file.fileno()).st_size == size
            is_whole = is_whole and header["version"] == VERSION
        except (orjson.JSONDecodeError, KeyError, TypeError):
            is_whole = False
        if not is_whole:
            raise CorruptShardError(
                f"{path} is not a whole index of documents of version {VERSION}", hint=_REBUILD
            )
        if key not in (None, of_data):
            raise MismatchError(f"{path} is an index of other data (key {of_data})", hint=_REBUILD)
        lengths, counts = np.fromfile(file, "<i8", 2 * num_lengths).reshape(2, -1)
        starts = np.empty(0, dtype)
        if num_documents:
            at = _starts_at(num_lengths)
            starts = np.asarray(np.memmap(file, dtype, "r", at, (num_documents,)))
    if key is not None and _fingerprint(lengths, counts, starts) != fingerprint:
        raise CorruptShardError(f"{path} was changed after it was written", hint=_REBUILD)
    return LengthIndex(lengths, counts, starts, fingerprint, path)


def _starts_at(num_lengths: int) -> int:
    return _ALIGN - (-16 * num_lengths // _ALIGN) * _ALIGN


def _reopen(path: Path, fingerprint: str) -> LengthIndex:
    index = _open(path)
    if index.fingerprint != fingerprint:
        raise MismatchError(
            f"{path} was replaced by an index of other data while it was in use",
            hint="start again: the index is built again when it is needed",
        )
    return index


def _fingerprint(lengths: np.ndarray, counts: np.ndarray, starts: np.ndarray) -> str:
    """Return a hash of where all documents are; the same for starts of 4 bytes and of 8."""
    hasher = xxhash.xxh3_128()
    for table in (lengths, counts):
        hasher.update(table.astype("<i8").data)
    for at in range(0, len(starts), _BLOCK):
        hasher.update(starts[at : at + _BLOCK].astype("<u8").data)
    return hasher.hexdigest()


def _starts_dtype(num_tokens: int) -> np.dtype[Any]:
    return np.dtype("<u4" if num_tokens < 1 << 32 else "<u8")


def _blocks_of_ends(ends: EndsBetween, num_tokens: int) -> Iterator[np.ndarray]:
    for start in range(0, num_tokens, _TOKENS_AT_ONCE):
        yield ends(start, min(start + _TOKENS_AT_ONCE, num_tokens))


def sort_by_length(
    ends: Iterable[np.ndarray], num_tokens: int, folder: Path | None, make: MakeArray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort the documents that end there, and the one after the last end, if there is one.

    Returns the lengths that occur, ascending; how many documents have each; where each begins. The
    ends are kept in a file without a name in `folder`; None: the usual folder for such files.
    """
    with TemporaryFile(dir=folder) as file:
        edges = _write_edges(file, ends, num_tokens)
        lengths, counts = _count(edges)
        starts = make(lengths, counts)
        places = np.cumsum(counts) - counts  # (lengths,): where the next document of each is put
        rank_of_small = np.searchsorted(lengths, np.arange(_SMALL))
        # NumPy sorts 16 bits faster.
        rank_dtype = np.uint16 if len(lengths) <= 1 << 16 else np.uint32
        for block, block_lengths in _blocks(edges):
            ranks = rank_of_small[np.minimum(block_lengths, _SMALL - 1)]  # (documents,)
            is_large = block_lengths >= _SMALL
            ranks[is_large] = np.searchsorted(lengths, block_lengths[is_large])
            order = np.argsort(ranks.astype(rank_dtype), kind="stable")
            added = np.bincount(ranks, minlength=len(lengths))
            shift = places - (np.cumsum(added) - added)
            starts[np.arange(len(block)) + shift[ranks[order]]] = block[order]
            places += added
    return lengths, counts, starts


def _write_edges(file: IO[bytes], ends: Iterable[np.ndarray], num_tokens: int) -> np.ndarray:
    """Write 0 and all ends into a file, the end of the tokens last, and map it."""
    dtype = _starts_dtype(num_tokens)
    last = np.zeros(1, dtype)
    file.write(last.data)
    for block in filter(len, ends):
        last = block[-1:]
        file.write(block.astype(dtype).data)
    if last < num_tokens:
        file.write(np.array([num_tokens], dtype).data)
    file.flush()
    return np.memmap(file, dtype, "r")


def _blocks(edges: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for low in range(0, len(edges) - 1, _BLOCK):
        block = edges[low : low + _BLOCK + 1].astype(np.int64)
        yield block[:-1], np.diff(block)


def _count(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    small = np.zeros(_SMALL, np.int64)
    large = [np.empty(0, np.int64)]
    for _, lengths in _blocks(edges):
        large.append(lengths[lengths >= _SMALL])
        small += np.bincount(lengths[lengths < _SMALL], minlength=_SMALL)
    few = np.flatnonzero(small)
    rare, rare_counts = np.unique(np.concatenate(large), return_counts=True)
    return np.concatenate([few, rare]), np.concatenate([small[few], rare_counts])
