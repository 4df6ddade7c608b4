"""A search in a long table is NumPy's."""

import numpy as np
import pytest

from tokenmill.edits.long_table import LongTable


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("spread", [1, 3, 10**6, 2**40 // 10**4])
@pytest.mark.parametrize("crowded", [False, True])
def test_any_table_is_searched_like_numpy_does(side, spread, crowded):
    rng = np.random.default_rng(spread)
    numbers = np.sort(rng.integers(0, 10_000 * spread, 10_000))
    if crowded:  # most of them in one place
        numbers = np.sort(np.append(numbers, rng.integers(50, 60, 20_000)))
    wanted = np.concatenate([rng.integers(0, 10_001 * spread, 5_000), numbers[::7], [0, 2**50]])

    found = LongTable(numbers).searchsorted(wanted, side)

    assert np.array_equal(found, np.searchsorted(numbers, wanted, side=side))
