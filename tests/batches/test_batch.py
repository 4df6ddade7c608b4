"""A batch is its tokens: two views of them, and where each row came from."""

import pickle

import numpy as np
import pytest
from batches.numbered import numbered

from tokenmill import BatchLoader
from tokenmill.dataset import from_array


@pytest.fixture
def batch():
    return BatchLoader(numbered(1000), batch_size=3, block_size=16, seed=2).batch(5)


def test_it_unpacks_into_inputs_and_targets(batch):
    inputs, targets = batch

    assert inputs.shape == targets.shape == (3, 16)
    assert (targets == inputs + 1).all()  # token i of this data is i
    assert np.array_equal(inputs, batch.inputs)
    assert np.array_equal(targets, batch.targets)
    assert np.shares_memory(inputs, batch.tokens)


def test_a_loop_may_unpack_each_batch():
    loader = BatchLoader(numbered(1000), batch_size=3, block_size=16, epochs=1)

    firsts = [int(inputs[0, 0]) for inputs, _ in loader]

    assert firsts == [int(loader.batch(step).starts[0]) for step in range(len(loader))]


def test_rows_name_their_samples_starts_and_sources(batch):
    assert batch.samples.tolist() == [15, 16, 17]
    assert batch.tokens[:, 0].tolist() == batch.starts.tolist()
    assert batch.sources.tolist() == [0, 0, 0]


def test_without_documents_their_fields_are_none(batch):
    for field in ("document_ids", "positions", "loss_mask", "cu_seqlens", "max_seqlen"):
        assert getattr(batch, field) is None


def test_a_batch_with_documents_is_the_same_in_another_process():
    ids = np.where(np.arange(400) % 7 == 6, 0, np.arange(400)).astype(np.uint16)
    loader = BatchLoader(
        from_array(ids, end_of_text=0), batch_size=2, block_size=32, documents=True
    )
    batch = loader.batch(1)

    copy = pickle.loads(pickle.dumps(batch))

    for field in ("tokens", "document_ids", "positions", "loss_mask", "cu_seqlens"):
        assert np.array_equal(getattr(copy, field), getattr(batch, field)), field
    assert copy.max_seqlen == batch.max_seqlen == 7
