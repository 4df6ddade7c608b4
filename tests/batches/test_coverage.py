"""Every window exactly once an epoch over all ranks and workers, every token once a target."""

import logging

import numpy as np
import pytest
from batches.numbered import numbered

from tokenmill import BatchLoader
from tokenmill.batches import BatchForm

BLOCK = 4
COUNTS = [1, 2, 3, 7, 8, 9, 31, 32, 33, 61, 97, 127, 128, 129]
ORDERS = ["sequential", "shuffle", "blocks"]
SHARINGS = [(1, 1), (1, 2), (3, 1), (2, 3), (5, 2), (7, 7), (4, 64)]


def epoch_of_all_ranks(data, world_size, batch_size, **options):
    """What all ranks see until their loaders end: a list of batches for each rank."""
    ranks = []
    for rank in range(world_size):
        loader = BatchLoader(
            data,
            batch_size=batch_size,
            block_size=BLOCK,
            rank=rank,
            world_size=world_size,
            epochs=1,
            form=BatchForm(prefetch=0),
            **options,
        )
        ranks.append(list(loader))
    return ranks


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_is_every_window_once_whatever_the_ranks(count, order):
    data = numbered(count * BLOCK + 1)
    for world_size, batch_size in SHARINGS:
        ranks = epoch_of_all_ranks(data, world_size, batch_size, order=order, seed=count)

        steps = {len(batches) for batches in ranks}
        starts = [s for batches in ranks for b in batches for s in b.starts.tolist()]

        assert steps == {count // (world_size * batch_size)}
        assert len(set(starts)) == len(starts) == steps.pop() * world_size * batch_size
        assert set(starts) <= set(range(0, count * BLOCK, BLOCK))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_workers_that_take_turns_serve_the_same_epoch(count, num_workers):
    data = numbered(count * BLOCK + 1)
    loader = BatchLoader(data, batch_size=2, block_size=BLOCK, epochs=1)
    whole = [batch.tokens.tolist() for batch in loader]

    served = {
        step: loader.batch(step).tokens.tolist()
        for worker in range(num_workers)
        for step in range(worker, len(loader), num_workers)
    }

    assert [served[step] for step in range(len(loader))] == whole


@pytest.mark.parametrize("tail", [0, 1, 3])
def test_every_token_but_the_first_and_the_tail_is_a_target_once(tail):
    data = numbered(24 * BLOCK + 1 + tail)

    ranks = epoch_of_all_ranks(data, 3, 2)

    targets = np.concatenate([b.targets.ravel() for batches in ranks for b in batches])
    inputs = np.concatenate([b.inputs.ravel() for batches in ranks for b in batches])
    assert np.sort(targets).tolist() == list(range(1, 24 * BLOCK + 1))
    assert np.sort(inputs).tolist() == list(range(24 * BLOCK))


def test_an_endless_loader_runs_on_over_epochs_without_a_gap():
    """11 windows in steps of 4: batches span the edge, and 11 steps are four whole epochs."""
    loader = BatchLoader(numbered(11 * BLOCK + 1), batch_size=4, block_size=BLOCK, seed=1)

    starts = np.concatenate([next(loader).starts for _ in range(11)])

    for epoch in starts.reshape(4, 11).tolist():
        assert sorted(epoch) == list(range(0, 44, BLOCK))
    assert len({tuple(epoch) for epoch in starts.reshape(4, 11).tolist()}) == 4


def test_inputs_and_targets_are_views_of_one_array_one_token_apart():
    batch = next(BatchLoader(numbered(1000), batch_size=3, block_size=BLOCK))

    assert batch.inputs.shape == batch.targets.shape == (3, BLOCK)
    assert np.shares_memory(batch.inputs, batch.tokens)
    assert np.array_equal(batch.targets, batch.inputs + 1)
    assert batch.tokens.dtype == np.int64
    assert batch.tokens.flags.c_contiguous


@pytest.mark.parametrize("prefetch", [0, 3])
def test_batches_never_share_memory_with_each_other_or_the_data(prefetch):
    data = numbered(1000)
    loader = BatchLoader(
        data, batch_size=3, block_size=BLOCK, form=BatchForm(dtype="uint32", prefetch=prefetch)
    )

    batches = [next(loader) for _ in range(6)]

    for i, one in enumerate(batches):
        assert not np.shares_memory(one.tokens, data.array(0))
        for other in batches[:i]:
            assert not np.shares_memory(one.tokens, other.tokens)
        one.tokens[:] = 0
    assert loader.batch(0).tokens.any()


def test_the_end_says_how_many_tokens_were_left_out(caplog):
    data = numbered(11 * BLOCK + 1 + 3)
    loader = BatchLoader(data, batch_size=4, block_size=BLOCK, epochs=1)

    with caplog.at_level(logging.INFO, logger="tokenmill"):
        served = sum(batch.targets.size for batch in loader)

    assert served == 8 * BLOCK
    assert loader.stats()["left_out"] == {"samples": 3, "tokens": 3 * BLOCK + 3}
    assert served + 3 * BLOCK + 3 == data.num_tokens - 1
    assert "left out: 15 tokens (3 samples" in caplog.text


def test_iterating_again_after_the_end_serves_the_next_epoch():
    loader = BatchLoader(numbered(11 * BLOCK + 1), batch_size=4, block_size=BLOCK, epochs=1)
    endless = BatchLoader(numbered(11 * BLOCK + 1), batch_size=1, block_size=BLOCK)
    order = [int(next(endless).starts[0]) for _ in range(33)]

    passes = [[s for b in loader for s in b.starts.tolist()] for _ in range(3)]

    assert passes == [order[0:8], order[11:19], order[22:30]]


def test_length_is_known_only_where_there_is_an_end():
    data = numbered(11 * BLOCK + 1)

    assert len(BatchLoader(data, batch_size=4, block_size=BLOCK, epochs=1)) == 2
    assert len(BatchLoader(data, batch_size=4, block_size=BLOCK, epochs=4)) == 11
    assert len(BatchLoader(data, batch_size=64, block_size=BLOCK, epochs=1)) == 0
    with pytest.raises(TypeError, match="endless"):
        len(BatchLoader(data, batch_size=4, block_size=BLOCK))


def test_any_step_can_be_looked_at_without_moving():
    loader = BatchLoader(numbered(500), batch_size=3, block_size=BLOCK)
    ahead = [loader.batch(step).tokens.tolist() for step in (7, 0, 3)]

    walked = [next(loader).tokens.tolist() for _ in range(8)]

    assert ahead == [walked[7], walked[0], walked[3]]
    with pytest.raises(IndexError, match="step is -1"):
        loader.batch(-1)
    with pytest.raises(IndexError, match="step is 2; this loader has steps 0 to 1"):
        BatchLoader(numbered(45), batch_size=4, block_size=BLOCK, epochs=1).batch(2)


FORM = ("prefetch", "dtype", "max_documents")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch_size": 0}, "batch_size is 0"),
        ({"block_size": 1000}, "block_size 1000 is too long"),
        ({"order": "shufle"}, "unknown order 'shufle'"),
        ({"seed": -1}, "seed is -1"),
        ({"rank": 3, "world_size": 2}, "rank is 3"),
        ({"epochs": 0}, "epochs is 0"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"dtype": "uint16"}, "dtype uint16 holds ids up to 65,535"),
        ({"max_documents": 0}, "max_documents is 0"),
    ],
)
def test_wrong_arguments_are_refused_with_their_value(given, says):
    form = {name: given[name] for name in FORM if name in given}
    others = {name: value for name, value in given.items() if name not in FORM}
    with pytest.raises(ValueError, match=says):
        BatchLoader(numbered(500), **{"block_size": BLOCK, "form": BatchForm(**form), **others})
