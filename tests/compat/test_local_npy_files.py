"""Seed 001: local .npy files, their datasets, create_dataloaders."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tokenmill.compat import LocalTokenizedDataset, LocalTokenizedDatasetFixed, create_dataloaders
from tokenmill.errors import NotADatasetError


@pytest.fixture
def training_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "training_data").mkdir()
    np.save("training_data/owt_train_tokens.npy", np.arange(5000, dtype=np.int32))
    np.save("training_data/owt_valid_tokens.npy", np.arange(60_000, 61_000, dtype=np.uint16))


def test_the_call_of_the_document_runs(training_data):
    train_loader, val_loader = create_dataloaders(
        train_data_path="training_data/owt_train_tokens.npy",
        val_data_path="training_data/owt_valid_tokens.npy",
        batch_size=32,
        max_length=16,
        num_workers=2,
        prefetch_factor=4,
        seed=42,
    )

    batches = list(train_loader)

    assert len(batches) == len(train_loader) == 4999 // 16 // 32
    assert batches[0]["input_ids"].shape == batches[0]["labels"].shape == (32, 16)
    # The 128 bytes of a .npy header, read as int32, would be in the first window.
    assert all(torch.equal(b["input_ids"] + 1, b["labels"]) for b in batches)
    starts = torch.cat([b["input_ids"][:, 0] for b in batches])
    assert len(set(starts.tolist())) == len(starts)
    first_of_val = next(iter(val_loader))["input_ids"]
    assert first_of_val[0, 0] == 60_000  # uint16 read as what its header says


def test_a_validation_set_smaller_than_a_batch_is_served_as_a_shorter_one(training_data):
    paths = "training_data/owt_train_tokens.npy", "training_data/owt_valid_tokens.npy"

    _, val_loader = create_dataloaders(*paths, 64, 16)

    for _ in range(2):  # every pass
        (batch,) = val_loader
        assert batch["input_ids"].shape == (62, 16)
        assert batch["input_ids"][:, 0].tolist() == list(range(60_000, 60_992, 16))


def test_ranks_share_a_small_validation_set_equally(training_data, monkeypatch):
    paths = "training_data/owt_train_tokens.npy", "training_data/owt_valid_tokens.npy"
    monkeypatch.setenv("WORLD_SIZE", "4")
    seen = []
    for rank in range(4):
        monkeypatch.setenv("RANK", str(rank))
        (batch,) = create_dataloaders(*paths, 64, 16)[1]
        seen += batch["input_ids"][:, 0].tolist()

    assert seen == list(range(60_000, 60_000 + 60 * 16, 16))  # 15 rows each


def test_too_few_windows_for_one_batch_are_reported_and_not_skipped(training_data):
    valid = "training_data/owt_valid_tokens.npy"

    with pytest.raises(ValueError, match=r"62 windows of 16.*a step takes 64"):
        create_dataloaders(valid, valid, 64, 16)  # to train on less than a batch is a mistake
    with pytest.raises(ValueError, match=r"max_length 2000 is too long for a dataset of 1,000"):
        create_dataloaders("training_data/owt_train_tokens.npy", valid, 2, 2000)


def test_a_missing_file_is_named(training_data):
    with pytest.raises(NotADatasetError, match=r"training_data/nope\.npy"):
        create_dataloaders("training_data/nope.npy", "training_data/owt_valid_tokens.npy")


def test_fixed_sequences_are_those_of_the_file_in_order(training_data):
    fixed = LocalTokenizedDatasetFixed("training_data/owt_train_tokens.npy", max_length=100)

    assert len(fixed) == 49
    assert fixed[3]["input_ids"].tolist() == list(range(300, 400))
    assert fixed[3]["labels"].tolist() == list(range(301, 401))


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_workers_share_the_stream_without_overlap_and_in_order(training_data, num_workers):
    stream = LocalTokenizedDataset("training_data/owt_train_tokens.npy", 100, batch_size=5)
    alone = [row for b in DataLoader(stream, 5) for row in b["input_ids"][:, 0].tolist()]

    shared = DataLoader(stream, batch_size=5, num_workers=num_workers)
    rows = [row for b in shared for row in b["input_ids"][:, 0].tolist()]

    assert sorted(rows) == list(range(0, 4900, 100))
    assert rows == alone
    assert rows != sorted(rows)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_ranks_share_the_stream_evenly(training_data, world_size):
    path = "training_data/owt_train_tokens.npy"
    parts = [
        [
            int(item["input_ids"][0])
            for item in LocalTokenizedDataset(
                path, 100, batch_size=5, rank=r, world_size=world_size
            )
        ]
        for r in range(world_size)
    ]

    together = [start for part in parts for start in part]
    assert {len(part) for part in parts} == {49 // world_size}
    assert len(set(together)) == len(together)


def test_each_epoch_of_the_stream_has_its_own_order(training_data):
    stream = LocalTokenizedDataset("training_data/owt_train_tokens.npy", 100)
    first = [int(item["input_ids"][0]) for item in stream]
    stream.set_epoch(1)

    assert first != [int(item["input_ids"][0]) for item in stream]
