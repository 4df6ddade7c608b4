"""Seed 000: shards of FineWeb-Edu, held out by the last one, batches on a device."""

import numpy as np
import pytest
import torch

from tokenmill.compat import TokenizedDataset
from tokenmill.errors import FormatError

MAGIC, VERSION, HEADER = 20240520, 1, 256


def write_shard(path, ids):
    """llm.c's format by its specification: 256 int32 of header, then uint16."""
    header = np.zeros(HEADER, np.int32)
    header[:3] = MAGIC, VERSION, len(ids)
    path.write_bytes(header.tobytes() + ids.astype(np.uint16).tobytes())


@pytest.fixture
def data_dir(tmp_path):
    """Three shards of the seed's names; token i of the whole is i."""
    for i in range(3):
        ids = np.arange(i * 500, (i + 1) * 500)
        write_shard(tmp_path / f"edu_fineweb_train_00000{i + 1}.bin", ids)
    return str(tmp_path)


def test_the_usage_of_the_document_runs(data_dir):
    # Create dataset
    train_dataset = TokenizedDataset(data_dir, split="train", block_size=64)
    val_dataset = TokenizedDataset(data_dir, split="val", block_size=64)

    # Get batch
    x, y = train_dataset.get_batch(batch_size=4, device="cpu")

    assert x.shape == y.shape == (4, 64)
    assert x.dtype == torch.int64
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert train_dataset.total_length == 1000
    assert val_dataset.total_length == 500
    assert int(val_dataset.get_batch(4, device="cpu")[0].min()) >= 1000  # the last shard


def test_no_header_is_read_as_tokens(data_dir):
    dataset = TokenizedDataset(data_dir, split="train", block_size=64)

    x, y = dataset.get_batch(batch_size=15, device="cpu")

    assert torch.equal(x + 1, y)  # a header would break the run of numbers


def test_windows_run_across_the_edge_of_shards_and_are_never_short(data_dir):
    dataset = TokenizedDataset(data_dir, split="train", block_size=64)
    rows = torch.cat([dataset.get_batch(5, device="cpu")[0] for _ in range(3)])

    crossing = rows[(rows[:, 0] < 500) & (rows[:, -1] >= 500)]

    assert len(crossing) == 1
    assert torch.equal(crossing[0], torch.arange(int(crossing[0, 0]), int(crossing[0, 0]) + 64))


def test_ranks_get_different_rows(data_dir):
    batches = [
        TokenizedDataset(data_dir, block_size=64, rank=r, world_size=2).get_batch(4, device="cpu")[
            0
        ]
        for r in range(2)
    ]

    assert not set(batches[0][:, 0].tolist()) & set(batches[1][:, 0].tolist())


def test_an_epoch_repeats_nothing_though_the_batch_size_changes_on_the_way(data_dir):
    dataset = TokenizedDataset(data_dir, split="train", block_size=64)

    starts = [s for n in (4, 4, 2, 5) for s in dataset.get_batch(n, device="cpu")[0][:, 0].tolist()]

    assert sorted(starts) == list(range(0, 15 * 64, 64))


def test_the_position_can_be_saved(data_dir):
    first = TokenizedDataset(data_dir, block_size=64)
    first.get_batch(4, device="cpu")
    second = TokenizedDataset(data_dir, block_size=64)
    second.load_state_dict(first.state_dict())

    assert torch.equal(first.get_batch(4, "cpu")[0], second.get_batch(4, "cpu")[0])


@pytest.mark.parametrize(("start", "length"), [(0, 5), (495, 10), (990, 30), (999, 1)])
def test_tokens_are_read_by_place_across_the_edge_of_shards(data_dir, start, length):
    dataset = TokenizedDataset(data_dir, split="train", block_size=64)

    tokens = dataset._get_tokens(start, length)

    assert tokens.tolist() == list(range(1000))[start : start + length]
    assert tokens.dtype == np.uint16


@pytest.mark.parametrize("start", [-1, 1000, 5000])
def test_a_place_outside_is_refused(data_dir, start):
    dataset = TokenizedDataset(data_dir, split="train", block_size=64)

    with pytest.raises(IndexError, match=f"global_idx is {start}; it must be 0 to 999"):
        dataset._get_tokens(start, 5)


def test_its_hints_name_its_own_arguments(tmp_path):
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "edu_fineweb_train_000001.bin")
    np.arange(1000, dtype=np.uint16).tofile(tmp_path / "edu_fineweb_train_000002.bin")

    with pytest.raises(FormatError) as caught:
        TokenizedDataset(tmp_path)

    assert 'TokenizedDataset(..., dtype="uint16")' in caught.value.hint
    assert "tokenmill.open" not in str(caught.value)
    assert TokenizedDataset(tmp_path, dtype="uint16").total_length == 1000


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "cudda", torch.device("cuda")])
def test_a_device_that_is_not_here_is_refused_with_its_name(data_dir, device):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    dataset = TokenizedDataset(data_dir, block_size=64)

    with pytest.raises(ValueError, match=rf"(?s)device is '{device}'.*hint: device=\"cpu\""):
        dataset.get_batch(2, device=device)
