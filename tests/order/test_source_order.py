"""The four orders of one source: forward, back, and over the edges of epochs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order.made_orders import source_order
from order.plain_order import plain_blocks, plain_shard_blocks

from tokenmill.order.blocks import Blocks, ShardBlocks
from tokenmill.order.order_settings import OrderSettings
from tokenmill.order.window_order import Windows

ARRANGEMENTS = ["sequential", "shuffle", Blocks(4, 3), Blocks(1, 1), Blocks(7, 1000), Blocks()]


@pytest.mark.parametrize("order", ARRANGEMENTS, ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 11, 12, 13, 31, 32, 33, 127, 257, 1021])
def test_an_epoch_holds_every_window_once(order, count):
    whole = source_order(count * 5 + 1, 5, order, seed=3)
    for epoch in range(3):
        samples = np.arange(epoch * count, (epoch + 1) * count)

        starts = whole.starts(samples)

        assert np.array_equal(np.sort(starts), np.arange(count) * 5)


@pytest.mark.parametrize("order", ARRANGEMENTS, ids=str)
@pytest.mark.parametrize("phase", [False, True])
def test_samples_of_a_range_are_those_that_hold_it(order, phase):
    whole = source_order(331, 5, order, seed=3, phase=phase)
    count = whole.samples_per_epoch
    for epoch in range(2):
        samples = np.arange(epoch * count, (epoch + 1) * count)
        starts = whole.starts(samples)
        for start, stop in [(0, 1), (1, 2), (7, 40), (200, 331), (330, 331), (0, 331)]:
            holds = (starts + 5 >= start) & (starts + 1 < stop)

            found = whole.targeting(start, stop, epoch)

            assert found.tolist() == samples[holds & (stop > 1)].tolist()


def test_random_can_be_asked_where_a_range_comes_too():
    whole = source_order(331, 5, "random", seed=3)
    samples = np.arange(66, 132)
    starts = whole.starts(samples)

    found = whole.targeting(100, 120, epoch=1)

    assert found.tolist() == samples[(starts + 5 >= 100) & (starts + 1 < 120)].tolist()
    assert len(found) > 0


def test_samples_of_many_epochs_may_be_asked_at_once_in_any_order():
    whole = source_order(51, 5, "shuffle")
    one_by_one = [int(whole.starts(np.array([g]))[0]) for g in range(60)]
    mixed = np.random.default_rng(0).permutation(60)

    assert whole.starts(mixed).tolist() == [one_by_one[g] for g in mixed]


@pytest.mark.parametrize(
    ("order", "phase", "epochs"),
    [
        ("sequential", False, ([*range(0, 96, 8)], [*range(0, 96, 8)])),
        (
            "shuffle",
            False,
            (
                [80, 8, 88, 72, 48, 16, 0, 32, 40, 56, 64, 24],
                [0, 40, 64, 80, 8, 72, 88, 56, 48, 24, 32, 16],
            ),
        ),
        (
            Blocks(3, 2),
            False,
            (
                [8, 72, 80, 88, 0, 16, 64, 48, 40, 32, 24, 56],
                [88, 64, 72, 56, 48, 80, 32, 8, 24, 40, 0, 16],
            ),
        ),
        (
            "random",
            False,
            (
                [23, 85, 25, 43, 82, 3, 64, 62, 71, 17, 43, 46],
                [74, 53, 55, 47, 42, 65, 87, 28, 27, 40, 51, 1],
            ),
        ),
        (
            "shuffle",
            True,
            (
                [86, 14, 30, 78, 54, 22, 6, 38, 46, 62, 70],
                [5, 45, 69, 85, 13, 77, 21, 61, 53, 29, 37],
            ),
        ),
    ],
    ids=["sequential", "shuffle", "blocks", "random", "phase"],
)
def test_two_epochs_of_small_data_are_frozen(order, phase, epochs):
    """As 0.1.0 gave them: 97 tokens in windows of 8, seed 7."""
    whole = source_order(97, 8, order, seed=7, phase=phase)
    count = whole.samples_per_epoch

    assert whole.starts(np.arange(count)).tolist() == epochs[0]
    assert whole.starts(np.arange(count, 2 * count)).tolist() == epochs[1]


@given(
    count=st.integers(1, 300),
    per_block=st.integers(1, 40),
    per_group=st.integers(1, 12),
    seed=st.integers(0, 2**63 - 1),
)
@settings(max_examples=80, deadline=None)
def test_blocks_of_any_sizes_are_those_of_the_plain_version_and_invert(
    count, per_block, per_group, seed
):
    blocks, position = Blocks(per_block, per_group), np.arange(count)

    window = blocks.window_at(position, count, seed, 3)

    assert window.tolist() == plain_blocks(count, per_block, per_group, seed, 3)
    assert np.array_equal(blocks.position_of(window, count, seed, 3), position)


@pytest.mark.parametrize("order", ["shuffle", "random", Blocks(2, 2)], ids=str)
def test_an_empty_range_is_targeted_by_no_sample(order):
    whole = source_order(331, 5, order)

    for at in (0, 1, 100, 331):
        assert whole.targeting(at, at, 0).tolist() == []


def test_no_samples_are_no_starts():
    for order in (*ARRANGEMENTS, "random"):
        assert source_order(331, 5, order).starts(np.empty(0, np.int64)).shape == (0,)


@given(
    shards=st.lists(st.integers(0, 60), min_size=1, max_size=60),
    block_size=st.integers(1, 40),
    seed=st.integers(0, 2**63 - 1),
    phase=st.booleans(),
    scale=st.sampled_from([1, 1, 2**20]),
)
@settings(max_examples=80, deadline=None)
def test_blocks_that_are_shards_are_those_of_the_plain_version_and_invert(
    shards, block_size, seed, phase, scale
):
    """With a scale of 2^20, shards of more than 16 are cut into parts."""
    shards, block_size = [n * scale for n in shards], block_size * scale
    if sum(shards) - 1 < block_size * (1 + phase):
        return
    windows = Windows(sum(shards), block_size, seed, phase)
    blocks, position = ShardBlocks.of(shards, windows), np.arange(windows.count)

    window = blocks.window_at(position, windows.count, seed, 3)

    expected = plain_shard_blocks(shards, block_size, windows.count, seed, 3)
    assert window.tolist() == expected
    assert np.array_equal(blocks.position_of(window, windows.count, seed, 3), position)


def test_a_group_touches_as_many_shards_as_it_has_blocks():
    """200 GB of uint16 in shards of 10 million tokens, as `prepare` makes them."""
    shards, block_size = [10_000_000] * 10_000, 1024
    windows = Windows(sum(shards), block_size)
    blocks = ShardBlocks.of(shards, windows)
    assert blocks.blocks_per_group == 16

    in_group = 16 * 9765  # a shard has 9765 or 9766 windows
    starts = blocks.window_at(np.arange(2 * in_group), windows.count, 1, 0) * block_size
    touched = np.unique(starts[:in_group] // 10_000_000)
    assert len(touched) == 16
    assert len(np.unique(starts // 10_000_000)) == 32
    # Each of them whole: what is read is used.
    assert np.unique(starts[:in_group]).size * block_size >= 0.999 * 16 * 10_000_000
    former = Blocks(256, 512).window_at(np.arange(131_072), windows.count, 1, 0) * block_size
    assert len(np.unique(former // 10_000_000)) > 480


def test_large_shards_are_cut_into_equal_parts():
    windows = Windows(9 * 10**9, 2048)
    blocks = ShardBlocks.of([9 * 10**9], windows)

    sizes = np.diff(blocks.edges) * 2048
    assert len(sizes) == -(-9 * 10**9 // 2**24)
    assert sizes.max() - sizes.min() <= 2 * 2048
    assert sizes.max() <= 2**24 + 2048


def test_blocks_keep_windows_of_a_block_within_one_group():
    """What makes it cheap on a cold disk: a group touches only its own blocks."""
    blocks = Blocks(windows_per_block=8, blocks_per_group=4)
    count = 8 * 4 * 10

    window = blocks.window_at(np.arange(count), count, 1, 0)

    touched = [set((group // 8).tolist()) for group in window.reshape(10, 32)]
    assert all(len(blocks_of_group) == 4 for blocks_of_group in touched)
    assert set.union(*touched) == set(range(40))
    assert window.tolist() != sorted(window.tolist())


def test_blocks_of_different_groups_are_shuffled_differently():
    blocks = Blocks(windows_per_block=16, blocks_per_group=1)

    inside = blocks.window_at(np.arange(160), 160, 1, 0).reshape(10, 16) % 16

    assert len({tuple(row) for row in inside.tolist()}) == 10


def test_draws_reach_every_start_evenly():
    starts = source_order(103, 3, "random", seed=4).starts(np.arange(100_000))

    seen = np.bincount(starts, minlength=100)

    chi2 = ((seen - 1000) ** 2 / 1000).sum()
    assert len(seen) == 100
    assert chi2 < 99 + 5 * np.sqrt(2 * 99)
    assert abs(np.corrcoef(starts[:-1], starts[1:])[0, 1]) < 0.02


def test_draws_of_huge_data_lie_within_it():
    starts = source_order(10**12 + 64, 64, "random").starts(np.arange(10_000))

    assert starts.min() >= 0
    assert starts.max() < 10**12
    assert starts.max() > 0.99 * 10**12


def test_an_unknown_order_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown order 'shufle'; known are: blocks, random"):
        OrderSettings(10, order="shufle")


def test_phase_with_random_is_refused():
    with pytest.raises(ValueError, match="phase=True has no meaning"):
        source_order(331, 5, "random", phase=True)


@pytest.mark.parametrize("field", ["windows_per_block", "blocks_per_group"])
def test_empty_blocks_are_refused(field):
    with pytest.raises(ValueError, match=f"{field} is 0"):
        Blocks(**{field: 0})
