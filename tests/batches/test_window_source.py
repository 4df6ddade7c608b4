"""The order as a sequence, and loaders that travel to other processes."""

import multiprocessing
import pickle

import numpy as np
import pytest
from batches.numbered import numbered
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import BatchLoader

BLOCK = 4


def test_item_i_is_the_ith_sample_of_the_order():
    loader = BatchLoader(numbered(23 * BLOCK + 1), batch_size=1, block_size=BLOCK, epochs=2)

    windows = loader.windows()

    walked = [batch.tokens[0].tolist() for batch in loader]
    assert len(windows) == 46
    assert [windows[i].tolist() for i in range(46)] == walked
    assert [row.tolist() for row in windows.__getitems__([5, 0, 40])] == [
        walked[5],
        walked[0],
        walked[40],
    ]
    assert windows[np.int64(-1)].tolist() == walked[-1]
    assert [row.tolist() for row in windows] == walked


RUNS = st.lists(st.tuples(st.integers(0, 45), st.integers(1, 9)), min_size=1, max_size=30)


@given(runs=RUNS, stride=st.integers(1, 3))
def test_runs_of_items_are_the_items_wherever_they_begin_and_however_they_continue(runs, stride):
    """What is located ahead for a run must not show: neither if others follow, nor if not."""
    loader = BatchLoader(numbered(23 * BLOCK + 1), batch_size=1, block_size=BLOCK, epochs=2)
    alone, source = [row.tolist() for row in loader.windows()], loader.windows()

    for first, size in runs:
        for start in range(first, 47 - size, stride * size):
            found = source.batch(range(start, start + size))
            assert found.tokens.tolist() == alone[start : start + size]
            assert found.samples.tolist() == list(range(start, start + size))


def test_items_outside_are_refused():
    windows = BatchLoader(numbered(23 * BLOCK + 1), block_size=BLOCK).windows()

    for i in (23, -24):
        with pytest.raises(IndexError, match="of a source of 23 windows"):
            windows[i]
    with pytest.raises(TypeError):
        windows["first"]


def test_grain_reads_it_as_a_source():
    grain = pytest.importorskip("grain")
    windows = BatchLoader(numbered(24 * BLOCK + 1), block_size=BLOCK).windows()

    batches = list(grain.MapDataset.source(windows).batch(4))

    assert np.array_equal(np.concatenate(batches), [windows[i] for i in range(24)])


def test_torch_reads_it_as_a_map_style_dataset():
    pytest.importorskip("torch.utils.data")  # `torch` alone may be found: tests/torch
    import torch

    windows = BatchLoader(numbered(24 * BLOCK + 1), block_size=BLOCK).windows()

    batches = list(torch.utils.data.DataLoader(windows, batch_size=4))

    assert np.array_equal(torch.cat(batches).numpy(), [windows[i] for i in range(24)])


def test_a_pickled_loader_continues_where_it_was():
    loader = BatchLoader(numbered(1000), batch_size=3, block_size=BLOCK)
    next(loader)

    copy = pickle.loads(pickle.dumps(loader))

    assert next(copy).tokens.tolist() == next(loader).tokens.tolist()


def three_batches(loader):
    return [next(loader).tokens.tolist() for _ in range(3)]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_loader_over_files_travels_to_another_process(in_shards, method):
    data = in_shards(np.arange(1000, dtype=np.uint16), [500, 3, 497])
    loader = BatchLoader(data, batch_size=3, block_size=BLOCK)
    next(loader)

    with multiprocessing.get_context(method).Pool(1) as pool:
        elsewhere = pool.apply(three_batches, (loader,))

    assert elsewhere == three_batches(loader)
