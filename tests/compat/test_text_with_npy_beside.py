"""Seed 003: a text whose tokens lie beside it, found, announced, and split 90 to 10."""

import os

import numpy as np
import pytest
import torch

import tokenmill
from tokenmill.compat import StreamingDataset
from tokenmill.compat.text_file import open_text
from tokenmill.errors import FormatError, MismatchError, TokenizerMismatchError


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Datasets").mkdir()
    ids = np.arange(10_001, dtype=np.uint16)
    text = tokenmill.load_tokenizer("gpt2").decode(ids)
    (tmp_path / "Datasets/c4_subset_large.txt").write_bytes(text)
    np.save("Datasets/c4_subset_large.npy", ids)


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


def test_a_npy_without_a_record_that_is_older_than_its_text_is_refused(datasets):
    os.utime("Datasets/c4_subset_large.npy", ns=(0, 0))

    with pytest.raises(MismatchError, match=r"(?s)made from another text.*tokenmill pretokenize"):
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


def test_the_tokens_in_memory_are_counted_and_hold_every_id(tmp_path):
    """More characters than 16 bits have numbers."""
    text = "".join(map(chr, range(0x10000, 0x10000 + 70_000)))
    path = tmp_path / "many.txt"
    path.write_text(text, encoding="utf-8")
    said = []

    train, val = open_text(path, ["train", "val"], tokenizer="chars", say=said.append, warn=str)

    assert said == [f"   Tokenized {path} with chars; tokens: train 63,000, val 7,000"]
    ids = np.concatenate([train[:], val[:]])
    assert ids.max() > 65_535
    assert train.tokenizer.decode(ids).decode() == text


WORDS = "The Mill turns 12 stones; the river turns the mill.\n" * 40


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text(WORDS)
    return path


def opened(path, tokenizer=None):
    (data,) = open_text(path, ["train"], tokenizer=tokenizer, say=str, warn=str)
    return data


@pytest.mark.parametrize("name", ["bytes", "chars", "gpt2"])
def test_it_is_read_with_the_tokenizer_that_made_it(words, name):
    tokenmill.pretokenize(words, tokenizer=name)

    for data in (opened(words), opened(words, name)):
        assert data.tokenizer.name == name
        assert WORDS.startswith(data.decode(data[:200]))
    other = "gpt2" if name == "bytes" else "bytes"
    with pytest.raises(TokenizerMismatchError, match=r"words\.npy was made with a tokenizer"):
        opened(words, other)
    with pytest.raises(TokenizerMismatchError, match=r"words\.npy was made with a tokenizer"):
        _ = tokenmill.open(words.with_suffix(".npy"), tokenizer=other).tokenizer


def test_chars_are_learned_from_the_text_alone(words):
    data = opened(words, "chars")

    assert data.tokenizer.characters == "".join(sorted(set(WORDS)))
    assert WORDS.startswith(data.decode(data[:]))


@pytest.mark.parametrize("dtype", [np.uint16, np.int32])
def test_ids_of_another_tokenizer_that_nothing_names_are_refused(words, dtype):
    np.save(words.with_suffix(".npy"), np.frombuffer(WORDS.encode(), np.uint8).astype(dtype))

    with pytest.raises(TokenizerMismatchError, match="does not name its tokenizer, and") as refused:
        opened(words)
    assert "'themillturns12stonestheriverturn'"[:31] in str(refused.value)
    assert "tokenizer=" in refused.value.hint
    assert opened(words, "bytes").decode(opened(words, "bytes")[:8]) == "The Mill"


@pytest.mark.parametrize("change", [str, str.lower, lambda text: text.replace("\n", "\r\n")])
@pytest.mark.parametrize("first", [[], [50256]])
def test_ids_that_nothing_names_are_those_of_gpt2_if_they_are_the_text(words, change, first):
    """Other scripts change case, how lines end and where texts do: it is still the tokenizer."""
    ids = tokenmill.load_tokenizer("gpt2").encode_batch([WORDS.encode()])[0]
    ids = np.concatenate([first, ids])
    np.save(words.with_suffix(".npy"), ids.astype(np.uint16))
    words.write_bytes(change(WORDS).encode())
    os.utime(words, ns=(0, 0))

    assert opened(words).tokenizer.name == "gpt2"
