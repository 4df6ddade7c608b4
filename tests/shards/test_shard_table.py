"""Shards as tables: the same dataset as when they are listed, and as strictly checked."""

import base64
import copy
import json
import os
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import write_corpus

import tokenmill
from tokenmill.errors import CorruptShardError, FormatError, NotADatasetError, TruncatedShardError
from tokenmill.look.inspect import inspect
from tokenmill.shards import block_hashes, shard_table
from tokenmill.shards import manifest as manifest_module
from tokenmill.shards.entries import (
    EndsEntry,
    FileEntry,
    ShardEntry,
    SplitEntry,
    TokenizerEntry,
)
from tokenmill.shards.manifest import Manifest
from tokenmill.shards.shard_table import ShardTable
from tokenmill.shards.verify import verify

SETTINGS = {"workers": 1, "tokens_per_shard": 500, "tokenizer": "bytes", "dedup": "none"}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A dataset with compressed and plain shards, listed, and the same with tables."""
    folder = tmp_path_factory.mktemp("both")
    listed, tables = folder / "listed", folder / "tables"
    a, b, _ = write_corpus(folder / "corpus", documents=10)
    tokenmill.prepare(a, listed, val_fraction=0.3, **SETTINGS)
    tokenmill.prepare(b, listed, append=True, workers=1, compress="zstd:1", dedup="none")
    shutil.copytree(listed, tables)
    replace(Manifest.load(tables), has_tables=True).write(tables)
    return listed, tables


@pytest.fixture
def tables(both, tmp_path):
    """A copy with tables that may be damaged."""
    return shutil.copytree(both[1], tmp_path / "tables")


def made_of_tables(folder):
    tree = json.loads((folder / "dataset_metadata.json").read_bytes())
    splits = tree["splits"].values()
    assert tree["format_version"] == 3
    return all("folder" in part for split in splits for part in split["shards"])


def test_the_dataset_is_the_same(both, tmp_path):
    listed, tables = (Manifest.load(folder) for folder in both)

    assert made_of_tables(both[1])
    assert listed == tables
    assert listed.files() == tables.files()
    assert listed.is_packed
    assert tables.is_packed
    assert list(block_hashes.find_places(listed)) == list(block_hashes.find_places(tables))
    assert tables.to_bytes() == (both[1] / "dataset_metadata.json").read_bytes()
    assert replace(tables, has_tables=False).to_bytes() == listed.to_bytes()


@pytest.mark.parametrize("split", ["train", "val", "all"])
def test_tokens_documents_and_states_are_the_same(both, tmp_path, split):
    listed, tables = (tokenmill.open(f, split, cache_dir=tmp_path) for f in both)

    np.testing.assert_array_equal(listed, tables)
    assert list(listed.shards) == list(tables.shards)
    assert listed.fingerprint == tables.fingerprint
    assert listed.num_documents == tables.num_documents
    assert listed.details == tables.details
    assert [f.part(1, 2) for f in listed.files] == [
        replace(f.part(1, 2), path=f.path.replace("/tables/", "/listed/"), ends=mine.ends)
        for f, mine in zip(tables.files, listed.files, strict=True)
    ]
    np.testing.assert_array_equal(listed.document_ends(0, 900), tables.document_ends(0, 900))
    np.testing.assert_array_equal(listed.part(300, 2100), tables.part(300, 2100))
    loaders = [
        tokenmill.BatchLoader(data, batch_size=4, block_size=16) for data in (listed, tables)
    ]
    for _ in range(5):
        ours, theirs = map(next, loaders)
        np.testing.assert_array_equal(ours.inputs, theirs.inputs)
    assert loaders[0].state_dict() == loaders[1].state_dict()


def test_a_dataset_travels_to_another_process_by_its_columns(both, tmp_path):
    data = tokenmill.open(both[1], cache_dir=tmp_path)
    tokens = data[:]

    np.testing.assert_array_equal(pickle.loads(pickle.dumps(data))[:], tokens)


def test_commands_look_at_it_as_at_any_other(both):
    listed, tables = both

    assert verify(tables, full=True) == []
    theirs = {**inspect(listed), "path": None}
    assert {**inspect(tables), "path": None} == theirs


@pytest.mark.parametrize("suffix", [".bin", ".ends", ".bin.zst", ".ends.zst"])
def test_a_missing_file_is_refused_at_opening(tables, suffix, tmp_path):
    path = next(path for path in sorted(tables.rglob(f"*{suffix}")))
    path.unlink()

    with pytest.raises(NotADatasetError, match=f"there is no file {path}"):
        tokenmill.open(tables, "all", cache_dir=tmp_path)


def test_a_file_of_another_size_is_refused_when_it_is_touched(tables, tmp_path):
    data = tokenmill.open(tables, cache_dir=tmp_path)
    name = data.shards[3].file
    os.truncate(tables / name, 998)
    data = tokenmill.open(tables, cache_dir=tmp_path)

    assert len(data[0:1500]) == 1500
    with pytest.raises(TruncatedShardError, match=f"{name} is 998 bytes"):
        data[0:2000]


def test_a_link_out_of_the_dataset_is_refused_when_it_is_touched(tables, tmp_path):
    name = tokenmill.open(tables, cache_dir=tmp_path).shards[3].file
    shutil.move(tables / name, tmp_path / "elsewhere.bin")
    (tables / name).symlink_to(tmp_path / "elsewhere.bin")
    data = tokenmill.open(tables, cache_dir=tmp_path)

    with pytest.raises(FormatError, match="a link out of"):
        data[0:2000]


def test_damage_is_found_by_verify_and_by_verifying_readers(tables, tmp_path):
    name = tokenmill.open(tables, cache_dir=tmp_path).shards[2].file
    data = bytearray((tables / name).read_bytes())
    data[7] ^= 1
    (tables / name).write_bytes(data)

    assert [finding.file for finding in verify(tables, full=True)] == [name]
    with pytest.raises(CorruptShardError, match="has the hash"):
        tokenmill.open(tables, verify=True, cache_dir=tmp_path)[0:2000]


@pytest.mark.parametrize("dedup", ["lines", "documents"])
def test_adding_to_tables_writes_tables_while_there_are_many(both, tmp_path, monkeypatch, dedup):
    new = write_corpus(tmp_path / "new", seed=2, documents=8)[0]
    results = []
    for most_listed, before in ((10_000, both[0]), (5, both[1]), (10_000, both[1])):
        monkeypatch.setattr(manifest_module, "MOST_LISTED", most_listed)
        out = shutil.copytree(before, tmp_path / f"out-{len(results)}")
        tokenmill.prepare(new, out, append=True, workers=1, dedup=dedup)
        assert verify(out, full=True) == []
        results.append(Manifest.load(out))

    assert made_of_tables(tmp_path / "out-1")
    assert [result.has_tables for result in results] == [False, True, False]
    assert results[0] == results[1] == results[2]


def test_a_new_dataset_has_tables_where_it_has_many_shards(tmp_path, monkeypatch):
    corpus = write_corpus(tmp_path / "corpus", documents=6)
    tokenmill.prepare(corpus, tmp_path / "listed", **SETTINGS)
    monkeypatch.setattr(manifest_module, "MOST_LISTED", 5)
    tokenmill.prepare(corpus, tmp_path / "tables", **SETTINGS)

    assert made_of_tables(tmp_path / "tables")
    assert Manifest.load(tmp_path / "tables") == Manifest.load(tmp_path / "listed")
    tokenmill.convert(tmp_path / "tables", tmp_path / "packed", compress="zstd")
    assert made_of_tables(tmp_path / "packed")
    theirs = tokenmill.open(tmp_path / "packed", cache_dir=tmp_path / "cache")
    np.testing.assert_array_equal(theirs, tokenmill.open(tmp_path / "listed"))


HEX = st.binary(min_size=16, max_size=16).map(bytes.hex)
SIZES = st.integers(0, 2**63 - 1)


@st.composite
def entries(draw, folder):
    number, tokens = draw(st.integers(0, 10**12 - 1)), draw(st.integers(1, 10**6))
    documents, name = draw(st.integers(0, tokens)), f"{folder}/shard_{number:05d}"

    def packed(suffix):
        return FileEntry(f"{name}{suffix}.zst", draw(st.integers(1, 2**63 - 1)), draw(HEX))

    index = packed(".ends") if draw(st.booleans()) else None
    ends = EndsEntry(f"{name}.ends", documents, 8 * documents, draw(HEX), index)
    of = packed(".bin") if draw(st.booleans()) else None
    return ShardEntry(f"{name}.bin", tokens, 2 * tokens, draw(HEX), ends, of)


FOLDERS = st.sampled_from(["train", "val", "v-0123456789abcdef/train"])
SHARDS = st.lists(FOLDERS.flatmap(entries), min_size=1, max_size=8, unique_by=lambda s: s.file)


def manifest_of(shards):
    tokenizer = TokenizerEntry("t", 9, 8, "0" * 32, FileEntry("tokenizer_state.json", 1, "0" * 32))
    return Manifest("uint16", tokenizer, 10**6, {"train": SplitEntry.of(shards)}, has_tables=True)


@given(SHARDS)
@settings(max_examples=60, deadline=None)
def test_a_table_is_read_as_it_was_written(shards):
    manifest = manifest_of(tuple(shards))
    found = Manifest.parse(manifest.to_bytes())

    assert isinstance(found.splits["train"].shards, ShardTable)
    assert found == manifest
    assert found.files() == manifest.files()
    assert found.to_bytes() == manifest.to_bytes()
    assert found.splits["train"].shards[-1] == shards[-1]
    assert found.splits["train"].shards[:2] == tuple(shards[:2])


def test_other_names_are_listed():
    (shard,) = Manifest.parse(manifest_of(a_shard()).to_bytes()).splits["train"].shards
    for file in ("other.bin", "train/shard_000007.bin", "train/shard_1.bin"):
        ends = replace(shard.ends, file=file.replace(".bin", ".ends"))
        manifest = manifest_of((replace(shard, file=file, ends=ends),))

        assert Manifest.parse(manifest.to_bytes()) == manifest
        assert isinstance(Manifest.parse(manifest.to_bytes()).splits["train"].shards, tuple)


def a_shard(number=7, tokens=100):
    name = f"train/shard_{number:05d}"
    return (
        ShardEntry(
            f"{name}.bin", tokens, 2 * tokens, "1" * 32, EndsEntry(f"{name}.ends", 3, 24, "2" * 32)
        ),
    )


@pytest.fixture
def tree():
    """Without its own hash: two shards in one table."""
    return json.loads(manifest_of((*a_shard(7), *a_shard(8))).content())


def column(*numbers):
    return base64.b64encode(np.array(numbers, "<u8").tobytes()).decode()


PACKED = {"bytes": column(2**63, 1), "xxh3_128": base64.b64encode(bytes(32)).decode()}


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("count",), 3, r"shards\[0\]\.number is .* not 3 times 8 bytes"),
        (("count",), 0, "count is 0"),
        (("count",), 2**60, "times 8 bytes in base64"),
        (("number",), "a", "times 8 bytes in base64"),
        (("number",), column(7, 8)[:-2] + "!=", "times 8 bytes in base64"),
        (("number",), 7, "number is 7, not a text"),
        (("number",), column(7, 10**12), r"number\[1\] is 1000000000000"),
        (("number",), column(7, 7), "names the file 'train/shard_00007.bin' twice"),
        (("tokens",), column(200, 0), r"tokens\[1\] is 0, not at least 1"),
        (("tokens",), column(100, 2**64 - 1), r"tokens\[1\] is 18446744073709551615, not at most"),
        (("tokens",), column(100, 101), "tokens is 200, not 201, the sum of its shards"),
        (("ends", "documents"), column(3, 4), "documents is 6, not 7, the sum of its shards"),
        (("ends", "documents"), column(3, 101), r"ends\.documents\[1\] is 101, not at most one"),
        (("ends", "extra"), "", "ends.extra is not a known field"),
        (("extra",), "", "extra is not a known field"),
        (("folder",), "../train", "not a plain name"),
        (("folder",), 5, "not a plain name"),
        (("xxh3_128",), column(1, 2), "2 times 16 bytes in base64"),
        (("packed",), PACKED, r"packed\.bytes\[0\] is 9223372036854775808"),
    ],
)
def test_each_way_to_be_wrong_is_refused(tree, path, value, message):
    node = table = tree["splits"]["train"]["shards"][0]
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    assert table["folder"]

    with pytest.raises(FormatError, match=message):
        Manifest.parse(json.dumps(tree).encode())


def test_tables_need_their_version(tree):
    with pytest.raises(FormatError, match="format_version is 2, not 3"):
        Manifest.parse(json.dumps({**tree, "format_version": 2}).encode())


def test_a_file_that_is_in_a_table_and_elsewhere_is_refused(tree):
    part = tree["splits"]["train"]["shards"][0]
    for folder in ("train", "TRAIN"):
        again = copy.deepcopy(tree)
        again["splits"]["val"] = {
            **again["splits"]["train"],
            "shards": [{**part, "folder": folder}],
        }
        with pytest.raises(FormatError, match=r"shard_00007\.bin' twice"):
            Manifest.parse(json.dumps(again).encode())
    for name in ("train/shard_00008.ends", "Train/shard_00007.bin"):
        again = copy.deepcopy(tree)
        again["tokenizer"]["state"]["file"] = name
        with pytest.raises(FormatError, match=f"names the file '{name}' twice"):
            Manifest.parse(json.dumps(again).encode())


def test_sums_beyond_64_bits_are_exact():
    rows = np.zeros(4, shard_table.ROW)
    rows["tokens"] = 2**63 - 1

    assert ShardTable(["train"], rows, 2).sum("tokens") == 4 * (2**63 - 1)
