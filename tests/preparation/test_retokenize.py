"""A dataset encoded again: the same documents in the same splits, and the ids of the oracle."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from flat import retokenize
from preparation.oracle import hashes_of_files
from preparation.runs import assert_nothing_stray, wait_until

import tokenmill
from tokenmill.errors import PrepareError, SettingsMismatchError, TokenmillError

END_OF_BYTES = 256
UNUSED = 188  # of gpt2: a byte of 0, which is in none of the texts
SPLITS = ("train", "val", "val_code")


@pytest.fixture(scope="module")
def texts(english, code):
    """The documents of each split; some are in two splits, one has another alphabet."""
    strange = ["日本語 и русский", "e\u0301 \u200d 🌾\n\n", "<|endoftext|>", " ", "x" * 5000]
    return {
        "train": [*english[:40], *strange, english[3], *code[:6]],
        "val": [*english[50:56], english[5]],
        "val_code": [*code[10:14], code[2]],
    }


@pytest.fixture(scope="module")
def source(texts, tmp_path_factory):
    """A dataset of ids of `bytes`, in small shards, with all documents as they are."""
    folder = tmp_path_factory.mktemp("source")
    for split, documents in texts.items():
        ids = [byte for text in documents for byte in (*text.encode(), END_OF_BYTES)]
        (folder / "npy" / split).mkdir(parents=True)
        np.save(folder / "npy" / split / "ids.npy", np.array(ids, np.uint16))
    tokenmill.convert(
        folder / "npy", folder / "data", to="tokenmill", tokenizer="bytes", tokens_per_shard=9_000
    )
    return folder / "data"


def documents_of(path, split):
    data = tokenmill.open(path, split)
    return [data.document(i).tolist() for i in range(data.num_documents)]


@pytest.mark.parametrize("unit_bytes", [3000, 1 << 20])
def test_documents_and_splits_stay_and_ids_are_those_of_the_oracle(
    source, texts, tmp_path, gpt2, unit_bytes
):
    done = retokenize(
        source, tmp_path / "out", tokenizer="gpt2", tokens_per_shard=4000, unit_bytes=unit_bytes
    )

    for split in SPLITS:
        wanted = [[*gpt2(text), 50256] for text in texts[split]]
        assert documents_of(tmp_path / "out", split) == wanted
    assert done.documents_in == sum(map(len, texts.values()))
    assert not done.dropped
    assert any("every document has the same text" in note for note in done.notes)
    tokenmill.verify(tmp_path / "out", full=True)


def test_there_and_back_is_the_same_dataset(source, tmp_path):
    retokenize(source, tmp_path / "gpt2", tokenizer="gpt2")
    retokenize(tmp_path / "gpt2", tmp_path / "back", tokenizer="bytes", tokens_per_shard=9_000)

    shards = {
        name: h for name, h in hashes_of_files(source).items() if name.endswith((".bin", ".ends"))
    }
    back = hashes_of_files(tmp_path / "back")
    assert shards.items() <= back.items()


def test_begin_tokens_are_taken_off_and_put_on(source, tmp_path):
    retokenize(source, tmp_path / "begun", tokenizer="gpt2", begin_token=str(UNUSED))
    retokenize(tmp_path / "begun", tmp_path / "plain", tokenizer="gpt2")

    begun, plain = (documents_of(tmp_path / name, "train") for name in ("begun", "plain"))
    assert begun == [[UNUSED, *ids] for ids in plain]


COMMAND = """
import sys
from tokenmill.preparation import Run
from tokenmill.preparation.retokenize import retokenize
retokenize(sys.argv[1], sys.argv[2], tokenizer="gpt2", tokens_per_shard=4000,
           run=Run(unit_bytes=3000), workers=int(sys.argv[3]))
"""


def start(source, out, workers):
    words = [sys.executable, "-c", COMMAND, str(source), str(out), str(workers)]
    return subprocess.Popen(words, start_new_session=True)


def test_any_workers_and_a_kill_give_the_same_bytes(source, tmp_path):
    for name, workers in (("one", 1), ("three", 3)):
        assert start(source, tmp_path / name, workers).wait() == 0
    killed = start(source, tmp_path / "killed", 2)
    assert wait_until(killed, tmp_path / "killed" / ".preparation", "units", 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()

    assert not (tmp_path / "killed" / "dataset_metadata.json").exists()
    assert start(source, tmp_path / "killed", 1).wait() == 0

    one = hashes_of_files(tmp_path / "one")
    assert hashes_of_files(tmp_path / "three") == one
    assert hashes_of_files(tmp_path / "killed") == one
    assert_nothing_stray(tmp_path / "killed")


def test_a_tokenizer_that_changes_texts_is_refused(tmp_path, source):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "</s>": 1}, "[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.add_special_tokens(["</s>"])
    made.save(str(tmp_path / "tokenizer.json"))

    with pytest.raises(PrepareError, match=r"tokenizer.json does not give back the text .* became"):
        retokenize(source, tmp_path / "out", tokenizer=str(tmp_path / "tokenizer.json"))
    assert not (tmp_path / "out" / "dataset_metadata.json").exists()


def test_what_cannot_be_decoded_or_would_be_overwritten_is_refused(source, tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(100, dtype=np.uint16))

    with pytest.raises(
        SettingsMismatchError, match="both the dataset to read and the one to write"
    ):
        retokenize(source, source, tokenizer="gpt2")
    with pytest.raises(TokenmillError, match="names its tokenizer"):
        retokenize(tmp_path / "ids.npy", tmp_path / "out", tokenizer="gpt2")
    with pytest.raises(TypeError, match="dedup"):
        retokenize(source, tmp_path / "out", tokenizer="gpt2", dedup="lines")


def test_files_of_another_project_are_converted_first(tmp_path, gpt2, texts):
    """nanoGPT's files name neither their type nor their tokenizer."""
    for split in ("train", "val"):
        ids = [i for text in texts[split][:9] for i in (*gpt2(text), 50256)]
        np.array(ids, np.uint16).tofile(tmp_path / f"{split}.bin")
    with pytest.raises(TokenmillError, match="token type is unknown") as caught:
        retokenize(tmp_path, tmp_path / "out", tokenizer="bytes")
    command = f"tokenmill convert {tmp_path} OURS --to tokenmill --tokenizer gpt2 --dtype uint16"
    assert caught.value.hint == f"state it once: {command}; then retokenize OURS"
    tokenmill.convert(tmp_path, tmp_path / "ours", to="tokenmill", dtype="uint16", tokenizer="gpt2")

    retokenize(tmp_path / "ours", tmp_path / "out", tokenizer="bytes")

    for split in ("train", "val"):
        found = [bytes(ids[:-1]).decode() for ids in documents_of(tmp_path / "out", split)]
        assert found == texts[split][:9]
