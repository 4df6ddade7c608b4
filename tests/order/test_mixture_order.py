"""Mixtures: right in every block, each source in its own order, both ways, against plain loops."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order.made_orders import made_order
from order.plain_order import plain_deal, plain_mixture

from tokenmill.order.mixture_order import (
    SAMPLES_PER_BLOCK,
    MixtureStage,
    Shares,
    whole_parts,
)


def dealt_by(stages, seed):
    lengths = [1000] * len(stages[0].parts)
    return made_order(lengths, block_size=1, stages=stages, seed=seed)


WEIGHTS = [
    (1,),
    (1, 1),
    (7, 2, 1),
    (1, 1, 1, 1, 1),
    (9999, 1),
    (100_000, 30_000, 7, 3, 1),
    (1, 2, 3, 5, 8, 13, 21),
    (2**31 - 2, 1),
    (0, 3, 0, 1),
]


@pytest.mark.parametrize("parts", WEIGHTS, ids=str)
def test_shares_equal_the_plain_version(parts):
    source, index = Shares(parts).locate(np.arange(2000))

    assert list(zip(source.tolist(), index.tolist(), strict=True)) == plain_deal(parts, 2000)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=9).filter(any), st.integers(0, 10**12))
@settings(max_examples=60, deadline=None)
def test_no_source_is_ever_two_samples_from_its_weight(parts, far):
    shares, total = Shares(parts), sum(parts)
    for n in (1, 2, 3, 64, 1000, far, far + 1, 10**15):
        counts = shares.counts(n)

        assert sum(counts) == n
        for part, count in zip(parts, counts, strict=True):
            assert abs(count - Fraction(n * part, total)) < 2
            assert part or count == 0
    assert shares.counts(total * 7) == [7 * part for part in parts]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=9).filter(any), st.integers(0, 2**60))
@settings(max_examples=60, deadline=None)
def test_a_share_is_inverted_exactly_however_far_out(parts, first):
    shares = Shares(parts)
    number = np.arange(first, first + 50)

    source, index = shares.locate(number)

    for s in np.unique(source).tolist():
        assert np.array_equal(shares.number_of(s, index[source == s]), number[source == s])
        assert int(index[source == s][0]) == shares.counts(int(number[source == s][0]))[s]


STAGES = [
    MixtureStage(0, (7, 2, 1)),
    MixtureStage(1003, (1, 0, 1)),
    MixtureStage(2000, (0, 1, 0)),
    MixtureStage(2100, (5, 5, 1)),
]


def test_every_source_runs_through_its_samples_in_order_over_all_stages():
    source, index = dealt_by(STAGES, 3).deal(np.arange(6000))

    for s in range(3):
        assert index[source == s].tolist() == list(range((source == s).sum()))


def test_blocks_hold_the_shares_of_their_stage():
    source, _ = dealt_by(STAGES, 3).deal(np.arange(6000))

    for stage, stop in zip(STAGES, [1003, 2000, 2100, 2100 + 64 * 60], strict=True):
        dealt = [s for s, _ in plain_deal(stage.parts, stop - stage.start)]
        for at in range(0, stop - stage.start, SAMPLES_PER_BLOCK):
            expected = sorted(dealt[at : at + SAMPLES_PER_BLOCK])
            low = stage.start + at
            here = source[low : min(low + SAMPLES_PER_BLOCK, stop)]
            assert sorted(here.tolist()) == expected


@given(
    parts=st.lists(
        st.lists(st.integers(0, 50), min_size=3, max_size=3).filter(any), min_size=1, max_size=4
    ),
    gaps=st.lists(st.integers(1, 150), min_size=3, max_size=3),
    seed=st.integers(0, 2**63 - 1),
)
@settings(max_examples=60, deadline=None)
def test_any_schedule_is_dealt_as_the_plain_version_deals_it(parts, gaps, seed):
    starts = np.cumsum([0, *gaps]).tolist()
    stages = list(zip(starts, map(tuple, parts), strict=False))
    mixture = dealt_by([MixtureStage(*stage) for stage in stages], seed)

    source, index = mixture.deal(np.arange(600))

    plain = plain_mixture(stages, 600, seed)
    assert list(zip(source.tolist(), index.tolist(), strict=True)) == plain
    for s in np.unique(source).tolist():
        mine = np.flatnonzero(source == s)
        assert mixture.samples_of(s, index[mine]).tolist() == mine.tolist()


def test_the_sources_of_a_small_mixture_are_frozen():
    """As 0.1.0 dealt them; one digit a sample."""
    steady = dealt_by([MixtureStage(0, (7, 2, 1))], 7)
    changing = dealt_by([MixtureStage(0, (7, 2, 1)), MixtureStage(40, (0, 1, 1))], 7)

    def dealt(mixture, n):
        return "".join(map(str, mixture.deal(np.arange(n))[0].tolist()))

    assert dealt(steady, 64) == "0000111100000011200100100000000002011200000000000001220001010002"
    assert steady.counts_before(64) == [45, 13, 6]
    assert dealt(changing, 80) == (
        "0110000011200100100000001000000002200102"  # then without source 0
        "1212211121211122111122122121122212211211"
    )


def test_a_mixture_of_one_source_is_that_source():
    mixture = dealt_by([MixtureStage(0, (3,))], 1)
    far = np.array([0, 1, 63, 64, 10**6, 2**50])

    source, index = mixture.deal(far)

    assert not source.any()
    assert index.tolist() == far.tolist()
    assert mixture.samples_of(0, far).tolist() == far.tolist()
    assert mixture.counts_before(2**50) == [2**50]


def test_far_out_a_mixture_is_still_exact():
    """At sample 10^15 nothing has drifted, and nothing overflows."""
    mixture = dealt_by([MixtureStage(0, (7, 2, 1))], 0)
    block = 10**15 // 64 * 64
    source, index = mixture.deal(np.arange(block, block + 640))

    before = mixture.counts_before(block)

    for count, part in zip(before, (7, 2, 1), strict=True):
        assert abs(10 * count - block * part) < 20
    for s in range(3):
        count = int((source == s).sum())
        assert index[source == s].tolist() == list(range(before[s], before[s] + count))
        assert mixture.counts_before(block + 640)[s] == before[s] + count


def test_a_sample_of_a_source_is_found_again():
    mixture = dealt_by(STAGES, 3)
    samples = np.arange(6000)
    source, index = mixture.deal(samples)

    for s in range(3):
        assert np.array_equal(mixture.samples_of(s, index[source == s]), samples[source == s])


def test_a_source_that_is_switched_off_for_good_has_no_further_samples():
    mixture = dealt_by([MixtureStage(0, (1, 1)), MixtureStage(100, (1, 0))], 0)

    assert mixture.samples_of(1, np.array([49, 50, 10**9])).tolist()[1:] == [-1, -1]
    assert mixture.samples_of(1, np.array([49]))[0] < 100


@pytest.mark.parametrize("sample", [0, 1, 63, 64, 65, 1002, 1003, 1004, 2000, 2050, 2100, 5999])
def test_counts_before_a_sample_are_what_a_loop_counts(sample):
    mixture = dealt_by(STAGES, 3)
    source, _ = mixture.deal(np.arange(6000))

    expected = np.bincount(source[:sample], minlength=3).tolist()

    assert mixture.counts_before(sample) == expected


def test_samples_may_be_asked_for_in_any_order_and_shape():
    mixture = dealt_by(STAGES, 3)
    source, index = mixture.deal(np.arange(3000))
    some = np.random.default_rng(0).integers(0, 3000, (7, 30))

    found = mixture.deal(some)

    assert np.array_equal(found[0], source[some])
    assert np.array_equal(found[1], index[some])


def test_no_place_in_a_step_meets_the_same_source_for_ever():
    source, _ = dealt_by([MixtureStage(0, (3, 1))], 0).deal(np.arange(64 * 400))

    share_of_place = (source.reshape(-1, 4) == 1).mean(axis=0)

    assert np.abs(share_of_place - 0.25).max() < 0.03


def test_a_tiny_weight_comes_out_right_in_the_end():
    shares = whole_parts([1, 1e-6])

    assert shares == (1_000_000, 1)
    assert Shares(shares).counts(10_000_010)[1] == 10


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([0.7, 0.2, 0.1], (7, 2, 1)),
        ([1, 1, 2], (1, 1, 2)),
        ([Fraction(1, 3), Fraction(2, 3)], (1, 2)),
        ([0.5, 0], (1, 0)),
        ([1e3, 2e3], (1, 2)),
    ],
)
def test_weights_mean_what_is_written(weights, parts):
    assert whole_parts(weights) == parts


def test_weights_of_many_digits_are_rounded_to_one_part_in_two_billion():
    weights = [0.12345678901234567, 0.87654321098765433]

    parts = whole_parts(weights)

    assert abs(parts[0] / sum(parts) - weights[0]) < 2**-31


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([], "none may be negative and one must be more"),
        ([0, 0], "none may be negative and one must be more"),
        ([1, -1], r"weights are \[1, -1\]; none may be negative"),
        ([float("nan")], "each must be a finite number"),
        ([float("inf"), 1], "each must be a finite number"),
    ],
)
def test_weights_that_mean_nothing_are_refused(weights, says):
    with pytest.raises(ValueError, match=says):
        whole_parts(weights)


def test_a_weight_too_small_to_keep_is_refused():
    with pytest.raises(ValueError, match="less than one part in 2"):
        whole_parts([1, 1e-11])
