"""Which lines or documents were seen before: hashes sorted in partitions, never held all at once.

Every line (or document) is known by its 128-bit hash and its place, a number that grows in input
order. Each unit keeps one run of its first occurrences, sorted by hash. A partition is a range of
hash values; its slice of every run is found by bisection, so a partition costs memory only for its
own share, and partitions can be searched in parallel. The first occurrence in input order stays.

Two different lines meet in one 128-bit hash with a probability of about n*n / 2**129: for a
trillion lines, one in 680 million.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import xxhash

HASH = np.dtype([("high", "<u8"), ("low", "<u8")])


def hash_all(texts: Iterable[bytes | memoryview]) -> np.ndarray:
    """The xxh3-128 of each text, as (high, low) pairs of 64 bits."""
    digests = b"".join(map(xxhash.xxh3_128_digest, texts))
    return np.frombuffer(digests, HASH)


class Run(NamedTuple):
    """Hashes with their first occurrences, sorted, and the repetitions."""

    hashes: np.ndarray  # HASH, sorted by (high, low), each once
    places: np.ndarray  # where each is first
    repeated: np.ndarray  # places of what was there before, sorted


def make_run(hashes: np.ndarray, places: np.ndarray) -> Run:
    """Sort hashes that come in the order of their places, and set repetitions aside."""
    hashes, order = _sorted(hashes)
    is_first = np.ones(len(hashes), np.bool_)
    is_first[1:] = ~_same_as_before(hashes)
    first = np.flatnonzero(is_first)
    again = np.ones(len(hashes), np.bool_)
    again[order[first]] = False
    repeated = np.sort(places[again], kind="stable")  # fast where they are in order already
    return Run(_taken(hashes, first), places[order[first]], repeated)


def find_duplicates(hashes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The `repeated` of `make_run`; faster, for nothing but candidates is sorted with its place."""
    candidates = np.flatnonzero(_values_that_repeat(np.ascontiguousarray(hashes["high"])))
    hashes, order = _sorted(_taken(hashes, candidates))
    found: np.ndarray = np.sort(places[candidates[order[1:][_same_as_before(hashes)]]])
    return found


def sort_all(hashes: np.ndarray, places: np.ndarray) -> Run:
    """Sort hashes that come in the order of their places; repetitions stay among them."""
    hashes, order = _sorted(hashes)
    return Run(hashes, places[order], places[:0])


def find_on_other_side(hashes: np.ndarray, places: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Places of what was first seen on the other side: `held_out` says which side each is on.

    They come in the order of their places.
    """
    hashes, order = _sorted(hashes)
    is_first = np.ones(len(hashes), np.bool_)
    is_first[1:] = ~_same_as_before(hashes)
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(hashes)), 0))
    side = held_out[order]
    found: np.ndarray = np.sort(places[order[side != side[first]]])
    return found


def in_hashes(hashes: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which of the hashes are among the wanted ones."""
    found = np.isin(hashes["high"], wanted["high"])
    known = set(wanted.tolist())
    found[found] = [pair in known for pair in hashes[found].tolist()]
    return found


def partition_bounds(partition: int, num_partitions: int) -> tuple[int, int]:
    """The values of `high` that belong to a partition: from the first up to the second."""
    low, high = ((n << 64) // num_partitions for n in (partition, partition + 1))
    return low, high


def _sorted(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hashes by (high, low), equal ones in the order they came, and where each came from.

    Plain sorting is seven times as fast as sorting with positions. So the position takes the
    place of the last bits of the hash; if those would have mattered, the slow way is taken.
    """
    bits = np.uint64((1 << len(hashes).bit_length()) - 1)
    packed = (_first_bits_that_differ(hashes) & ~bits) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order: np.ndarray = (packed & bits).astype(np.intp)
    ordered = _taken(hashes, order)
    high, low = ordered["high"], ordered["low"]
    if ((high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] != low[:-1]))).any():
        order = np.lexsort((hashes["low"], hashes["high"]))
        ordered = _taken(hashes, order)
    return ordered, order


def _first_bits_that_differ(hashes: np.ndarray) -> np.ndarray:
    """64 bits of each hash, from the first on that is not the same in all of a narrow partition."""
    high = hashes["high"]
    if not len(high):
        return high
    same = 64 - (int(high.min()) ^ int(high.max())).bit_length()
    if not 0 < same < 64:
        return high
    bits: np.ndarray = (high << np.uint64(same)) | (hashes["low"] >> np.uint64(64 - same))
    return bits


def _taken(hashes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """hashes[places]; as pairs of numbers, which NumPy moves faster than it moves records."""
    pairs = hashes.view("<u8").reshape(-1, 2)
    taken: np.ndarray = pairs.take(places, axis=0).view(HASH).reshape(-1)
    return taken


def _same_as_before(hashes: np.ndarray) -> np.ndarray:
    high, low = hashes["high"], hashes["low"]
    same: np.ndarray = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return same


def _values_that_repeat(values: np.ndarray) -> np.ndarray:
    """A mask that holds at least every value that is there more than once.

    Plain sorting is several times faster than sorting with positions, so positions are only
    sorted for values whose last bits are those of a repeated value.
    """
    ordered = np.sort(values)
    table = np.zeros(4 << len(values).bit_length(), np.bool_)
    low_bits = np.uint64(len(table) - 1)
    table[ordered[1:][ordered[1:] == ordered[:-1]] & low_bits] = True
    found: np.ndarray = table[values & low_bits]
    return found
