"""Many small files are read as one unit: the same bytes, counts and places as one by one."""

import gzip
import json

import flat
import pytest
from flat import prepare
from preparation.oracle import hashes_of_files

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import Unit, cut_into_units, group_small_files

ONE_BY_ONE = {"unit_bytes": 40}  # smaller than any of the files


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "files"
    (folder / "below").mkdir(parents=True)
    rows = [
        f'{{"text": "Row {number} of many, and a line that is in all."}}' for number in range(9)
    ]
    for number in range(30):
        text = f"A line that is in all files.\nThis is file {number}.\n" * 2
        (folder / "below" / f"{number:02}.txt").write_text(text)
    (folder / "bad.txt").write_bytes(b"a text that is long enough, and then \xff, not UTF-8\n")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "rows.jsonl").write_text("\n".join(rows))
    (folder / "more.jsonl").write_text("\n".join([*rows[:3], "no JSON", *rows[3:5], "[]"]))
    (folder / "rows.csv").write_text("id,text\n1,A line that is in all files.\n2,another one\n")
    (folder / "packed.txt.gz").write_bytes(gzip.compress(b"This text is packed, " * 9))
    return folder


@pytest.mark.parametrize("dedup", ["lines", "documents", "none"])
@pytest.mark.parametrize("on_bad_input", ["skip", "replace"])
def test_the_same_as_one_by_one(files, tmp_path, dedup, on_bad_input):
    given = {"dedup": dedup, "on_bad_input": on_bad_input, "tokenizer": "bytes", "workers": 1}
    together = prepare(files, tmp_path / "together", **given)
    apart = prepare(files, tmp_path / "apart", **given, **ONE_BY_ONE)
    assert hashes_of_files(tmp_path / "together") == hashes_of_files(tmp_path / "apart")
    assert together.bad_input == apart.bad_input
    assert any("more.jsonl:4" in place for place in together.bad_input)
    assert any("bad.txt at byte 37" in place for place in together.bad_input)


def test_held_out_files_are_units_apart(files, tmp_path):
    given = {"val_input": {"val": [files / "below"]}, "tokenizer": "bytes", "workers": 1}
    given |= {"on_bad_input": "skip"}
    summary = prepare(files, tmp_path / "together", **given)
    prepare(files, tmp_path / "apart", **given, **ONE_BY_ONE)
    assert summary.val_tokens > 0
    assert hashes_of_files(tmp_path / "together") == hashes_of_files(tmp_path / "apart")


@pytest.mark.parametrize("place", ["a", "m", "z"])  # before the others, between them, after them
@pytest.mark.parametrize(
    ("suffix", "content"), [("jsonl", ""), ("jsonl", "\n\n"), ("csv", "id,text\n"), ("txt", "")]
)
def test_a_file_without_a_document_is_counted_as_such(tmp_path, place, suffix, content):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("b", "n"):
        (folder / f"{name}.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    (folder / f"{place}.{suffix}").write_text(content)

    for where, options in (("together", {}), ("apart", ONE_BY_ONE)):
        prepare(folder, tmp_path / where, tokenizer="bytes", workers=1, **options)
        manifest = json.loads((tmp_path / where / "dataset_metadata.json").read_bytes())
        documents = {each["name"]: each["documents"] for each in manifest["sources"]}
        assert documents.pop(f"{place}.{suffix}") in (0, int(suffix == "txt"))
        assert documents == {"b.jsonl": 2, "n.jsonl": 2}
    assert hashes_of_files(tmp_path / "together") == hashes_of_files(tmp_path / "apart")


def test_documents_are_counted_by_file(files, tmp_path):
    prepare(files, tmp_path / "out", on_bad_input="skip", tokenizer="bytes", workers=1)
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())
    counted = {source["name"]: source["documents"] for source in manifest["sources"]}
    assert counted.pop("rows.jsonl") == 9
    assert counted.pop("more.jsonl") == 7
    assert counted.pop("rows.csv") == 2
    assert len(counted) == 33
    assert set(counted.values()) == {1}


def test_a_bad_file_among_many_is_named(files, tmp_path):
    with pytest.raises(BadInputError, match=r"^bad\.txt at byte 37: not UTF-8") as refused:
        prepare(files, tmp_path / "out", tokenizer="bytes", workers=1)
    assert refused.value.source == "bad.txt"


def test_a_unit_is_small_files_together_or_part_of_a_large_one(tmp_path):
    for name, size in [("a", 30), ("b", 60), ("c", 20), ("d", 250), ("e", 10), ("f", 100)]:
        (tmp_path / f"{name}.txt").write_bytes(b"x" * size)
    sources = find_sources(tmp_path)
    units = list(group_small_files(cut_into_units(sources, 100), sources, 100))
    assert units == [
        Unit(0, 0, 90, 2),  # a, b
        Unit(2, 0, 20),
        Unit(3, 0, 100),
        Unit(3, 100, 200),
        Unit(3, 200, 250),
        Unit(4, 0, 10),
        Unit(5, 0, 100),
    ]


def test_a_thousand_files_are_few_units(tmp_path):
    for number in range(1000):
        (tmp_path / f"{number}.txt").write_text(f"text {number}")
    plan = flat.plan(tmp_path, tmp_path / "out", tokenizer="bytes")
    assert [unit.num_sources for unit in plan.units] == [1000]
    assert plan.name_of(0) == "1,000 files from 0.txt to 999.txt"
