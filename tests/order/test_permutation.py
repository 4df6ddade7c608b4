"""The keyed permutation: a bijection for every n, undone by its inverse, and well mixed."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order.plain_order import keys_of, plain_shuffle

from tokenmill import kernel
from tokenmill.order import permutation
from tokenmill.order.permutation import permute, round_keys, shuffle


@pytest.fixture(autouse=True, params=["kernel", "twin"])
def way(request, monkeypatch):
    """Every test of this file, in C and in NumPy."""
    if request.param == "twin":
        monkeypatch.setattr(kernel, "compiled", None)


def unshuffle(window, n, *, seed, epoch):
    return permute(window, n, round_keys(seed, epoch), inverse=True)


AWKWARD = [1, 2, 3, 5, *(2**k + d for k in (2, 8, 12, 16) for d in (-1, 0, 1)), 9973, 65521]


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


@pytest.mark.parametrize("n", [1, 3, 8, 50, 1000, 2**32, 2**32 + 1, 2**40 - 87])
def test_it_equals_the_plain_version(n):
    position = np.unique(np.linspace(0, n - 1, 200).astype(np.int64))

    expected = [plain_shuffle(p, n, keys_of(3, 4)) for p in position.tolist()]

    assert shuffle(position, n, seed=3, epoch=4).tolist() == expected


@given(
    n=st.integers(1, 2**40),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 10**9),
    share=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
)
@settings(max_examples=150, deadline=None)
def test_any_position_of_any_size_goes_where_the_plain_version_sends_it_and_back(
    n, seed, epoch, share
):
    position = np.array([int(s * n) for s in share])

    window = shuffle(position, n, seed=seed, epoch=epoch)

    assert window.dtype == np.int64
    assert window.tolist() == [plain_shuffle(p, n, keys_of(seed, epoch)) for p in position.tolist()]
    assert unshuffle(window, n, seed=seed, epoch=epoch).tolist() == position.tolist()


@pytest.mark.parametrize("inverse", [False, True])
def test_each_number_may_have_its_own_permutation(inverse):
    rng = np.random.default_rng(0)
    sizes = np.array([1, 2, 3, 4, 5, 17, 4096, 4097, 2**32 + 1, 2**53 + 1, 2**62])
    keys = rng.integers(0, 2**64, (len(sizes), permutation.NUM_ROUNDS), np.uint64)
    which = rng.integers(0, len(sizes), 3000)
    numbers = rng.integers(0, sizes[which])

    found = permutation.permute_each(numbers, which, sizes, keys, inverse=inverse)

    for group, size in enumerate(sizes.tolist()):
        of_group = which == group
        expected = permutation.permute(numbers[of_group], size, keys[group], inverse=inverse)
        assert np.array_equal(found[of_group], expected)
    assert np.array_equal(
        permutation.permute_each(found, which, sizes, keys, inverse=not inverse), numbers
    )


@pytest.mark.parametrize("number", [-1, 8, 2**40])
def test_a_number_outside_of_the_range_is_refused(number):
    with pytest.raises(ValueError, match="not in the range of its permutation"):
        shuffle(np.array([0, number]), 8, seed=0, epoch=0)


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
