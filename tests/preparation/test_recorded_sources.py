"""Of many inputs a manifest names folders, and a file beside it lists all."""

import json
import shutil

import numpy as np
import pytest

import tokenmill
from tokenmill.errors import FormatError, PrepareError, SettingsMismatchError
from tokenmill.look.inspect import inspect, lines
from tokenmill.preparation.planning.limits import choose_shard_size
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.prepare import prepare
from tokenmill.preparation.stages import commit
from tokenmill.preparation.stages.commit import by_folder
from tokenmill.shards.manifest import Manifest, SourceEntry
from tokenmill.shards.verify import verify
from tokenmill.text.inputs.open_input import Source

PLAIN = {"tokenizer": "bytes", "dedup": "none", "val_fraction": 0.0, "workers": 1}


def write_files(folder, names):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"the text of file {number}\n" * (number % 3 + 1))
    return folder


NAMES = [f"{top}/{sub}/{n}.txt" for top in "ab" for sub in "xyz" for n in range(3)]


@pytest.fixture
def few(monkeypatch):
    """As if a manifest could list only so many inputs."""
    monkeypatch.setattr(commit, "MOST_LISTED", 6)


def listed(folder):
    file = Manifest.load(folder).sources_file
    return [json.loads(line) for line in (folder / file.file).read_text().splitlines()]


def test_folders_have_counts_and_the_list_has_every_file(few, tmp_path):
    texts = write_files(tmp_path / "texts", NAMES)
    prepare(texts, tmp_path / "out", **PLAIN)
    manifest = Manifest.load(tmp_path / "out")

    assert [s.name for s in manifest.sources] == ["a/x/", "a/y/", "a/z/", "b/x/", "b/y/", "b/z/"]
    assert [s.num_files for s in manifest.sources] == [3] * 6
    assert [each["name"] for each in listed(tmp_path / "out")] == NAMES
    sizes = {each["name"]: each["bytes"] for each in listed(tmp_path / "out")}
    assert sizes == {name: (texts / name).stat().st_size for name in NAMES}
    assert sum(s.num_documents for s in manifest.sources) == 18
    assert manifest.sources_file.file in manifest.files()
    assert verify(tmp_path / "out", full=True) == []
    assert "| a/x/ |" in (tmp_path / "out" / "README.md").read_text()
    known = inspect(tmp_path / "out")
    assert known.made.sources == 18
    assert any("18 files in all" in line for line in lines(known))


def test_few_inputs_are_listed_as_ever(tmp_path):
    texts = write_files(tmp_path / "texts", NAMES)
    prepare(texts, tmp_path / "out", **PLAIN)
    tree = json.loads((tmp_path / "out" / "dataset_metadata.json").read_bytes())

    assert tree["format_version"] == 1
    assert "sources_file" not in tree
    assert tree["sources"][0] == {
        "name": "a/x/0.txt", "bytes": (texts / "a/x/0.txt").stat().st_size, "documents": 1
    }  # fmt: skip
    assert not list((tmp_path / "out").glob("sources-*"))


def test_what_is_there_already_is_known_by_the_list(few, tmp_path):
    texts = write_files(tmp_path / "texts", NAMES)
    out = tmp_path / "out"
    prepare(texts, out, **PLAIN)
    first = Manifest.load(out).sources_file.file

    assert prepare(texts, out, **PLAIN).already_there
    with pytest.raises(SettingsMismatchError, match=r"all 18 inputs are in .* already"):
        prepare(texts, out, append=True, workers=1)
    write_files(tmp_path / "more" / "texts", [*NAMES, "c/new.txt"])
    summary = prepare(tmp_path / "more" / "texts", out, append=True, workers=1, dedup="none")

    assert any("18 of 19 inputs seem to be in the dataset already" in n for n in summary.notes)
    assert [each["name"] for each in listed(out)] == [*NAMES, *NAMES, "c/new.txt"]
    assert Manifest.load(out).sources[-1].name == "c/new.txt"
    assert Manifest.load(out).sources_file.file != first
    assert not (out / first).exists()
    assert verify(out, full=True) == []
    write_files(tmp_path / "other", ["c/other.txt", *NAMES])
    with pytest.raises(SettingsMismatchError, match=r"input c/other\.txt .* is new"):
        prepare(tmp_path / "other", out, **PLAIN)


