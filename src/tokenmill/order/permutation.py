"""Which window comes n-th: a keyed permutation of range(n), computed and never stored.

A shuffled table of 10 billion windows takes 80 GB on every rank and must be built again to
resume. Here the window at a position is a function of (seed, epoch, position), so any rank can
ask for any position at any time and the whole resume state is one integer.

Method: a 6-round Feistel network over the smallest power of four >= n (and >= 4); a result that
falls outside range(n) is fed back in until it falls inside (cycle walking). A bijection on the
larger set stays one on the smaller, and walking back with the rounds reversed undoes it. Mean cost
is 1 to 4 passes, by n. Not cryptographic. Per call there are about 70 NumPy operations, so ask for
thousands of positions at once.

The order is a promise: tests/promises/test_order_is_frozen.py holds it across releases.
"""

import functools

import numpy as np

# Imported here, since NumPy does it when first used, and a Ctrl-C meanwhile gets lost.
from numpy.random import SeedSequence

_TABLE_BITS = 16  # up to 2**32 numbers; tables of at most 1.5 MB, made in 6 ms
NUM_ROUNDS = 6  # 2 fail the uniformity test (chi2/dof 1.66 at n=50), 4 pass it, 6 leave margin
_AT_ONCE = 1 << 14  # 128 KiB an array: the few that are in use stay in the cache


def shuffle(position: np.ndarray, n: int, *, seed: int, epoch: int) -> np.ndarray:
    """The window at each position of this epoch.

    >>> shuffle(np.arange(8), 8, seed=0, epoch=0).tolist()
    [0, 5, 3, 7, 6, 1, 2, 4]
    """
    return permute(position, n, round_keys(seed, epoch))


def unshuffle(window: np.ndarray, n: int, *, seed: int, epoch: int) -> np.ndarray:
    """The position of each window in this epoch: the inverse of `shuffle`.

    >>> unshuffle(np.array([0, 5, 3]), 8, seed=0, epoch=0).tolist()
    [0, 1, 2]
    """
    return permute(window, n, round_keys(seed, epoch), inverse=True)


@functools.lru_cache(maxsize=64)
def round_keys(*entropy: int) -> np.ndarray:
    """The keys of one permutation, from (seed, epoch, ...): the only place the seed enters."""
    return SeedSequence(entropy).generate_state(NUM_ROUNDS, np.uint64)


def permute(x: np.ndarray, n: int, keys: np.ndarray, *, inverse: bool = False) -> np.ndarray:
    """Send each of `x`, all in range(n), to its image under the permutation of these keys."""
    half_bits = max(1, ((n - 1).bit_length() + 1) // 2)
    tabled = half_bits <= _TABLE_BITS
    rounds = _round_tables(half_bits, keys.tobytes()) if tabled else keys
    network = functools.partial(_network, half_bits=half_bits, rounds=rounds, inverse=inverse)
    numbers: np.ndarray = x.astype(np.uint32 if tabled else np.uint64).reshape(-1)
    image = np.empty_like(numbers)
    for at in range(0, len(numbers), _AT_ONCE):
        image[at : at + _AT_ONCE] = network(numbers[at : at + _AT_ONCE])
    # Walk on with those that fell outside range(n), until none is left there.
    outside = np.flatnonzero(image >= n) if n < 1 << 2 * half_bits else np.empty(0, np.intp)
    while outside.size:
        again = network(image[outside])
        image[outside] = again
        outside = outside[again >= n]
    return image.astype(np.int64).reshape(x.shape)


def permute_each(
    x: np.ndarray, n: np.ndarray, keys: np.ndarray, *, inverse: bool = False
) -> np.ndarray:
    """`permute` where every number has a permutation of its own: x[i] in range(n[i]), keys[:, i].

    Each result is that of `permute`; here thousands of small permutations cost as much as one.
    """
    image = np.empty(x.shape, np.int64)
    for at in range(0, len(x), _AT_ONCE):
        here = slice(at, at + _AT_ONCE)
        image[here] = _walk_each(x[here], n[here], keys[:, here], inverse)
    return image


def _walk_each(x: np.ndarray, n: np.ndarray, keys: np.ndarray, inverse: bool) -> np.ndarray:
    """One pass for all numbers, then again for those that fell outside their range."""
    limit = n.astype(np.uint64)
    # The exponent of a float is the number of bits; below 2^53 the conversion is exact.
    _, bits = np.frexp((n - 1).astype(np.float64))
    half_bits = np.maximum(1, (bits + 1) // 2).astype(np.uint64)
    image = _network_each(x.astype(np.uint64), half_bits, keys, inverse)
    outside = np.flatnonzero(image >= limit)
    while outside.size:
        again = _network_each(image[outside], half_bits[outside], keys[:, outside], inverse)
        image[outside] = again
        outside = outside[again >= limit[outside]]
    return image.astype(np.int64)


def _network_each(
    x: np.ndarray, half_bits: np.ndarray, keys: np.ndarray, inverse: bool
) -> np.ndarray:
    """The rounds of `_network`, with a size and keys for each number."""
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left, right = x >> half_bits, x & mask
    if inverse:
        left, right = right, left
    for key in keys[::-1] if inverse else keys:
        added = mix(right ^ key)
        added &= mask
        added ^= left
        left, right = right, added
    if inverse:
        left, right = right, left
    joined: np.ndarray = (left << half_bits) | right
    return joined


def mix(x: np.ndarray) -> np.ndarray:
    """Scramble 64 bits (the finalizer of splitmix64)."""
    mixed: np.ndarray = x >> np.uint64(30)  # then in place: new arrays take most of the time
    mixed ^= x
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    shifted = mixed >> np.uint64(27)
    mixed ^= shifted
    mixed *= np.uint64(0x94D049BB133111EB)
    np.right_shift(mixed, np.uint64(31), out=shifted)
    mixed ^= shifted
    return mixed


@functools.lru_cache(maxsize=8)
def _round_tables(half_bits: int, keys: bytes) -> np.ndarray:
    """What each round adds, for every value of a half: (rounds, 2 ** half_bits).

    Looking it up is four times as fast as computing it.
    """
    halves = np.arange(1 << half_bits, dtype=np.uint64)
    mask = np.uint64((1 << half_bits) - 1)
    rounds = [mix(halves ^ key) & mask for key in np.frombuffer(keys, np.uint64)]
    return np.array(rounds, np.uint32)


def _network(x: np.ndarray, half_bits: int, rounds: np.ndarray, inverse: bool) -> np.ndarray:
    """Run the rounds (tables, or keys) over the halves of each number, backward for the inverse."""
    shift, mask = x.dtype.type(half_bits), x.dtype.type((1 << half_bits) - 1)
    left: np.ndarray = x >> shift
    right, added = x & mask, np.empty_like(x)
    if inverse:
        left, right = right, left
    for each in rounds[::-1] if inverse else rounds:
        if each.ndim:
            each.take(right, out=added, mode="wrap")  # but for "raise", no mode makes a copy
        else:
            np.bitwise_and(mix(right ^ each), mask, out=added)
        left ^= added
        left, right = right, left
    if inverse:
        left, right = right, left
    left <<= shift
    left |= right
    return left
