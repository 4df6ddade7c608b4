"""Packed rows through every door of torch: the rows of the core, and no loss on padding."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tokenmill import BatchLoader, Mixture, from_array
from tokenmill.batches import BatchForm
from tokenmill.compat import create_dataloaders
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset, loss_per_source

SHAPE = {"block_size": 16, "seed": 5, "rows": "packed", "begin_token": 9000}


def documents(seed=0, first=0):
    lengths = np.random.default_rng(seed).geometric(0.1, 120)
    ids = np.arange(first, first + lengths.sum(), dtype=np.uint16)
    return from_array(ids, document_ends=np.cumsum(lengths))


@pytest.fixture(scope="module")
def rows():
    """Inputs and labels of two epochs, row by row, from the core."""
    loader = BatchLoader(documents(), batch_size=1, epochs=2, form=BatchForm(prefetch=0), **SHAPE)
    return [(b.inputs[0].tolist(), b.labels[0].tolist()) for b in loader]


def as_rows(batches):
    return [
        pair
        for inputs, labels in batches
        for pair in zip(inputs.tolist(), labels.tolist(), strict=True)
    ]


def test_the_torch_loader_unpacks_into_inputs_and_labels(rows):
    loader = TorchLoader(documents(), batch_size=4, **SHAPE)
    batches = list(itertools.islice(loader, 5))

    assert as_rows(batches) == rows[:20]
    batch = batches[0]
    assert torch.equal(batch.labels != -100, batch.loss_mask)
    assert batch.num_targets == int(batch.loss_mask.sum())
    assert batch.sources.tolist() == [0] * 4
    assert batch.cu_seqlens.dtype == torch.int32


@pytest.mark.parametrize("num_workers", [0, 1, 2, 3, 4])
def test_workers_stopped_anywhere_and_resumed_on_another_number_give_the_same_rows(
    rows, num_workers
):
    first = TokenDataLoader(
        documents(), batch_size=4, num_workers=num_workers, epochs=None, **SHAPE
    )
    taken = as_rows(itertools.islice(first, 3 + num_workers))
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = TokenDataLoader(
        documents(), batch_size=3, num_workers=(num_workers + 1) % 3, epochs=None, **SHAPE
    )
    second.load_state_dict(state)

    taken += as_rows(itertools.islice(second, 4))

    assert taken == rows[: len(taken)]


def test_workers_that_are_spawned_read_the_same_rows(rows):
    loader = TokenDataLoader(
        documents(),
        batch_size=4,
        num_workers=1,
        workers={"multiprocessing_context": "spawn"},
        **SHAPE,
    )

    assert as_rows(itertools.islice(loader, 3)) == rows[:12]


def test_datasets_and_the_data_loader_give_the_same_rows(rows):
    per_epoch = len(rows) // 2
    mapped = WindowsDataset(documents(), **SHAPE)
    assert len(mapped) == per_epoch
    assert as_rows(DataLoader(mapped, batch_size=5))[:10] == rows[:10]
    mapped.set_epoch(1)
    assert as_rows(DataLoader(mapped, batch_size=5))[:10] == rows[per_epoch : per_epoch + 10]

    whole = TokenDataLoader(documents(), batch_size=4, **SHAPE)
    assert as_rows(itertools.islice(whole, 3)) == rows[:12]


def test_every_form_of_items_leaves_padding_out_of_the_loss(rows):
    core = BatchLoader(documents(), batch_size=6, **SHAPE).batch(2)
    forms = {}
    for items in ("dict", "hugging_face", "window"):
        mapped = WindowsDataset(documents(), items=items, **SHAPE)
        forms[items] = [mapped[i] for i in range(12, 18)]

    for row in range(6):
        item = forms["dict"][row]
        assert item["labels"].tolist() == core.labels[row].tolist()
        assert item["position_ids"].tolist() == core.positions[row].tolist()
        item = forms["hugging_face"][row]
        assert item["input_ids"].tolist() == core.tokens[row].tolist()
        assert item["labels"][1:].tolist() == core.labels[row].tolist()
        assert item["position_ids"].shape == (17,)
        assert item["position_ids"][:-1].tolist() == core.positions[row].tolist()
        follows = core.loss_mask[row, -1]  # the last token is of the document before it
        assert item["position_ids"][-1] == (core.positions[row, -1] + 1 if follows else 0)
        assert forms["window"][row].tolist() == core.tokens[row].tolist()


def test_the_loss_of_each_source_is_exact_where_rows_have_padding():
    sources = {"a": documents(1), "b": documents(2, first=4000)}
    mixture = Mixture(sources, weights={"a": 0.5, "b": 0.5})
    loader = TorchLoader(mixture, batch_size=8, **SHAPE)
    sums, counts = torch.zeros(2), torch.zeros(2)
    expected = {0: [], 1: []}
    for batch in itertools.islice(loader, 6):
        losses = batch.targets * 0.001 + 1
        for part, whole in zip(loss_per_source(losses, batch, 2), (sums, counts), strict=True):
            whole += part
        for row, source in enumerate(batch.sources.tolist()):
            expected[source] += losses[row][batch.labels[row] != -100].tolist()

    for source, values in expected.items():
        assert counts[source] == len(values)
        assert sums[source] / counts[source] == pytest.approx(np.mean(values), rel=1e-5)


def test_loaders_of_files_pack_for_training_and_validate_on_windows(tmp_path):
    ids = np.where(np.arange(4000) % 37 == 36, 0, 1 + np.arange(4000) % 90).astype(np.uint16)
    for name in ("train.npy", "val.npy"):
        np.save(tmp_path / name, ids)
    opened = {"end_of_text": 0, "seed": 5, "max_length": 16, "batch_size": 4}

    train, val = create_dataloaders(
        tmp_path / "train.npy", tmp_path / "val.npy", rows="packed", begin_token=99, **opened
    )

    core = BatchLoader(
        from_array(ids, end_of_text=0),
        batch_size=4,
        block_size=16,
        seed=5,
        rows="packed",
        begin_token=99,
    ).batch(0)
    batch = next(iter(train))
    assert np.array_equal(batch["input_ids"], core.inputs)
    assert np.array_equal(batch["labels"], core.labels)
    assert (next(iter(val))["labels"] != -100).all()
