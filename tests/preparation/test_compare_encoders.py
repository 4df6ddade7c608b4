"""A sample of the input is encoded both ways: a difference is said, and the package encodes."""

import json

import flat
import numpy as np
import pytest
import tokenizers
from gigatoken import gigatoken_rs
from tokenizers import models, pre_tokenizers, trainers

import tokenmill
from tokenmill.base.progress import Progress

NEW = "b qzx 1"  # letters that no probe has side by side
LINE = "The mill grinds 1,234 sacks; isn't that enough?"


class Said(Progress):
    """Keeps what is said."""

    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """GPT-2's pattern, and a merge of two letters."""
    folder = tmp_path_factory.mktemp("trained")
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([LINE, "qz " * 100], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


@pytest.fixture
def forgetful(monkeypatch):
    """A gigatoken that does not know this merge."""
    load = gigatoken_rs.load_hf_json

    def load_without(content):
        tree = json.loads(content)
        tree["model"]["merges"].remove(["q", "z"])
        return load(json.dumps(tree))

    monkeypatch.setattr(gigatoken_rs, "load_hf_json", load_without)


def prepare(trained, source, out, **options):
    said = Said()
    settings = {"tokenizer": str(trained), "clean": False, "dedup": "none", "val_fraction": 0}
    flat.prepare(source, out, progress=said, **settings, **options)
    return said.lines


def state(out):
    return json.loads((out / "tokenizer_state.json").read_text())


def ids_of(trained, text):
    package = tokenizers.Tokenizer.from_file(str(trained))
    package.encode_special_tokens = True
    return package.encode(text).ids


def test_ids_that_are_equal_keep_the_fast_encoder(trained, tmp_path):
    (tmp_path / "a.txt").write_text(LINE)

    lines = prepare(trained, tmp_path / "a.txt", tmp_path / "out", workers=1)

    assert not [line for line in lines if "gives other ids" in line]
    assert state(tmp_path / "out")["backend"] == "gigatoken"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_difference_names_the_text_and_falls_back_for_all_workers(
    trained, forgetful, tmp_path, workers
):
    text = "\n".join([LINE] * 100 + [NEW] + [LINE] * 3000)
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text(NEW)
    source = [tmp_path / "a.txt", tmp_path / "b.txt"]
    lines = prepare(trained, source, tmp_path / "out", workers=workers, unit_bytes=40_000)

    (said,) = [line for line in lines if "gives other ids" in line]
    assert "tokenizer.json: gigatoken gives other ids than tokenizers" in said
    assert f'"{NEW}" in a.txt; tokenizers encodes all of it' in said
    assert state(tmp_path / "out")["backend"] == "tokenizers"
    data = tokenmill.open(tmp_path / "out")
    end = data.end_of_text_id
    expected = [*ids_of(trained, text), end, *ids_of(trained, NEW), end]
    assert data.tokens(0, len(data)).tolist() == expected


def test_pretokenize_compares_too(trained, forgetful, tmp_path):
    (tmp_path / "a.txt").write_text(NEW)
    said = Said()

    tokenmill.pretokenize(tmp_path / "a.txt", tokenizer=str(trained), progress=said)

    assert [line for line in said.lines if "gives other ids" in line]
    assert np.load(tmp_path / "a.npy").tolist() == ids_of(trained, NEW)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.parquet"])
def test_inputs_of_every_kind_are_sampled(trained, forgetful, tmp_path, name):
    write(tmp_path / name, [LINE, NEW])

    lines = prepare(trained, tmp_path / name, tmp_path / "out", workers=1)

    assert [line for line in lines if f'"{NEW}" in {name}' in line]


def write(path, texts):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"text": texts}), path)
    elif path.suffix == ".csv":
        path.write_text("text\n" + "".join(f'"{text}"\n' for text in texts))
    else:
        import gzip

        data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_a_merge_that_is_there_twice_has_its_last_place(trained, tmp_path):
    """For `tokenizers`; gigatoken takes the first one, and no sample has to have it."""
    tree = json.loads(trained.read_text())
    vocabulary = tree["model"]["vocab"]
    vocabulary["zx"] = len(vocabulary)
    tree["model"]["merges"] += [["z", "x"], ["q", "z"]]
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))

    tokenizer = tokenmill.load_tokenizer(str(tmp_path / "tokenizer.json"))

    assert tokenizer.encode("qzx").tolist() == ids_of(tmp_path / "tokenizer.json", "qzx")
