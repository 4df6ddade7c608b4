"""Which window comes n-th: a keyed permutation of range(n), computed and never stored.

A shuffled table of 10 billion windows takes 80 GB on every rank and must be built again to resume.
Here any rank can ask for any position at any time, and the whole resume state is one integer.

A 6-round Feistel network with cycle walking (order.md, "The permutation"); the rounds reversed
undo it. Mean cost is 1 to 4 passes, by n. Not cryptographic. The kernel takes about 10 ns per
number and pass; in NumPy there are about 70 operations per call, so ask for thousands of positions
together.
"""

import functools

import numpy as np

# Imported here, since NumPy does it when first used, and a Ctrl-C meanwhile gets lost.
from numpy.random import SeedSequence

from tokenmill import kernel

NUM_ROUNDS = 6  # 2 fail the uniformity test (chi2/dof 1.66 at n=50), 4 pass it, 6 leave margin
_POWERS_OF_FOUR = np.uint64(4) ** np.arange(1, 32, dtype=np.uint64)


def shuffle(position: np.ndarray, n: int, *, seed: int, epoch: int) -> np.ndarray:
    """The window at each position of this epoch.

    >>> shuffle(np.arange(8), 8, seed=0, epoch=0).tolist()
    [0, 5, 3, 7, 6, 1, 2, 4]
    """
    return permute(position, n, round_keys(seed, epoch))


@functools.lru_cache(maxsize=64)
def round_keys(*entropy: int) -> np.ndarray:
    """The keys of one permutation, from (seed, epoch, ...): the only place the seed enters."""
    return SeedSequence(entropy).generate_state(NUM_ROUNDS, np.uint64)


def permute(x: np.ndarray, n: int, keys: np.ndarray, *, inverse: bool = False) -> np.ndarray:
    """Send each of `x`, all in range(n), to its image under the permutation of these keys."""
    numbers = np.ascontiguousarray(x, np.int64).reshape(-1)
    return permute_each(numbers, None, np.array([n]), keys[None], inverse=inverse).reshape(x.shape)


def permute_each(
    x: np.ndarray,
    which: np.ndarray | None,
    sizes: np.ndarray,
    keys: np.ndarray,
    *,
    inverse: bool = False,
) -> np.ndarray:
    """`permute` where every number has a permutation: x[i] in range(sizes[w]), w = which[i].

    `x` and `which` are (numbers,) int64, `sizes` (permutations,), `keys` (permutations, rounds).
    Without `which` all have the first permutation.
    """
    if kernel.compiled is not None:
        images = np.empty_like(x)
        kernel.compiled.permute(images, x, which, sizes, keys, inverse)
        return images
    which = np.zeros_like(x) if which is None else which
    size = sizes.astype(np.uint64)[which]
    if (x < 0).any() or (x.astype(np.uint64) >= size).any():
        raise ValueError("a number is not in the range of its permutation")
    half_bits = (np.searchsorted(_POWERS_OF_FOUR, sizes.astype(np.uint64)) + 1).astype(np.uint64)
    image = x.astype(np.uint64)
    # One pass for all numbers, then again for those that fell outside their range.
    outside = np.arange(len(x))
    while outside.size:
        group = which[outside]
        again = _network(image[outside], half_bits[group], keys[group].T, inverse)
        image[outside] = again
        outside = outside[again >= size[outside]]
    return image.astype(np.int64)


def _network(x: np.ndarray, half_bits: np.ndarray, keys: np.ndarray, inverse: bool) -> np.ndarray:
    """Run the rounds over the halves of each number, backward for the inverse.

    `x` and `half_bits` are (numbers,) uint64, `keys` (rounds, numbers).
    """
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left = x >> half_bits
    right = x & mask
    if inverse:
        left, right = right, left
    for key in keys[::-1] if inverse else keys:
        left, right = right, left ^ (mix(right ^ key) & mask)
    if inverse:
        left, right = right, left
    joined: np.ndarray = (left << half_bits) | right
    return joined


def mix(x: np.ndarray) -> np.ndarray:
    """Scramble 64 bits (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed
