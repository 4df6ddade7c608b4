"""Seed 002: GPTDataLoader in memory and over a folder of shards."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tokenmill.compat import GPTDataLoader
from tokenmill.errors import NotADatasetError

config = SimpleNamespace(block_size=16, batch_size=4, device="cpu")
TEXT = "".join(chr(32 + i % 90) for i in range(2000))


@pytest.fixture
def dataset_dir(tmp_path):
    """train/ and val/ with shard_00000.bin ... of the document's layout, uint32."""
    for split, numbers in (("train", (0, 1)), ("val", (2,))):
        (tmp_path / split).mkdir()
        for n in numbers:
            ids = np.arange(n * 400, (n + 1) * 400, dtype=np.uint32)
            np.save(tmp_path / split / f"shard_0000{n}.npy", ids)
    return str(tmp_path)


def test_in_memory_mode():
    data_loader = GPTDataLoader(config, "bytes")
    data_loader.prepare_data(TEXT)

    x, y = data_loader.get_batch("train")

    assert x.shape == y.shape == (4, 16)
    assert torch.equal(x[:, 1:], y[:, :-1])
    decoded = bytes(x[0].tolist()).decode()
    assert decoded in TEXT[:1800]  # the first 90 %
    assert bytes(data_loader.get_batch("val")[0][0].tolist()).decode() in TEXT[1800:]


def test_any_object_that_encodes_will_do():
    class Letters:
        def encode(self, text):
            return [ord(c) for c in text]

    data_loader = GPTDataLoader({"block_size": 16, "batch_size": 2}, Letters())
    data_loader.prepare_data(TEXT)

    assert data_loader.get_batch("train")[0].shape == (2, 16)


def test_sharded_mode(dataset_dir):
    data_loader = GPTDataLoader(config, None, dataset_dir=dataset_dir)

    rows = torch.cat([data_loader.get_batch("train")[0] for _ in range(12)])

    assert len(set(rows[:, 0].tolist())) == 48  # of 49 windows over both shards, each once
    assert torch.equal(rows[:, 1:], rows[:, :-1] + 1)
    assert int(data_loader.get_batch("val")[0].min()) >= 800


def test_before_there_is_data_it_says_what_to_do():
    with pytest.raises(NotADatasetError, match=r"call prepare_data\(text\)"):
        GPTDataLoader(config, "bytes").get_batch("train")


def test_a_config_without_a_size_is_reported(dataset_dir):
    with pytest.raises(ValueError, match="the config has no block_size"):
        GPTDataLoader({"batch_size": 4}, None, dataset_dir=dataset_dir)
