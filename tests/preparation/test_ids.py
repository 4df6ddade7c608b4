"""Ids equal to tiktoken's, for every document of real English and of code, however it is cut."""

import json

import pytest
from flat import prepare
from preparation.oracle import read_dataset

PLAIN = {"val_fraction": 0, "workers": 1}


@pytest.fixture(scope="module")
def documents(english, code):
    return [*english[::3], *code[::3]]


def test_files_and_json_lines(documents, gpt2, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for number, text in enumerate(documents[:40]):
        (folder / f"{number:04d}.txt").write_bytes(text.encode())
    rows = "".join(json.dumps({"text": text}) + "\n" for text in documents[40:])
    (folder / "rows.jsonl").write_text(rows)
    prepare(folder, tmp_path / "out", **PLAIN, unit_bytes=200_000)
    assert read_dataset(tmp_path / "out")["train"] == [[*gpt2(text), 50256] for text in documents]


def test_separator_lines_and_paragraphs(documents, gpt2, tmp_path):
    separator = "<|endoftext|>"
    text = separator.join(documents[:30])
    (tmp_path / "a.txt").write_bytes(text.encode())
    ways = {
        "separator": ({"separator": separator}, text.split(separator)),
        "line": ({"document_is": "line"}, text.split("\n")),
    }
    for name, (how, expected) in ways.items():
        prepare(tmp_path / "a.txt", tmp_path / name, **PLAIN, **how, unit_bytes=30_000)
        found = read_dataset(tmp_path / name)["train"]
        assert found == [[*gpt2(part), 50256] for part in expected if part]
    prepare(tmp_path / "a.txt", tmp_path / "paragraph", **PLAIN, document_is="paragraph")
    paragraphs, lines = [], []
    for line in [*text.split("\n"), ""]:
        if line.strip(" \t\r"):
            lines.append(line)
        elif lines:
            paragraphs.append("\n".join(lines))
            lines = []
    found = read_dataset(tmp_path / "paragraph")["train"]
    assert found == [[*gpt2(part), 50256] for part in paragraphs]


@pytest.mark.parametrize("which", ["english", "code"])
def test_one_big_text_cut_inside(which, gpt2, tmp_path, request):
    text = "\n".join(request.getfixturevalue(which)[:12])[:60_000]
    (tmp_path / "a.txt").write_bytes(text.encode())
    prepare(tmp_path / "a.txt", tmp_path / "out", **PLAIN, unit_bytes=1000, long_line=50)
    assert read_dataset(tmp_path / "out")["train"] == [[*gpt2(text), 50256]]


def test_dtype_can_be_forced(gpt2, tmp_path):
    (tmp_path / "a.txt").write_text("a few words")
    prepare(tmp_path / "a.txt", tmp_path / "out", **PLAIN, dtype="uint32")
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    assert manifest["dtype"] == "uint32"
    assert read_dataset(tmp_path / "out")["train"] == [[*gpt2("a few words"), 50256]]


def test_characters(english, tmp_path):
    (tmp_path / "a.txt").write_text(english[0], "utf-8")
    prepare(tmp_path / "a.txt", tmp_path / "out", **PLAIN, tokenizer="chars", unit_bytes=500)
    known = sorted(set(english[0]))
    ids = [known.index(character) for character in english[0]]
    assert read_dataset(tmp_path / "out")["train"] == [[*ids, len(known)]]


def test_a_tokenizer_json(english, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.ByteLevelBPETokenizer()
    made.train_from_iterator(
        english[:5], vocab_size=500, special_tokens=["<|endoftext|>"], show_progress=False
    )
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text(english[6], "utf-8")
    prepare(
        tmp_path / "a.txt", tmp_path / "out", **PLAIN, tokenizer=str(tmp_path / "tokenizer.json")
    )
    expected = made.encode(english[6]).ids
    end = made.token_to_id("<|endoftext|>")
    assert read_dataset(tmp_path / "out")["train"] == [[*expected, end]]
