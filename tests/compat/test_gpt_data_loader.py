"""Seed 002: GPTDataLoader in memory and over a folder of shards."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tokenmill.compat import GPTDataLoader
from tokenmill.errors import FormatError, NotADatasetError

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


def words_of_tokenizers():
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import CharDelimiterSplit

    made = Tokenizer(WordLevel({f"w{i}": i for i in range(300)}, unk_token="w0"))
    made.pre_tokenizer = CharDelimiterSplit(" ")
    return made


def letters_of_tiktoken():
    import tiktoken

    ranks = {bytes([byte]): byte for byte in range(256)}
    ending = {"<|endoftext|>": 256}
    return tiktoken.Encoding("letters", pat_str=r".", mergeable_ranks=ranks, special_tokens=ending)


def test_an_encoding_of_tiktoken_is_a_tokenizer():
    text = "a <|endoftext|> b" * 60  # which `encode` of tiktoken refuses
    data_loader = GPTDataLoader(config, letters_of_tiktoken())

    data_loader.prepare_data(text)

    assert bytes(data_loader.get_batch("train")[0][0].tolist()).decode() in text


def test_a_tokenizer_of_tokenizers_is_a_tokenizer():
    data_loader = GPTDataLoader(config, words_of_tokenizers())

    data_loader.prepare_data(" ".join(f"w{i}" for i in range(300)))

    x, y = data_loader.get_batch("train")
    assert torch.equal(x + 1, y)
    assert int(data_loader.get_batch("val")[0].min()) >= 270


def test_what_does_not_encode_is_refused_with_its_value():
    with pytest.raises(TypeError, match=r"tokenizer is 3.5, which has no encode"):
        GPTDataLoader(config, 3.5)

    class Odd:
        def encode(self, text):
            return [text]

    with pytest.raises(TypeError, match=r"returned \['some text'\], not a list of ids"):
        GPTDataLoader(config, Odd()).prepare_data("some text")


def test_files_without_a_header_are_read_as_they_are_said_to_be(tmp_path):
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
        np.arange(400, dtype=np.uint32).tofile(tmp_path / split / "shard_00000.bin")

    with pytest.raises(FormatError) as caught:
        GPTDataLoader(config, dataset_dir=tmp_path)
    assert 'GPTDataLoader(..., dtype="uint32")' in caught.value.hint

    x, y = GPTDataLoader(config, dataset_dir=tmp_path, dtype="uint32").get_batch("val")
    assert torch.equal(x + 1, y)


def test_a_gpu_that_is_not_there_is_said():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    data_loader = GPTDataLoader({"block_size": 16, "batch_size": 2, "device": "cuda"}, "bytes")
    data_loader.prepare_data(TEXT)

    with pytest.raises(ValueError, match=r"device is 'cuda', which torch cannot use here"):
        data_loader.get_batch("train")
