"""Counted words on disk: sorted by hash, so that many files are added up a range at a time.

    N.words   the number of words (8 bytes); hashes (16 bytes per word), counts (8), lengths (4);
              then the words

Equal words have equal hashes of 128 bits; on different words with one hash see
text/cleaning/dedup.py.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tokenmill.base.atomic import new_file
from tokenmill.text.cleaning.dedup import HASH, hash_all, sort_hashes

Array = npt.NDArray[Any]
_AT_ONCE = 1 << 16  # words that are copied at a time


class CountedWords(NamedTuple):
    """Words and the number of times each occurs; `text` holds them one after another."""

    hashes: Array  # (n,) HASH
    counts: Array  # (n,) uint64
    lengths: Array  # (n,) uint32, in bytes
    text: Array  # (sum of lengths,) uint8

    @classmethod
    def of(cls, words: Mapping[bytes, int]) -> Self:
        """Sort counted words by their hashes."""
        hashes, order = sort_hashes(hash_all(words))
        keys = list(words)
        counts = np.fromiter(words.values(), np.uint64, len(words))
        lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
        text = np.frombuffer(b"".join(keys[at] for at in order.tolist()), np.uint8)
        return cls(hashes, counts[order], lengths[order], text)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Map a file."""
        data = np.memmap(path, np.uint8, mode="r")
        num_words = int(data[:8].view("<u8")[0])
        stops = 8 + np.cumsum([0, 16 * num_words, 8 * num_words, 4 * num_words])
        _, hashes, counts, lengths, text = np.split(data, stops)
        return cls(hashes.view(HASH), counts.view("<u8"), lengths.view("<u4"), text)

    def write(self, path: Path) -> None:
        with new_file(path) as file:
            file.write(len(self.counts).to_bytes(8, "little"))
            file.write(np.ascontiguousarray(self.hashes).data)
            file.write(self.counts.astype("<u8").data)
            file.write(self.lengths.astype("<u4").data)
            file.write(np.ascontiguousarray(self.text).data)

    def between(self, low: int, high: int) -> Self:
        """Return the words whose hashes begin with values from `low` up to `high`."""
        begins = np.ascontiguousarray(self.hashes["high"])
        first = int(np.searchsorted(begins, np.uint64(low)))
        last = len(begins) if high >> 64 else int(np.searchsorted(begins, np.uint64(high)))
        start = int(self.lengths[:first].sum(dtype=np.int64))
        stop = start + int(self.lengths[first:last].sum(dtype=np.int64))
        hashes, counts, lengths = (array[first:last] for array in self[:3])
        return type(self)(hashes, counts, lengths, self.text[start:stop])

    def take(self, numbers: Array) -> Self:
        """Return the words with these numbers, in this order."""
        lengths = self.lengths[numbers].astype(np.int64)
        starts = (np.cumsum(self.lengths, dtype=np.int64) - self.lengths)[numbers]
        texts = [np.empty(0, np.uint8)]
        for first in range(0, len(numbers), _AT_ONCE):
            some = lengths[first : first + _AT_ONCE]
            stops = np.cumsum(some)
            # For every byte of the result, its position in the text.
            source = np.repeat(starts[first : first + _AT_ONCE] - (stops - some), some)
            source += np.arange(len(source))
            texts.append(self.text[source])
        hashes, counts, short = (array[numbers] for array in self[:3])
        return type(self)(hashes, counts, short, np.concatenate(texts))


def partition_bounds(partition: int, num_partitions: int) -> tuple[int, int]:
    """Return the first value of `high` that belongs to a partition, and the first beyond it."""
    low, high = ((n << 64) // num_partitions for n in (partition, partition + 1))
    return low, high


def add_up(runs: Iterable[CountedWords]) -> CountedWords:
    """Return every word of these runs once, with the sum of its counts."""
    joined = CountedWords(*map(np.concatenate, zip(*runs, strict=True)))
    hashes, order = sort_hashes(joined.hashes)
    first = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1])[: len(hashes)])
    words = joined.take(order[first])
    counts = joined.counts[order]
    return words._replace(counts=np.add.reduceat(counts, first) if len(first) else counts)
