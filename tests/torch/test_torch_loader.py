"""TorchLoader: the core's batches as tensors, nothing added and nothing lost."""

import threading

import numpy as np
import pytest
import torch
from torch_data import numbered, with_documents

from tokenmill import from_array
from tokenmill.augment import FillInTheMiddle
from tokenmill.batches import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.mixture import Mixture
from tokenmill.errors import FormatError, OrderMismatchError
from tokenmill.torch import TorchLoader
from tokenmill.torch.torch_batch import from_arrays


def test_the_tensors_are_the_arrays_of_the_core():
    arrays = BatchLoader(numbered(), batch_size=4, block_size=16, seed=3)
    tensors = TorchLoader(numbered(), batch_size=4, block_size=16, seed=3)

    for _ in range(5):
        inputs, targets = next(tensors)
        batch = next(arrays)
        assert inputs.dtype == torch.int64
        assert np.array_equal(inputs.numpy(), batch.inputs)
        assert np.array_equal(targets.numpy(), batch.targets)


def test_leaving_a_with_block_ends_the_thread_that_reads_ahead():
    before = set(threading.enumerate())

    with TorchLoader(numbered(), batch_size=4, block_size=16) as loader:
        next(loader)
        assert set(threading.enumerate()) > before

    assert set(threading.enumerate()) == before


def test_inputs_and_targets_share_no_memory():
    """A model that changes its inputs in place does not change its targets."""
    inputs, targets = next(TorchLoader(numbered(), batch_size=4, block_size=16))
    before = targets.clone()

    inputs.zero_()

    assert torch.equal(targets, before)


def test_the_source_of_each_row_comes_along():
    mixture = Mixture({"a": numbered(), "b": numbered()}, weights={"a": 1, "b": 1})
    loader = TorchLoader(mixture, batch_size=32, block_size=16)
    arrays = BatchLoader(mixture, batch_size=32, block_size=16)

    batch = next(loader)

    assert batch.sources.tolist() == next(arrays).sources.tolist()
    assert set(batch.sources.tolist()) == {0, 1}
    assert [len(part.sources) for part in batch.split(20)] == [20, 12]


def test_ranks_share_a_step_and_repeat_nothing():
    whole = TorchLoader(numbered(), batch_size=6, block_size=16, rank=0, world_size=1)
    parts = [
        TorchLoader(numbered(), batch_size=2, block_size=16, rank=r, world_size=3) for r in range(3)
    ]

    for _ in range(8):
        together = torch.cat([next(part).inputs for part in parts])
        assert torch.equal(next(whole).inputs, together)


