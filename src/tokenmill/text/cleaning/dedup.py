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
_LONG_RUN = 32  # values, on average: such runs are worth merging


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
    if is_first.all():
        return Run(hashes, places.take(order), places[:0])
    first = np.flatnonzero(is_first)
    origins = order.take(first)
    again = np.ones(len(hashes), np.bool_)
    again[origins] = False
    repeated = np.sort(places[again], kind="stable")  # fast where they are in order already
    return Run(_taken(hashes, first), places.take(origins), repeated)


def find_duplicates(hashes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The `repeated` of `make_run`."""
    hashes, order = _sorted(hashes)
    found: np.ndarray = np.sort(places[order[1:][_same_as_before(hashes)]])
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
    """The hashes by (high, low), equal ones in the order they came, and where each came from."""
    order = _order(np.ascontiguousarray(hashes["high"]))
    ordered = _taken(hashes, order)
    high, low = ordered["high"], ordered["low"]
    if ((high[1:] < high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] < low[:-1]))).any():
        order = np.lexsort((hashes["low"], hashes["high"]))
        ordered = _taken(hashes, order)
    return ordered, order


def _order(values: np.ndarray) -> np.ndarray:
    """Where each of the sorted values comes from; they may not differ in their last 16 bits alone.

    Runs that are sorted are merged. Others are sorted by 16 bits after 16 bits, which NumPy does by
    counting: four times as fast as comparing.
    """
    if np.count_nonzero(values[1:] < values[:-1]) * _LONG_RUN < len(values):
        return values.argsort(kind="stable")
    _, *digits = np.ascontiguousarray(values.view("<u2").reshape(-1, 4).T)
    order: np.ndarray = digits[0].argsort(kind="stable")
    for digit in digits[1:]:
        order = order.take(digit.take(order).argsort(kind="stable"))
    return order


def _taken(hashes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """hashes[places]; as pairs of numbers, which NumPy moves faster than it moves records."""
    pairs = hashes.view("<u8").reshape(-1, 2)
    taken: np.ndarray = pairs.take(places, axis=0).view(HASH).reshape(-1)
    return taken


def _same_as_before(hashes: np.ndarray) -> np.ndarray:
    high, low = hashes["high"], hashes["low"]
    same: np.ndarray = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
    return same
