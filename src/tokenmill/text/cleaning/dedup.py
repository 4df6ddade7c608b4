"""Which lines or documents were seen before: each is known by its 128-bit hash.

Two different lines meet in one 128-bit hash with a probability of about n*n / 2**129: for a
trillion lines, one in 680 million.
"""

from collections.abc import Iterable

import numpy as np
import xxhash

HASH = np.dtype([("high", "<u8"), ("low", "<u8")])


def hash_all(texts: Iterable[bytes | memoryview]) -> np.ndarray:
    """Return the xxh3-128 of each text, as (high, low) pairs of 64 bits."""
    return np.frombuffer(b"".join(map(xxhash.xxh3_128_digest, texts)), HASH)


def find_repeated(hashes: np.ndarray) -> np.ndarray:
    """Return the positions of hashes that are there before."""
    ordered, order = sort_hashes(hashes)
    found: np.ndarray = order[_same_as_before(ordered)]
    return found


def find_on_other_side(hashes: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Return the positions of hashes that are first on the other side.

    `held_out` says which side each is on.
    """
    ordered, order = sort_hashes(hashes)
    is_first = ~_same_as_before(ordered)
    first = np.maximum.accumulate(np.where(is_first, np.arange(len(hashes)), 0))
    side = held_out[order]
    found: np.ndarray = order[side != side[first]]
    return found


def sort_hashes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the hashes by (low, high), equal ones in the order they came, and their positions.

    Plain sorting is seven times as fast as sorting with positions. So the position takes the
    place of the last bits of the hash; if those would have mattered, the slow way is taken. The
    hashes of a partition have their first bits in common, but only those of `high`.
    """
    bits = np.uint64((1 << len(hashes).bit_length()) - 1)
    packed = (hashes["low"] & ~bits) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order: np.ndarray = (packed & bits).astype(np.intp)
    ordered = _taken(hashes, order)
    high = ordered["high"]
    low = ordered["low"]
    if ((low[1:] < low[:-1]) | ((low[1:] == low[:-1]) & (high[1:] != high[:-1]))).any():
        order = np.lexsort((hashes["high"], hashes["low"]))
        ordered = _taken(hashes, order)
    return ordered, order


def _taken(hashes: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Return hashes[positions]; as pairs of numbers, which NumPy moves faster than records."""
    pairs = hashes.view("<u8").reshape(-1, 2)
    taken: np.ndarray = pairs.take(positions, axis=0).view(HASH).reshape(-1)
    return taken


def _same_as_before(ordered: np.ndarray) -> np.ndarray:
    """Return a mask of sorted hashes that are equal to the one before."""
    same = np.zeros(len(ordered), np.bool_)
    same[1:] = ordered["high"][1:] == ordered["high"][:-1]
    same[1:] &= ordered["low"][1:] == ordered["low"][:-1]
    return same
