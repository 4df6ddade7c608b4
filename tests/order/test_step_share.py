"""Steps and ranks share the samples without a gap or a double."""

import numpy as np
import pytest

from tokenmill.order.step_share import StepShare


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("batch_size", [1, 2, 7])
@pytest.mark.parametrize("origin", [0, 3, 1000])
def test_all_ranks_of_some_steps_are_one_run_of_samples(world_size, batch_size, origin):
    taken = [
        StepShare(batch_size, rank, world_size, origin).samples(range(2, 6))
        for rank in range(world_size)
    ]

    run = np.concatenate(taken, axis=1).ravel()

    first = origin + 2 * world_size * batch_size
    assert run.tolist() == list(range(first, first + 4 * world_size * batch_size))


def test_the_taker_of_a_sample_is_where_it_is_taken():
    ranks = [StepShare(3, rank, 4, origin=5) for rank in range(4)]
    for step in range(3):
        for rank, each in enumerate(ranks):
            for row, sample in enumerate(each.samples(range(step, step + 1))[0].tolist()):
                assert each.taker_of(sample) == (step, rank, row)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": 1, "world_size": 0}, "world_size is 0"),
        ({"batch_size": 1, "rank": 2, "world_size": 2}, "rank is 2; with world_size 2 .* 0 to 1"),
        ({"batch_size": 1, "rank": -1}, "rank is -1"),
    ],
)
def test_impossible_ranks_are_refused(given, says):
    with pytest.raises(ValueError, match=says):
        StepShare(**given)