def test_a_dataset_that_grows_beyond_the_number_lists_what_was_there(few, tmp_path):
    out = tmp_path / "out"
    prepare(write_files(tmp_path / "one", NAMES[:4]), out, **PLAIN)
    assert Manifest.load(out).sources_file is None
    prepare(write_files(tmp_path / "two", NAMES[4:]), out, append=True, workers=1, dedup="none")

    assert [each["name"].split("/")[-1] for each in listed(out)] == [n[4:] for n in NAMES]
    assert len(Manifest.load(out).sources) <= 6


def test_a_list_that_is_gone_or_changed_is_noticed(few, tmp_path):
    texts, out = write_files(tmp_path / "texts", NAMES), tmp_path / "out"
    prepare(texts, out, **PLAIN)
    path = out / Manifest.load(out).sources_file.file
    path.write_bytes(path.read_bytes().replace(b"a/x/0", b"a/x/9"))

    assert [(f.file, f.what) for f in verify(out)] == [(path.name, "hash")]
    with pytest.raises(FormatError, match="its manifest promises"):
        prepare(write_files(tmp_path / "new", ["z.txt"]), out, append=True, workers=1)
    path.unlink()
    with pytest.raises(FormatError, match=f"{path.name}   is missing"):
        prepare(write_files(tmp_path / "new", ["z.txt"]), out, append=True, workers=1)
    assert len(tokenmill.open(out)) > 0


def test_it_travels_with_the_dataset(few, tmp_path):
    out = tmp_path / "out"
    prepare(write_files(tmp_path / "texts", NAMES), out, **PLAIN)
    tokenmill.convert(out, tmp_path / "packed", compress="zstd")

    assert listed(tmp_path / "packed") == listed(out)
    assert verify(tmp_path / "packed", full=True) == []
    copy = shutil.copytree(out, tmp_path / "copy")
    np.testing.assert_array_equal(tokenmill.open(copy), tokenmill.open(tmp_path / "packed"))


@pytest.mark.parametrize(
    ("names", "folders"),
    [
        ([f"{n}.txt" for n in range(9)], [("./", 9)]),
        ([f"a/{n}/x.txt" for n in range(9)], [("a/", 9)]),
        ([f"{n}/x.txt" for n in range(9)], [("./", 9)]),
        (["0.txt", *(f"a/{n}.txt" for n in range(6))], [("0.txt", None), ("a/", 6)]),
    ],
)
def test_so_deep_that_there_are_few_enough(few, names, folders):
    sources = [SourceEntry(name, 5, 2) for name in names]

    found = by_folder(sources)

    assert [(source.name, source.num_files) for source in found] == folders
    assert sum(source.num_bytes for source in found) == 5 * len(names)
    assert sum(source.num_documents for source in found) == 2 * len(names)


def text_of(size, compression=None):
    return [Source("/a", "a", size, 0, "text", compression)]


@pytest.mark.parametrize(
    ("settings", "size", "compression", "expected"),
    [
        ({}, 10**11, None, 10_000_000),
        ({}, 3 * 10**11, None, 10_000_000),
        ({}, 10**12, None, 40_000_000),
        ({}, 10**12, "zstd", 160_000_000),
        ({"tokenizer": "bytes"}, 10**11 + 1, None, 20_000_000),
        ({}, 10**15, None, 40_960_000_000),
    ],
)
def test_shards_are_larger_where_there_would_be_too_many(settings, size, compression, expected):
    sources = text_of(size, compression)
    found = choose_shard_size(Settings(**settings), sources, is_given=False)

    assert found == expected


def test_a_size_that_makes_too_many_is_refused_before_the_work(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"x" * 3_100_000)

    with pytest.raises(PrepareError, match=r"makes about 1,033,333 shards; .* at most 300,000"):
        prepare(tmp_path / "a.txt", tmp_path / "out", tokens_per_shard=1, workers=1)
    assert not (tmp_path / "out").exists()
