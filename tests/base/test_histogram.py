"""Quantiles of many durations from few numbers."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.base.histogram import NOTICED, Histogram

DURATIONS = st.lists(st.floats(1e-7, 1e5), min_size=1, max_size=200)


@given(DURATIONS)
def test_quantiles_are_those_of_numpy_and_at_most_an_eighth_too_large(durations):
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)

    summary = histogram.summary()

    assert summary["count"] == len(durations)
    assert np.isclose(summary["seconds"], sum(durations))
    assert summary["max"] == max(durations)
    for percent in (50, 95, 99):
        exact = np.quantile(durations, percent / 100, method="inverted_cdf")
        assert exact - 2e-9 <= summary[f"p{percent}"] <= exact * 9 / 8 + 1e-8


@given(DURATIONS, st.integers(0, 500))
def test_short_ones_may_be_left_out_and_are_counted(durations, num_short):
    histogram = Histogram()
    long_ones = [duration for duration in durations if duration > NOTICED]
    for duration in long_ones:
        histogram.add(duration)

    summary = histogram.summary(len(long_ones) + num_short)

    everything = sorted([NOTICED] * num_short + long_ones)
    assert summary["count"] == len(everything)
    for percent in (50, 95, 99):
        exact = 0.0
        if everything:
            exact = np.quantile(everything, percent / 100, method="inverted_cdf")
        assert exact - 2e-9 <= summary[f"p{percent}"] <= exact * 9 / 8 + 1e-8


def test_it_takes_the_same_room_however_many_it_counts():
    histogram = Histogram()
    empty = len(pickle.dumps(histogram))

    for number in range(10_000):
        histogram.add(number * 1e-5)

    assert len(pickle.dumps(histogram)) <= empty + 16
    assert histogram.summary()["count"] == 10_000


def test_nothing_is_zero():
    assert set(Histogram().summary().values()) == {0}
