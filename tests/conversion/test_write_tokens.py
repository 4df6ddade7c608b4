"""Ids that were made elsewhere become a dataset: all of them, or nothing."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill.errors import BadInputError, FormatError, LockedError, TokenizerMismatchError
from tokenmill.formats.ours import Tokenmill
from tokenmill.shards.verify import verify

END = 50256


def shard_bytes(folder):
    names = sorted(folder.glob("train/*"))
    return [(path.name, path.read_bytes()) for path in names]


def test_the_ids_of_a_preparation_give_its_shards(tmp_path, monkeypatch):
    texts = [f"Text {i} of some, {'word ' * (i % 7)}.\n" for i in range(300)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (tmp_path / "a.jsonl").write_text(lines)
    monkeypatch.setattr(Tokenmill, "tokens_per_shard", 1000)
    options = {"val_fraction": 0.0, "tokens_per_shard": 1000, "workers": 1}
    tokenmill.prepare(tmp_path / "a.jsonl", tmp_path / "prepared", **options)
    gpt2 = tokenmill.load_tokenizer("gpt2")

    documents = (gpt2.encode(text) for text in texts)
    done = tokenmill.write_tokens(documents, tmp_path / "written", tokenizer="gpt2")

    assert shard_bytes(tmp_path / "written") == shard_bytes(tmp_path / "prepared")
    data = tokenmill.open(tmp_path / "written")
    assert done.splits == {"train": (data.num_tokens, len(data.shards))}
    assert data.decode(data.document(7)[:-1]) == texts[7]
    assert list(verify(tmp_path / "written", full=True)) == []


@settings(deadline=None, max_examples=40)
@given(
    documents=st.lists(st.lists(st.integers(0, 999), max_size=9), min_size=1, max_size=30),
    size=st.integers(1, 20),
    kind=st.sampled_from([list, tuple, np.uint16, np.int32, np.uint64]),
)
def test_every_document_comes_back(tmp_path_factory, documents, size, kind):
    out = tmp_path_factory.mktemp("data") / "out"
    given = [kind(d) if kind in (list, tuple) else np.array(d, kind) for d in documents]
    ended = [document + [1000] * (i % 2) for i, document in enumerate(documents)]
    given = [g if i % 2 == 0 else ended[i] for i, g in enumerate(given)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tokenmill, "tokens_per_shard", size)
        tokenmill.write_tokens(iter(given), out, end_of_text_id=1000)
    data = tokenmill.open(out)

    found = [data.document(i).tolist() for i in range(data.num_documents)]
    assert found == [[*document, 1000] for document in documents]
    assert data.tokenizer is None
    assert data.vocab_size == 1001
    assert list(verify(out, full=True)) == []


def test_an_array_that_is_filled_again_is_copied(tmp_path):
    def documents():
        array = np.zeros(4, np.int64)
        for number in range(50):
            array[:] = number
            yield array

    tokenmill.write_tokens(documents(), tmp_path / "out", end_of_text_id=99)

    data = tokenmill.open(tmp_path / "out")
    assert [int(data.document(i)[0]) for i in range(50)] == list(range(50))


WRONG = {
    "negative": ([1, -1], "document 3 has the id -1 at position 1"),
    "above": ([50257], "document 3 has the id 50257 at position 0; expected 0 to 50,256"),
    "wrapped": (np.array([7, 2**64 - 1], np.uint64), "has the id 18446744073709551615"),
    "inside": ([END, 5], f"document 3 has the id {END} at position 0"),
    "huge": ([2**70], "document 3 is [1180591620717411303424]"),
    "float": ([1.0, 2.0], "document 3 is [1.0, 2.0] (list, 1-D float64)"),
    "text": ("hello", "document 3 is 'hello' (str"),
    "number": (5, "document 3 is 5 (int"),
    "nested": ([[1, 2]], "document 3 is [[1, 2]] (list, 2-D int64)"),
    "ragged": ([1, [2]], "document 3 is [1, [2]] (list"),
    "bool": ([True], "document 3 is [True] (list, 1-D bool)"),
    "nothing": (None, "document 3 is None (NoneType"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_id_is_refused_with_the_number_of_its_document(tmp_path, name):
    document, message = WRONG[name]
    documents = [[1], [2], [], document, [3]]

    with pytest.raises(BadInputError) as error:
        tokenmill.write_tokens(documents, tmp_path / "out", tokenizer="gpt2")
    assert message in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_the_width_is_that_of_the_vocabulary(tmp_path):
    write = tokenmill.write_tokens
    assert write([[1]], tmp_path / "a", tokenizer="gpt2").dtype == "uint16"
    assert write([[65536]], tmp_path / "b", end_of_text_id=0).dtype == "uint32"
    assert tokenmill.open(tmp_path / "b").tokens(0, 2).tolist() == [65536, 0]
    with pytest.raises(BadInputError, match="has the id 4294967296"):
        write([[1 << 32]], tmp_path / "c", end_of_text_id=0)


def test_what_ends_a_document_must_be_known(tmp_path):
    for options, message in [
        ({}, "end_of_text_id is None; expected 0 to 4,294,967,295, or a tokenizer"),
        ({"tokenizer": "gpt2", "end_of_text_id": 5}, "end_of_text_id is 5; expected 50256"),
        ({"end_of_text_id": -1}, "end_of_text_id is -1; expected 0 to"),
        ({"end_of_text_id": 1 << 32}, "end_of_text_id is 4294967296; expected 0 to"),
    ]:
        with pytest.raises(ValueError, match=message):
            tokenmill.write_tokens([[1]], tmp_path / "out", **options)
    with pytest.raises(BadInputError, match="there are no documents"):
        tokenmill.write_tokens([], tmp_path / "out", end_of_text_id=0)
    assert list(tmp_path.iterdir()) == []


def test_a_dataset_without_a_tokenizer_takes_the_one_that_is_named(tmp_path):
    ids = tokenmill.load_tokenizer("gpt2").encode("some words")
    tokenmill.write_tokens([ids], tmp_path / "out", end_of_text_id=END)
    (tmp_path / "a.txt").write_text("more")

    assert tokenmill.open(tmp_path / "out", tokenizer="gpt2").decode(ids) == "some words"
    with pytest.raises(tokenmill.TokenmillError, match="names the tokenizer that made it"):
        tokenmill.open(tmp_path / "out").decode(ids)
    with pytest.raises(TokenizerMismatchError, match="no text can be added to it"):
        tokenmill.prepare(tmp_path / "a.txt", tmp_path / "out", append=True)
    tokenmill.convert(tmp_path / "out", tmp_path / "again", to="tokenmill", tokenizer="gpt2")
    assert tokenmill.load_tokenizer(tmp_path / "again").name == "gpt2"


def test_what_is_there_is_kept_unless_asked_and_until_the_new_one_is_whole(tmp_path):
    out = tmp_path / "out"
    tokenmill.write_tokens([[1, 2]], out, end_of_text_id=0)
    before = shard_bytes(out)

    with pytest.raises(FormatError, match="exists already"):
        tokenmill.write_tokens([[3]], out, end_of_text_id=0)
    with pytest.raises(BadInputError):
        tokenmill.write_tokens([[3], [-1]], out, end_of_text_id=0, overwrite=True)
    assert shard_bytes(out) == before
    tokenmill.write_tokens([[3]], out, end_of_text_id=0, overwrite=True)
    assert tokenmill.open(out).tokens(0, 2).tolist() == [3, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_at_a_time_are_refused_and_an_error_of_the_source_leaves_nothing(tmp_path):
    out = tmp_path / "out"

    def documents():
        yield [1]
        with pytest.raises(LockedError, match="is being written by process"):
            tokenmill.write_tokens([[2]], out, end_of_text_id=0)
        raise KeyError("the source fails")

    with pytest.raises(KeyError, match="the source fails"):
        tokenmill.write_tokens(documents(), out, end_of_text_id=0)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import itertools, sys, tokenmill
def documents():
    for number in itertools.count():
        if number == 12_000:  # tokens of the second shard are written
            print("now", flush=True)
        yield [number % 1000] * 1000
tokenmill.write_tokens(documents(), sys.argv[1], end_of_text_id=1000)
"""


def test_killed_there_is_no_dataset_and_the_next_run_writes_it(tmp_path):
    out = tmp_path / "out"
    program = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with program:
        assert program.stdout.readline() == b"now\n"
        program.send_signal(signal.SIGKILL)

    assert not out.exists()
    tokenmill.write_tokens([[1]], out, end_of_text_id=0)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


STREAMED = """
import resource, sys, numpy as np, tokenmill
def documents():
    for number in range(600):
        yield np.full(100_000, number, np.uint16)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tokenmill.write_tokens(documents(), sys.argv[1], end_of_text_id=1000)
print(first)
"""


def test_memory_does_not_grow_with_the_documents(tmp_path):
    """240 MB of ids, in less than a quarter of that."""
    done = subprocess.run(
        [sys.executable, "-c", STREAMED, str(tmp_path / "out")],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    most, first = map(int, done.stdout.split())

    assert (tmp_path / "out" / "train" / "shard_00005.bin").exists()
    assert most - first < 60_000  # kB
