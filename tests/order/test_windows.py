"""Windows: T inputs and T targets, one token shared, and a phase that moves them."""

import doctest

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill.order import mixture_order, step_share, window_order
from tokenmill.order.window_order import Windows


def targets_of_epoch(windows: Windows, epoch: int) -> np.ndarray:
    starts = windows.start_of(np.arange(windows.count), epoch)
    return (starts[:, None] + np.arange(1, windows.block_size + 1)).ravel()


@pytest.mark.parametrize("block_size", [1, 2, 7, 16])
@pytest.mark.parametrize("num_tokens", [17, 33, 34, 47, 48, 49, 97])
def test_every_token_but_the_first_and_the_tail_is_a_target_once(num_tokens, block_size):
    windows = Windows(num_tokens, block_size)

    targets = targets_of_epoch(windows, 0)

    tail = (num_tokens - 1) % block_size
    assert targets.tolist() == list(range(1, num_tokens - tail))
    assert windows.slack == tail


@pytest.mark.parametrize("num_tokens", [33, 47, 48, 49, 97])
def test_with_phase_no_token_is_a_target_twice_and_none_is_lost_for_good(num_tokens):
    windows = Windows(num_tokens, 16, seed=1, phase=True)
    seen = set()

    for epoch in range(400):
        targets = targets_of_epoch(windows, epoch)
        assert len(targets) == windows.count * 16 == len(set(targets.tolist()))
        assert targets.min() >= 1
        assert targets.max() < num_tokens
        seen |= set(targets.tolist())

    assert seen == set(range(1, num_tokens))


def test_with_phase_boundaries_move_over_all_places():
    windows = Windows(1000, 16, seed=0, phase=True)

    offsets = [windows.offset(epoch) for epoch in range(2000)]

    assert set(offsets) == set(range(windows.slack + 1))
    assert len({Windows(1000, 16, seed=s, phase=True).offset(0) for s in range(50)}) > 10


@pytest.mark.parametrize("phase", [False, True])
def test_windows_that_target_a_range_are_exactly_those_that_hold_one_of_its_tokens(phase):
    windows = Windows(101, 8, seed=2, phase=phase)
    for epoch in range(3):
        targets = targets_of_epoch(windows, epoch).reshape(windows.count, 8)
        for start in range(0, 102, 5):
            for stop in range(start, 110, 3):
                asked = np.arange(start, stop)

                expected = np.flatnonzero(np.isin(targets, asked).any(axis=1))

                assert list(windows.targeting(start, stop, epoch)) == expected.tolist()


@given(
    num_tokens=st.integers(2, 300),
    block_size=st.integers(1, 60),
    phase=st.booleans(),
    epoch=st.integers(0, 10**9),
    seed=st.integers(0, 2**63 - 1),
)
@settings(max_examples=150, deadline=None)
def test_windows_of_any_sizes_fill_the_axis_but_for_the_slack(
    num_tokens, block_size, phase, epoch, seed
):
    if num_tokens - 1 < block_size * (1 + phase):
        with pytest.raises(ValueError, match="is too long"):
            Windows(num_tokens, block_size, seed, phase)
        return
    windows = Windows(num_tokens, block_size, seed, phase)

    targets = targets_of_epoch(windows, epoch).tolist()

    assert targets == list(range(targets[0], targets[0] + windows.count * block_size))
    assert targets[0] == 1 + windows.offset(epoch)
    assert targets[-1] < num_tokens
    assert len(targets) + windows.slack == num_tokens - 1
    low = block_size if phase else 0
    assert low <= windows.slack < low + block_size


def test_the_offsets_of_a_phase_are_frozen():
    """As 0.1.0 drew them."""
    windows = Windows(97, 8, seed=7, phase=True)

    assert [windows.offset(epoch) for epoch in range(12)] == [6, 5, 2, 2, 3, 0, 0, 4, 8, 5, 1, 4]


def test_a_block_longer_than_the_data_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"block_size 16 is too long .* 16 tokens.* takes 17"):
        Windows(16, 16)
    with pytest.raises(ValueError, match=r"32 tokens; one window with phase=True takes 33"):
        Windows(32, 16, phase=True)
    with pytest.raises(ValueError, match="block_size is 0"):
        Windows(16, 0)
    assert Windows(17, 16).count == 1


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(step_share).failed == 0
    assert doctest.testmod(mixture_order).failed == 0
    assert doctest.testmod(window_order).failed == 0
