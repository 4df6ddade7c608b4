"""The order of a run equals the plain version, sample by sample, and can be asked both ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order.made_orders import located, made_order
from order.plain_order import keys_of, plain_epoch, plain_mixture

from tokenmill.order.blocks import Blocks
from tokenmill.order.mixture_order import MixtureStage

ORDERS = ["sequential", "shuffle", "random", (4, 3), (1, 7), (5, 1)]
STAGES = [(0, (7, 2, 1)), (130, (1, 0, 1)), (300, (0, 1, 0)), (333, (5, 5, 1))]
LENGTHS = [331, 78, 1200]


def made(order):
    return order if isinstance(order, str) else Blocks(*order)


def mixture(order="shuffle", seed=9, block_size=5, phase=False):
    stages = [MixtureStage(*stage) for stage in STAGES]
    return made_order(
        LENGTHS, block_size=block_size, seed=seed, order=made(order), phase=phase, stages=stages
    )


@given(
    order=st.sampled_from(ORDERS),
    num_tokens=st.integers(2, 400),
    block_size=st.integers(1, 40),
    seed=st.integers(0, 2**63 - 1),
    first_epoch=st.integers(0, 10**6),
    phase=st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_two_epochs_of_any_order_are_those_of_the_plain_version(
    order, num_tokens, block_size, seed, first_epoch, phase
):
    phase = phase and order != "random"
    if num_tokens - 1 < block_size * (1 + phase):
        return
    whole = made_order(
        [num_tokens], block_size=block_size, seed=seed, order=made(order), phase=phase
    )
    count = whole.sources[0].samples_per_epoch
    samples = np.arange(first_epoch * count, (first_epoch + 2) * count)

    sources, starts = located(whole, samples)

    plain = (num_tokens, block_size, seed)
    assert starts.tolist() == [
        *plain_epoch(order, *plain, first_epoch, phase),
        *plain_epoch(order, *plain, first_epoch + 1, phase),
    ]
    assert not sources.any()
    assert whole.epoch_of(samples).tolist() == [first_epoch] * count + [first_epoch + 1] * count
    assert int(starts.min()) >= 0
    assert int(starts.max()) + block_size < num_tokens  # the last target exists


@pytest.mark.parametrize("order", ["shuffle", (4, 3)], ids=str)
@pytest.mark.parametrize("phase", [False, True])
def test_a_mixture_is_that_of_the_plain_version(order, phase):
    whole = mixture(order, phase=phase)
    expected, made_epochs = [], {}
    for source, index in plain_mixture(STAGES, 900, seed=9):
        # Each source has a seed of its own, or equal lengths would give equal orders.
        seed = keys_of(9, 0, 6, source + 1)[0] >> 1
        epoch, position = divmod(index, (LENGTHS[source] - 1) // 5 - phase)
        if (source, epoch) not in made_epochs:
            made_epochs[source, epoch] = plain_epoch(order, LENGTHS[source], 5, seed, epoch, phase)
        expected.append((source, made_epochs[source, epoch][position], epoch))

    sources, starts = located(whole, np.arange(900))

    found = zip(
        sources.tolist(), starts.tolist(), whole.epoch_of(np.arange(900)).tolist(), strict=True
    )
    assert list(found) == expected


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_samples_that_target_a_range_of_one_source(order):
    whole = made_order([331], block_size=5, seed=3, order=made(order))
    _, starts = located(whole, np.arange(3 * 66))
    for start, stop in [(0, 0), (0, 1), (1, 2), (7, 7), (7, 40), (330, 331), (0, 331)]:
        expected = [
            (g // 66, g)
            for g in range(66, 3 * 66)
            if set(range(int(starts[g]) + 1, int(starts[g]) + 6)) & set(range(start, stop))
        ]

        tokens = (start, stop)
        assert whole.samples_targeting(0, *tokens, [1, 2]) == expected, tokens


@pytest.mark.parametrize("source", [0, 1, 2])
def test_samples_that_target_a_range_of_a_source_of_a_mixture(source):
    whole = mixture()
    sources, starts = located(whole, np.arange(9000))
    epochs = whole.epoch_of(np.arange(9000))
    for start, stop in [(1, 2), (7, 40), (60, 78)]:
        holds = (sources == source) & (starts + 5 >= start) & (starts + 1 < stop) & (epochs < 3)

        found = whole.samples_targeting(source, start, stop, range(3))

        assert sorted(g for _, g in found) == np.flatnonzero(holds).tolist()
        assert all(epochs[g] == epoch for epoch, g in found)


def test_a_sample_that_never_comes_is_not_found():
    stages = [MixtureStage(0, (1, 1)), MixtureStage(20, (1, 0))]
    whole = made_order([101, 101], block_size=10, stages=stages)

    found = whole.samples_targeting(1, 0, 101, [0, 1, 50])

    assert len(found) == 10  # half of the first 20 samples, and none of epochs 1 and 50
    assert {epoch for epoch, _ in found} == {0}


def test_counts_before_a_sample():
    one, mixed = made_order([101], block_size=10), mixture()
    sources, _ = located(mixed, np.arange(500))
    for g in (0, 1, 63, 64, 130, 300, 333, 499):
        assert one.counts_before(g) == [g]
        assert mixed.counts_before(g) == np.bincount(sources[:g], minlength=3).tolist()


@pytest.mark.parametrize("seed", [-1, 2**63, 2**80])
def test_a_seed_outside_of_63_bits_is_refused(seed):
    with pytest.raises(ValueError, match=f"seed is {seed}; it must be 0 or more, and below 2\\^63"):
        made_order([100], block_size=10, seed=seed)
