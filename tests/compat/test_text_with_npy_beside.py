"""Seed 003: a text whose tokens lie beside it, found, announced, and split 90 to 10."""

import os

import numpy as np
import pytest
import torch

import tokenmill
from tokenmill.compat import StreamingDataset
from tokenmill.compat.text_file import open_text
from tokenmill.errors import FormatError, MismatchError


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Datasets").mkdir()
    (tmp_path / "Datasets/c4_subset_large.txt").write_text("not read at all")
    np.save("Datasets/c4_subset_large.npy", np.arange(10_001, dtype=np.uint16))


def test_the_npy_is_found_and_said_so_in_the_documents_words(datasets, capsys):
    train = StreamingDataset("Datasets/c4_subset_large.txt", 128)

    assert capsys.readouterr().out.splitlines() == [
        "Using memory-mapped file: Datasets/c4_subset_large.npy",
        "   (This uses ~0MB RAM regardless of dataset size!)",
        "   Total tokens in file: 10,001",
        "   Using train portion: 9,000 tokens (indices 0 to 9,000)",
        "StreamingDataset (train): 70 sequences from 9,000 tokens",
    ]
    x, y = train[1]
    assert torch.equal(x, torch.arange(128, 256))  # no header among the tokens
    assert torch.equal(y, x + 1)


def test_validation_is_the_rest_and_shares_no_token(datasets, capsys):
    val = StreamingDataset("Datasets/c4_subset_large.txt", 128, split="val")

    assert int(val[0][0][0]) == 9000
    assert "Using val portion: 1,001 tokens (indices 9,000 to 10,001)" in capsys.readouterr().out


def test_without_a_npy_it_warns_and_tokenizes_in_memory(tmp_path, capsys):
    (tmp_path / "small.txt").write_text("a b c " * 200)

    with pytest.warns(UserWarning, match=r"No \.npy file found .*tokenmill pretokenize"):
        train = StreamingDataset(tmp_path / "small.txt", 10, tokenizer="bytes")

    assert bytes(train[0][0].tolist()) == b"a b c a b "
    assert "StreamingDataset (train): 107 sequences from 1,080 tokens" in capsys.readouterr().out


def test_a_npy_older_than_its_text_is_refused(datasets):
    os.utime("Datasets/c4_subset_large.npy", ns=(0, 0))

    with pytest.raises(MismatchError, match=r"(?s)older than.*tokenmill pretokenize"):
        StreamingDataset("Datasets/c4_subset_large.txt", 128)

    named = StreamingDataset("Datasets/c4_subset_large.npy", 128, say=lambda line: None)
    assert len(named) == 70  # named itself, it is used as it is


def test_neither_text_nor_tokens_is_an_error_with_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*missing\.txt \(looked in"):
        StreamingDataset(tmp_path / "missing.txt")


@pytest.mark.filterwarnings("ignore:No .npy file found")
def test_a_text_that_is_not_utf8_is_refused_with_the_byte(tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9 au lait")

    with pytest.raises(FormatError, match=r"latin\.txt is not UTF-8 at byte 3") as refused:
        StreamingDataset(tmp_path / "latin.txt", 2, tokenizer="bytes")

    assert "--on_bad_input replace" in refused.value.hint


@pytest.mark.parametrize(
    "text", ["a b c " * 200, "Zwei Zeilen.\n\nUnd <|endoftext|> noch eine.\n" * 50]
)
def test_the_tokens_in_memory_are_those_that_pretokenize_writes(tmp_path, text):
    """One text has no end-of-text id after it, here or there: nothing follows that it separates."""
    path = tmp_path / "small.txt"
    path.write_text(text)

    def splits():
        options = {"tokenizer": "gpt2", "say": str, "warn": str}
        return [data[:].tolist() for data in open_text(path, ["train", "val"], **options)]

    in_memory = splits()
    tokenmill.pretokenize(path, tokenizer="gpt2")

    assert splits() == in_memory
    assert in_memory[0] + in_memory[1] == np.load(path.with_suffix(".npy")).tolist()
