"""The keyed permutation: a bijection for every n, undone by its inverse, and well mixed."""

import doctest

import numpy as np
import pytest

from tokenmill.order import permutation
from tokenmill.order.permutation import shuffle, unshuffle

AWKWARD = [1, 2, 3, 5, *(2**k + d for k in (2, 8, 12, 16) for d in (-1, 0, 1)), 9973, 65521]


def plain_shuffle(position: int, n: int, keys: list[int]) -> int:
    """The same network with Python's integers, one number at a time: an oracle without NumPy."""
    word = (1 << 64) - 1
    half = 1
    while 4**half < n:
        half += 1
    mask = (1 << half) - 1
    x = position
    while True:
        left, right = x >> half, x & mask
        for key in keys:
            z = right ^ key
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
            left, right = right, left ^ ((z ^ (z >> 31)) & mask)
        x = (left << half) | right
        if x < n:
            return x


def test_every_size_to_2000_is_permuted_and_restored():
    for n in range(1, 2001):
        position = np.arange(n)

        window = shuffle(position, n, seed=n % 7, epoch=n % 3)

        assert np.array_equal(np.sort(window), position), n
        assert np.array_equal(unshuffle(window, n, seed=n % 7, epoch=n % 3), position), n


@pytest.mark.parametrize("n", AWKWARD)
@pytest.mark.parametrize("epoch", [0, 1])
def test_awkward_sizes_are_permuted(n, epoch):
    position = np.arange(n)

    assert np.array_equal(np.sort(shuffle(position, n, seed=1, epoch=epoch)), position)


@pytest.mark.parametrize("n", [2**31 + 11, 2**32, 2**32 + 1, 10**12 // 1024, 2**40 - 87, 2**40])
def test_huge_sizes_stay_in_range_and_come_back(n):
    position = np.random.default_rng(0).integers(0, n, 20_000)
    position[:3] = 0, n - 1, n // 2

    window = shuffle(position, n, seed=5, epoch=9)

    assert window.min() >= 0
    assert window.max() < n
    assert np.array_equal(unshuffle(window, n, seed=5, epoch=9), position)


@pytest.mark.parametrize("n", [1, 3, 8, 50, 1000, 2**40 - 87])
def test_it_equals_the_plain_version(n):
    position = np.unique(np.linspace(0, n - 1, 200).astype(np.int64))
    keys = [int(key) for key in permutation.round_keys(3, 4)]

    expected = [plain_shuffle(p, n, keys) for p in position.tolist()]

    assert shuffle(position, n, seed=3, epoch=4).tolist() == expected


def test_positions_may_come_in_any_number_shape_and_order():
    whole = shuffle(np.arange(50_000), 50_000, seed=0, epoch=0)

    some = np.array([[49_999, 3], [17, 20_000]])

    assert np.array_equal(shuffle(some, 50_000, seed=0, epoch=0), whole[some])
    assert shuffle(np.empty(0, np.int64), 8, seed=0, epoch=0).shape == (0,)


def test_seeds_and_epochs_give_different_orders():
    orders = {
        tuple(shuffle(np.arange(100), 100, seed=seed, epoch=epoch).tolist())
        for seed in range(20)
        for epoch in range(20)
    }

    assert len(orders) == 400


@pytest.mark.parametrize("n", [5, 16, 50])
def test_over_seeds_every_window_is_as_likely_at_every_position(n):
    """chi2 of the n x n table of (position, window) over 2000 seeds, against its expectation."""
    table = np.zeros((n, n))
    for seed in range(2000):
        table[np.arange(n), shuffle(np.arange(n), n, seed=seed, epoch=0)] += 1

    chi2 = ((table - 2000 / n) ** 2 / (2000 / n)).sum()

    dof = (n - 1) ** 2
    assert abs(chi2 / dof - 1) < 5 * np.sqrt(2 / dof)


@pytest.mark.parametrize("n", [10_000, 65_536, 65_537])
@pytest.mark.parametrize("lag", [1, 2, 64, 1024])
def test_neighbours_are_not_correlated(n, lag):
    for seed in range(3):
        window = shuffle(np.arange(n), n, seed=seed, epoch=0).astype(float)

        correlation = np.corrcoef(window[:-lag], window[lag:])[0, 1]

        assert abs(correlation) < 4.5 / np.sqrt(n)


def test_epochs_of_a_seed_are_not_correlated():
    orders = [shuffle(np.arange(20_000), 20_000, seed=7, epoch=epoch) for epoch in range(6)]

    correlations = np.corrcoef(np.array(orders, float)) - np.eye(6)

    assert np.abs(correlations).max() < 4.5 / np.sqrt(20_000)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(permutation).failed == 0
