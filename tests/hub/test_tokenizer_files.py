"""A tokenizer by its name on the hub: its files are fetched once, compared, then used offline."""

import json
import os
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
import tokenizers
from hub.conftest import TOKEN
from tokenizers import decoders, models, pre_tokenizers, trainers

import tokenmill
from tokenmill.errors import DownloadError

REPO = "ann/small-model"
TEXT = "The cat sat on the mat; the cats sat.\n" * 30


def byte_level(end="</s>"):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[end],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    return tokenizer


@pytest.fixture
def model(hub, monkeypatch, tmp_path):
    """A model with its tokenizer."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = {
        "tokenizer.json": byte_level().to_str().encode(),
        "tokenizer_config.json": json.dumps({"eos_token": "</s>"}).encode(),
        "model.safetensors": bytes(5000),
        "nested/tokenizer.json": b"{}",
    }
    hub.commit(REPO, files)
    return files


def test_only_the_files_of_the_tokenizer_are_fetched_and_once(hub, model):
    ours = tokenmill.load_tokenizer(REPO)
    paths = [urlsplit(request.path).path for request in hub.bodies()]
    fetched = [path.rpartition("/")[2] for path in paths if "nested" not in path]
    num_requests = len(hub.requests)
    again = tokenmill.load_tokenizer(REPO)

    assert ours.encode(TEXT).tolist() == byte_level().encode(TEXT).ids
    assert ours.end_of_text == "</s>"
    assert len(fetched) == len(paths)
    assert sorted(set(fetched)) == ["tokenizer.json", "tokenizer_config.json"]
    assert again.fingerprint == ours.fingerprint
    assert len(hub.requests) == num_requests


def test_the_name_has_the_commit_which_does_not_move(hub, model):
    commit = hub.refs[REPO, "main"]
    assert tokenmill.load_tokenizer(REPO).name == f"{REPO}@{commit}"
    other = hub.commit(REPO, {**model, "tokenizer.json": byte_level("<eos>").to_str().encode()})

    assert tokenmill.load_tokenizer(REPO).name == f"{REPO}@{commit}"
    assert tokenmill.load_tokenizer(f"{REPO}@{other}").end_of_text == "<eos>"
    assert tokenmill.load_tokenizer(f"{REPO}@{commit}").end_of_text == "</s>"


def test_a_file_that_arrives_damaged_is_fetched_again(hub, model):
    hub.fault("tokenizer.json", "flip")

    assert tokenmill.load_tokenizer(REPO).encode(TEXT).tolist() == byte_level().encode(TEXT).ids


def test_a_file_that_was_damaged_here_is_fetched_again(hub, model, tmp_path):
    expected = tokenmill.load_tokenizer(REPO).fingerprint
    (file,) = (tmp_path / "cache").rglob("[!.]*/tokenizer.json")
    file.write_bytes(file.read_bytes()[:-50])

    assert tokenmill.load_tokenizer(REPO).fingerprint == expected


def test_what_cannot_be_fetched_is_said(hub, model, monkeypatch):
    hub.commit("ann/no-tokenizer", {"model.safetensors": b"x"})

    with pytest.raises(DownloadError, match="no such model repository, or it is private") as error:
        tokenmill.load_tokenizer("ann/nothing")
    assert TOKEN not in str(error.value)
    with pytest.raises(DownloadError, match="no file of ann/no-tokenizer at revision main matches"):
        tokenmill.load_tokenizer("ann/no-tokenizer")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set"):
        tokenmill.load_tokenizer(f"{REPO}@v2")
    with pytest.raises(ValueError, match=r"no tokenizer 'folder/tokenizer\.json'"):
        tokenmill.load_tokenizer("folder/tokenizer.json")


def test_the_command_takes_the_name_and_needs_no_network_the_second_time(hub, model, tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)

    def prepare(out, **variables):
        command = [sys.executable, "-m", "tokenmill", "prepare", str(tmp_path / "a.txt"), "-o", out]
        environment = {**os.environ, **variables}
        done = subprocess.run(
            [*command, "--tokenizer", REPO], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return tokenmill.open(out)

    first = prepare(str(tmp_path / "online"))
    second = prepare(str(tmp_path / "offline"), HF_HUB_OFFLINE="1")

    assert first.fingerprint == second.fingerprint
    assert first.tokenizer.name == f"{REPO}@{hub.refs[REPO, 'main']}"
    state = json.loads((tmp_path / "online" / "tokenizer_state.json").read_text())
    assert state["name"] == first.tokenizer.name
