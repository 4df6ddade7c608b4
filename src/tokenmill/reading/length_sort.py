"""Sort documents by length, in memory that does not grow with their number.

Two passes. The first takes the ends of documents as they come, writes the start of each document
down and counts how often each length occurs. The second is a counting sort: the counts say where
the documents of each length begin in the result; a block of starts is sorted by length (a radix
sort, as lengths are replaced by their rank, a number of 16 bits) and its runs are put there.
Documents of one length stay in the order of the axis. Documents without a token are left out.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np

BLOCK = 1 << 20  # documents at a time: 8 MB an array
_SMALL = 1 << 16  # lengths below this are counted in a table
_THREADS = 2


class SortedDocuments(NamedTuple):
    """The lengths that occur, ascending; how many documents have each; where each begins."""

    lengths: np.ndarray
    counts: np.ndarray
    starts: np.ndarray


MakeArray = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Makes the array that the starts are put into, from lengths and counts."""


def sort_by_length(
    ends: Iterable[np.ndarray], num_tokens: int, folder: Path | None, make: MakeArray
) -> SortedDocuments:
    """The documents that end there, and the one after the last end, if there is one.

    `ends` are blocks of positions, ascending, each once. The starts are kept in a file without a
    name in `folder` between the two passes; None: the usual folder for such files.
    """
    dtype = starts_dtype(num_tokens)
    with TemporaryFile(dir=folder) as spill:
        lengths, counts = _count(_closed(ends, num_tokens), spill, dtype)
        starts = make(lengths, counts)
        places = np.cumsum(counts) - counts  # where the next document of each length is put
        ranks = _Ranks(lengths)
        with ThreadPoolExecutor(_THREADS, "tokenmill-sort") as threads:
            blocks = _ahead(threads, ranks.sort, _blocks(spill, dtype, num_tokens))
            for block, rank, added in blocks:
                before = np.cumsum(added) - added
                starts[np.arange(len(block)) + (places - before)[rank]] = block
                places += added
    return SortedDocuments(lengths, counts, starts)


def starts_dtype(num_tokens: int) -> np.dtype[Any]:
    """Four bytes a position where they suffice."""
    return np.dtype("<u4" if num_tokens < 1 << 32 else "<u8")


def _closed(ends: Iterable[np.ndarray], num_tokens: int) -> Iterator[np.ndarray]:
    """The ends, and the end of the tokens where the last document does not end there."""
    last = 0
    for block in ends:
        if len(block):
            last = int(block[-1])
            yield block
    if last < num_tokens:
        yield np.array([num_tokens])


def _count(
    ends: Iterable[np.ndarray], spill: IO[bytes], dtype: np.dtype[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Write the starts down; return the lengths that occur, and how many documents have each."""
    small = np.zeros(_SMALL, np.int64)
    large: dict[int, int] = {}
    start = 0
    for block in ends:
        starts = np.concatenate([[start], block[:-1]])
        spill.write(starts.astype(dtype).data)
        lengths = block - starts
        start = int(block[-1])
        if int(lengths.max()) >= _SMALL:
            for length, count in zip(*_unique(lengths[lengths >= _SMALL]), strict=True):
                large[length] = large.get(length, 0) + count
            lengths = lengths[lengths < _SMALL]
        small += np.bincount(lengths, minlength=_SMALL)
    spill.flush()
    found = np.flatnonzero(small)
    rare = np.array(sorted(large.items()), np.int64).reshape(-1, 2)
    return np.concatenate([found, rare[:, 0]]), np.concatenate([small[found], rare[:, 1]])


def _unique(lengths: np.ndarray) -> tuple[list[int], list[int]]:
    values, counts = np.unique(lengths, return_counts=True)
    return values.tolist(), counts.tolist()


def _blocks(
    spill: IO[bytes], dtype: np.dtype[Any], num_tokens: int
) -> Iterator[tuple[np.ndarray, int]]:
    """Starts of some documents, and the start of the one after them."""
    spill.seek(0)
    block = np.frombuffer(spill.read(BLOCK * dtype.itemsize), dtype)
    while len(block):
        following = np.frombuffer(spill.read(BLOCK * dtype.itemsize), dtype)
        yield block, int(following[0]) if len(following) else num_tokens
        block = following


class _Ranks:
    """The place of each length among those that occur."""

    def __init__(self, lengths: np.ndarray) -> None:
        self._lengths = lengths
        self._of_small = np.zeros(_SMALL, np.uint32)
        small = lengths[lengths < _SMALL]
        self._of_small[small] = np.arange(len(small))

    def sort(self, block: tuple[np.ndarray, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Starts of documents by length, the rank of each, and how many there are of each rank."""
        starts, following = block
        lengths = np.diff(starts, append=starts.dtype.type(following))
        rank = self._of_small[np.minimum(lengths, _SMALL - 1)]
        (large,) = (lengths >= _SMALL).nonzero()
        rank[large] = np.searchsorted(self._lengths, lengths[large])
        order = _stable_order(rank, len(self._lengths))
        added = np.bincount(rank, minlength=len(self._lengths))
        return starts[order], rank[order], added


def _stable_order(rank: np.ndarray, num_ranks: int) -> np.ndarray:
    """The order that sorts the ranks; NumPy sorts 16 bits by radix, so 32 take two goes."""
    order = np.argsort(rank.astype(np.uint16), kind="stable")
    if num_ranks > 1 << 16:
        high = (rank >> np.uint32(16)).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order


def _ahead(
    threads: ThreadPoolExecutor, work: Callable[..., Any], items: Iterator[Any]
) -> Iterator[Any]:
    """The results of some work in order, a few of them under way at a time."""
    coming = [threads.submit(work, item) for item in islice(items, _THREADS + 1)]
    while coming:
        result = coming.pop(0).result()
        coming += [threads.submit(work, item) for item in islice(items, 1)]
        yield result
