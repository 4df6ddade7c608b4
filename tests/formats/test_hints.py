"""What is refused comes with words that work when they are pasted."""

import json
import re
import shlex

import numpy as np
import pytest
from click.testing import CliRunner
from formats.our_files import write_ours

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.errors import FormatError
from tokenmill.tokens.load_tokenizer import load


def hint_for(*args, **options) -> str:
    with pytest.raises(FormatError) as caught:
        tokenmill.open(*args, **options)
    return caught.value.hint


def run(hint: str, **names: object):
    """Run the command in a hint, with the names it leaves open."""
    line = re.search(r"tokenmill [a-z]+ .*", hint)[0]
    for name, value in names.items():
        line = line.replace(name, shlex.quote(str(value)))
    done = CliRunner().invoke(command, shlex.split(line)[1:])
    assert done.exit_code == 0, (line, done.output, done.exception)


def evaluate(hint: str):
    """Make the call in a hint."""
    return eval(re.search(r"tokenmill\.open\([^)]*\)", hint)[0], {"tokenmill": tokenmill})


@pytest.fixture
def ours(tmp_path):
    return write_ours(tmp_path / "o", {"train": [[1, 50256]], "val": [[2, 50256]]}, 100)


@pytest.mark.parametrize("name", ["en 3.txt", "docs.jsonl", "README"])
def test_text_is_to_be_prepared_first(tmp_path, name):
    text = {"text": "Some text.\n" * 99} if name.endswith("jsonl") else None
    (tmp_path / name).write_text(json.dumps(text) + "\n" if text else "Gr\u00fc\u00dfe.\n" * 400)

    hint = hint_for(tmp_path / name)

    run(hint, OUTPUT=tmp_path / "out")
    assert tokenmill.open(tmp_path / "out", "all").num_tokens
    assert "uint16" not in hint


def test_a_folder_of_text_is_to_be_prepared_first(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("Hello.\n")

    run(hint_for(tmp_path / "in"), OUTPUT=tmp_path / "out")


@pytest.mark.parametrize("name", ["dataset_metadata.json", "tokenizer_state.json"])
def test_a_file_of_a_dataset_leads_to_the_dataset(ours, name):
    assert evaluate(hint_for(ours / name)).format == "tokenmill"


@pytest.mark.parametrize("split", ["train", "val"])
def test_shards_of_a_dataset_lead_to_their_split(ours, split):
    for where in (ours / split, ours / split / "*.bin", next((ours / split).glob("*.bin"))):
        data = evaluate(hint_for(where, split))
        assert (data.format, data.split) == ("tokenmill", split)


def test_a_dataset_without_val_says_how_to_hold_some_out(tmp_path):
    folder = write_ours(tmp_path / "o", {"train": [[1, 50256]]}, 100)
    (tmp_path / "a.txt").write_text("Hello.\n")

    hint = hint_for(folder, "val")

    run(hint, **{"INPUT...": tmp_path / "a.txt", "OUTPUT": tmp_path / "out"})


def test_binary_files_of_no_format_are_not_called_text(tmp_path):
    (tmp_path / "ids.dat").write_bytes(bytes([72, 0, 105, 0]))

    assert evaluate(hint_for(tmp_path / "ids.dat")).num_tokens == 2


def test_tokenizer_files_name_the_call(tmp_path):
    (tmp_path / "x.tiktoken").write_bytes(b"AA== 0\n")

    with pytest.raises(FormatError) as caught:
        load(str(tmp_path / "x.tiktoken"))
    assert 'load("...", pattern="cl100k", end_of_text=100257)' in caught.value.hint


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("tokens.npy", "uint16"), *(("tokens.bin", kind) for kind in ("uint16", "int32", "int64"))],
)
def test_the_hint_for_a_file_without_a_header_offers_the_width_that_fits_first(
    tmp_path, name, dtype
):
    ids = np.random.default_rng(0).integers(0, 50_257, 1000).astype(dtype)
    ids.tofile(tmp_path / name)

    hint = hint_for(tmp_path / name)

    assert evaluate(hint)[:].tolist() == ids.tolist()
    assert f"uint{8 * ids.itemsize}" in hint.splitlines()[0]  # and why
    assert {"uint16", "uint32", "int32"} <= set(re.findall(r'dtype="(\w+)"', hint))
    assert ", ".join(map(str, ids[:6].tolist())) in hint.splitlines()[1]


def test_both_widths_are_offered_for_a_real_npy_that_has_none_and_for_a_short_one(tmp_path):
    np.arange(1000, 1600, dtype=np.int32).tofile(tmp_path / "long.npy")
    np.arange(1000, 1010, dtype=np.int32).tofile(tmp_path / "short.npy")

    assert evaluate(hint_for(tmp_path / "long.npy", format="npy")).dtype == np.uint32
    short = hint_for(tmp_path / "short.npy")
    assert "too short to say" in short
    assert "1000, 1001, 1002" in short