def test_the_environment_is_asked_and_its_answer_is_kept(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")

    loader = TorchLoader(numbered(), batch_size=2, block_size=16)

    assert str(loader.ranks) == "rank 1 of 2, from torchrun (RANK, WORLD_SIZE)"
    assert (loader.rank, loader.world_size) == (1, 2)


@pytest.mark.parametrize("ranks_after", [1, 2])
def test_a_state_resumes_with_the_next_window_on_other_ranks(ranks_after):
    steps = TorchLoader(numbered(), batch_size=4, block_size=16, rank=0, world_size=1)
    for _ in range(3):
        next(steps)
    state = steps.state_dict()
    resumed = [
        TorchLoader(
            numbered(), batch_size=4 // ranks_after, block_size=16, rank=r, world_size=ranks_after
        )
        for r in range(ranks_after)
    ]
    for loader in resumed:
        loader.load_state_dict(state)

    assert torch.equal(torch.cat([next(r).inputs for r in resumed]), next(steps).inputs)


def test_a_state_of_other_data_is_refused():
    state = TorchLoader(numbered(1000), batch_size=4, block_size=16).state_dict()

    with pytest.raises(OrderMismatchError, match="num_tokens"):
        TorchLoader(numbered(999), batch_size=4, block_size=16).load_state_dict(state)


def test_an_id_beyond_the_vocabulary_is_named_with_its_place():
    loader = TorchLoader(numbered(), batch_size=60, block_size=16, vocab_size=700)

    with pytest.raises(FormatError, match=r"the id \d+, .*its token \d+; vocabulary: 700 ids"):
        next(loader)


def test_an_id_put_in_that_the_model_does_not_know_is_refused():
    shape = {"batch_size": 2, "block_size": 16, "vocab_size": 700}

    with pytest.raises(ValueError, match=r"begin_token is 800, .* 0 to 699"):
        TorchLoader(with_documents(), rows="packed", begin_token=800, **shape)
    with pytest.raises(ValueError, match=r"suffix_id is 702, .* 0 to 699"):
        TorchLoader(with_documents(), augment=[FillInTheMiddle(0.5, 0.5, 1, 2, 702)], **shape)


def test_documents_come_along_and_are_counted():
    batch = next(TorchLoader(with_documents(), batch_size=8, block_size=16, documents=True))

    ends = batch.inputs == 0
    assert torch.equal(batch.loss_mask, ~ends)
    assert batch.num_targets == int((~ends).sum())
    assert torch.equal(batch.document_ids[:, 1:], ends.cumsum(1)[:, :-1].int())
    assert batch.positions[:, 0].tolist() == [0] * 8
    assert int(batch.positions.max()) == 6


def test_micro_batches_are_the_rows_in_order():
    batch = next(TorchLoader(with_documents(), batch_size=8, block_size=16, documents=True))

    parts = batch.split(3)

    assert [len(part.inputs) for part in parts] == [3, 3, 2]
    for name in ("inputs", "targets", "loss_mask", "document_ids", "positions"):
        joined = torch.cat([getattr(part, name) for part in parts])
        assert torch.equal(joined, getattr(batch, name))


def test_a_pass_of_one_epoch_ends_and_the_next_follows():
    loader = TorchLoader(numbered(), batch_size=5, block_size=16, epochs=1)

    first = torch.cat([batch.inputs[:, 0] for batch in loader])
    second = torch.cat([batch.inputs[:, 0] for batch in loader])

    assert len(first) == len(second) == 60
    assert len(set(first.tolist())) == len(set(second.tolist())) == 60
    assert first.tolist() != second.tolist()


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "uint32", "int64"])
def test_ids_are_widened_on_their_device_as_they_are_on_the_cpu(dtype):
    ids = np.array([0, 1, 255, 32768, 65535, 2**31, 2**32 - 1] * 9).clip(max=np.iinfo(dtype).max)
    data = from_array(ids.astype(dtype))
    batch = next(BatchLoader(data, batch_size=2, block_size=16, form=BatchForm(dtype=dtype)))

    there = from_arrays(batch, torch.from_numpy(batch.tokens).to(torch.int64))

    for one, other in zip(there, from_arrays(batch), strict=True):
        assert one.is_contiguous()
        assert torch.equal(one, other)


def test_the_batch_of_any_step_is_the_one_that_comes_there():
    loader = TorchLoader(with_documents(), batch_size=4, block_size=16, documents=True)
    ahead = [loader.batch(step) for step in range(5)]

    assert (loader.step, loader.epoch) == (0, 0)
    for step, batch in enumerate(ahead):
        assert loader.step == step
        there = next(loader)
        for name in ("inputs", "targets", "labels", "positions", "loss_mask"):
            assert torch.equal(getattr(there, name), getattr(batch, name)), name
    for _ in range(60):
        next(loader)
    assert loader.epoch == 4  # 62 windows are an epoch; 65 steps took 260


def test_a_loop_that_fetches_ahead_resumes_at_the_batch_in_its_hand():
    loader = TorchLoader(numbered(), batch_size=4, block_size=16)
    (_, _), _ = next(batches := loader.with_state())
    in_hand, state = next(batches)

    resumed = TorchLoader(numbered(), batch_size=4, block_size=16)
    resumed.load_state_dict(state)

    assert torch.equal(next(resumed).inputs, in_hand.inputs)
