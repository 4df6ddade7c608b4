"""Quantiles of many durations from few numbers."""

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.base.histogram import Histogram


@given(st.lists(st.floats(1e-7, 1e4), min_size=1, max_size=200))
def test_quantiles_are_those_of_numpy_and_at_most_a_tenth_too_large(durations):
    histogram = Histogram()
    for duration in durations:
        histogram.add(duration)

    summary = histogram.summary()

    assert summary["count"] == len(durations)
    assert np.isclose(summary["seconds"], sum(durations))
    assert summary["max"] == max(durations)
    for percent in (50, 95, 99):
        exact = np.quantile(durations, percent / 100, method="inverted_cdf")
        assert exact * (1 - 1e-9) <= summary[f"p{percent}"] <= exact * 1.1


def test_it_takes_the_same_room_however_many_it_counts():
    histogram = Histogram()
    empty = len(pickle.dumps(histogram))

    for number in range(10_000):
        histogram.add(number * 1e-5)
    histogram.add(1e9)

    assert len(pickle.dumps(histogram)) <= empty + 16
    assert histogram.summary()["count"] == 10_001


def test_nothing_is_zero():
    assert set(Histogram().summary().values()) == {0}
