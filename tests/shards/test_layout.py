"""Which stretch of which axis each shard holds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.shards.layout import Stretch, lay_out, parts_between


@given(st.integers(0, 500), st.integers(0, 100), st.integers(1, 60), st.integers(0, 9))
def test_shards_cover_each_split_once_and_in_order(train, val, per_shard, first):
    splits = {"train": train, "val": val}
    stretches = [Stretch(name, n, 5, 5 + size) for n, (name, size) in enumerate(splits.items())]
    plans = lay_out(stretches, per_shard, first=first)
    for number, plan in enumerate(plans, first):
        assert plan.file == f"{plan.split}/shard_{number:05d}.bin"
    for name, size in splits.items():
        ours = [plan for plan in plans if plan.split == name]
        covered = [place for plan in ours for place in range(plan.start, plan.stop)]
        assert covered == list(range(5, 5 + size))
        assert all(plan.stop - plan.start == per_shard for plan in ours[:-1])


def test_only_the_last_shard_of_a_cut_split_can_end_inside_a_document():
    stretches = [Stretch("train", 0, 0, 25, cuts_document=True), Stretch("val", 0, 25, 30)]
    plans = lay_out(stretches, 10)
    assert [plan.cuts_document for plan in plans] == [False, False, True, False]


@given(st.lists(st.integers(0, 5), max_size=12), st.data())
def test_parts_between_are_those_that_hold_the_tokens(sizes, data):
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    total = int(starts[-1])
    start = data.draw(st.integers(0, total))
    stop = data.draw(st.integers(start, total))
    needed = {
        part for part in range(len(sizes)) if max(start, starts[part]) < min(stop, starts[part + 1])
    }
    found = parts_between(starts, start, stop)
    assert needed <= set(found)
    assert all(0 <= part < len(sizes) for part in found)
