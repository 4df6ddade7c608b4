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
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def shuffle(position: np.ndarray, n: int, *, seed: int, epoch: int) -> np.ndarray:
    """Return the window at each position of this epoch.

    >>> shuffle(np.arange(8), 8, seed=0, epoch=0).tolist()
    [0, 5, 3, 7, 6, 1, 2, 4]
    """
    return permute(position, n, round_keys(seed, epoch))


def unshuffle(window: np.ndarray, n: int, *, seed: int, epoch: int) -> np.ndarray:
    """Return the position of each window in this epoch: the inverse of `shuffle`.

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
    if half_bits <= _TABLE_BITS:
        numbers: np.ndarray = x.astype(np.uint32).reshape(-1)
        tables = _round_tables(half_bits, keys.tobytes())
        network = functools.partial(_by_tables, tables=tables, inverse=inverse)
    else:
        numbers = x.astype(np.uint64).reshape(-1)
        network = functools.partial(_backward if inverse else _forward, keys=keys)
    image = np.empty_like(numbers)
    for at in range(0, len(numbers), _AT_ONCE):
        image[at : at + _AT_ONCE] = network(numbers[at : at + _AT_ONCE], half_bits)
    outside = np.flatnonzero(image >= n) if n < 1 << 2 * half_bits else np.empty(0, np.intp)
    while outside.size:
        again = network(image[outside], half_bits)
        image[outside] = again
        outside = outside[again >= n]
    return image.astype(np.int64).reshape(x.shape)


def mix(x: np.ndarray) -> np.ndarray:
    """Scramble 64 bits (the finalizer of splitmix64)."""
    x = x.copy()
    _mix_in_place(x, np.empty_like(x))
    return x


@functools.lru_cache(maxsize=8)
def _round_tables(half_bits: int, keys: bytes) -> np.ndarray:
    """What each round adds, for every value of a half: (rounds, 2 ** half_bits)."""
    halves = np.arange(1 << half_bits, dtype=np.uint64)
    mask = np.uint64((1 << half_bits) - 1)
    rounds = [mix(halves ^ key) & mask for key in np.frombuffer(keys, np.uint64)]
    return np.array(rounds, np.uint32)


def _by_tables(x: np.ndarray, half_bits: int, tables: np.ndarray, *, inverse: bool) -> np.ndarray:
    """The same network, each round looked up instead of computed: four times as fast."""
    left, right = x >> np.uint32(half_bits), x & np.uint32((1 << half_bits) - 1)
    added = np.empty_like(x)
    if inverse:
        left, right = right, left
    for table in tables[::-1] if inverse else tables:
        table.take(right, out=added, mode="wrap")  # any mode but "raise" writes without a copy
        left ^= added
        left, right = right, left
    if inverse:
        left, right = right, left
    left <<= np.uint32(half_bits)
    left |= right
    return left


def _forward(x: np.ndarray, half_bits: int, keys: np.ndarray) -> np.ndarray:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> shift, x & mask
    scrambled, scratch = np.empty_like(x), np.empty_like(x)
    for key in keys:
        np.bitwise_xor(right, key, out=scrambled)
        _mix_in_place(scrambled, scratch)
        scrambled &= mask
        left ^= scrambled
        left, right = right, left
    left <<= shift
    left |= right
    return left


def _backward(x: np.ndarray, half_bits: int, keys: np.ndarray) -> np.ndarray:
    shift, mask = np.uint64(half_bits), np.uint64((1 << half_bits) - 1)
    left, right = x >> shift, x & mask
    scrambled, scratch = np.empty_like(x), np.empty_like(x)
    for key in keys[::-1]:
        left, right = right, left
        np.bitwise_xor(right, key, out=scrambled)
        _mix_in_place(scrambled, scratch)
        scrambled &= mask
        left ^= scrambled
    left <<= shift
    left |= right
    return left


def _mix_in_place(x: np.ndarray, scratch: np.ndarray) -> None:
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        np.right_shift(x, shift, out=scratch)
        x ^= scratch
        x *= factor
    np.right_shift(x, _SHIFTS[2], out=scratch)
    x ^= scratch
