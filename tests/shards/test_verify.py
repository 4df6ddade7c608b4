"""Every kind of damage to a dataset is found and named; what is merely not ours is no damage."""

import dataclasses
import json

import flat
import numpy as np
import pytest
import xxhash

from tokenmill.errors import NotADatasetError
from tokenmill.shards.card import dataset_card
from tokenmill.shards.manifest import (
    EndsEntry,
    FileEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SplitEntry,
    TokenizerEntry,
)
from tokenmill.shards.verify import share_of, verify

END = 99
HEX = "0" * 32


def write_dataset(folder, documents=40, shard_tokens=50, seed=0):
    """A small sound dataset, written by hand from the specification."""
    random = np.random.default_rng(seed)
    texts = [
        np.append(random.integers(0, 99, random.integers(1, 12)), END) for _ in range(documents)
    ]
    axis, ends = np.concatenate(texts), np.cumsum([len(text) for text in texts])
    shards = []
    (folder / "train").mkdir(parents=True)
    for number, start in enumerate(range(0, len(axis), shard_tokens)):
        stop = min(start + shard_tokens, len(axis))
        inside = ends[(ends > start) & (ends <= stop)] - start
        shards.append(write_shard(folder, number, axis[start:stop], inside))
    state = json.dumps({"kind": "test", "fingerprint": HEX}).encode()
    (folder / "tokenizer_state.json").write_bytes(state)
    record = FileEntry("tokenizer_state.json", len(state), xxhash.xxh3_128_hexdigest(state))
    manifest = Manifest(
        dtype="uint16",
        tokenizer=TokenizerEntry("test", 100, END, HEX, record),
        tokens_per_shard=shard_tokens,
        splits={"train": SplitEntry.of(tuple(shards)), "val": SplitEntry.of(())},
        sources=(SourceEntry("corpus/a|b\n.txt", 123, documents),),
        settings={"dedup": "lines", "clean": True},
        accounts={"dropped": {"empty": 2}},
    )
    manifest.write(folder)
    return manifest


def write_shard(folder, number, ids, ends):
    name = f"train/shard_{number:05d}"
    data, index = ids.astype("<u2").tobytes(), ends.astype("<u8").tobytes()
    (folder / f"{name}.bin").write_bytes(data)
    (folder / f"{name}.ends").write_bytes(index)
    index_hash = xxhash.xxh3_128_hexdigest(index)
    return ShardEntry(
        f"{name}.bin",
        len(ids),
        len(data),
        xxhash.xxh3_128_hexdigest(data),
        EndsEntry(f"{name}.ends", len(ends), len(index), index_hash),
    )


def rewrite(folder, number, change):
    """Change ids and ends of a shard, with a manifest that vouches for the new bytes."""
    manifest = Manifest.load(folder)
    shards = list(manifest.splits["train"].shards)
    ids = np.fromfile(folder / shards[number].file, "<u2")
    ends = np.fromfile(folder / shards[number].ends.file, "<u8")
    shards[number] = write_shard(folder, number, *change(ids, ends))
    splits = {"train": SplitEntry.of(tuple(shards)), "val": SplitEntry.of(())}
    Manifest(manifest.dtype, manifest.tokenizer, manifest.tokens_per_shard, splits).write(folder)


@pytest.fixture
def folder(tmp_path):
    write_dataset(tmp_path / "data")
    return tmp_path / "data"


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", [{}, {"full": True}, {"subset": "100%"}, {"subset": "5%"}])
def test_a_sound_dataset_has_no_findings(folder, how):
    assert verify(folder, **how) == []


def test_a_folder_without_a_manifest_is_no_dataset(tmp_path):
    with pytest.raises(NotADatasetError):
        verify(tmp_path)


@pytest.mark.parametrize("name", ["train/shard_00001.bin", "train/shard_00001.ends"])
def test_a_file_that_is_gone_short_or_long_is_found_without_reading(folder, name):
    path = folder / name
    whole = path.read_bytes()

    path.write_bytes(whole[:-1])
    (short,) = verify(folder)
    path.write_bytes(whole + b"x")
    (long,) = verify(folder)
    path.unlink()
    (gone,) = verify(folder)

    assert (short.file, short.what, short.found) == (name, "size", f"{len(whole) - 1:,} bytes")
    assert (long.what, long.expected) == ("size", f"{len(whole):,} bytes")
    assert (gone.what, gone.found) == ("missing", "no such file")
    assert "fetch this file again" in str(gone)


@pytest.mark.parametrize("name", ["train/shard_00002.bin", "train/shard_00002.ends"])
def test_a_flipped_bit_is_found_by_a_full_check_only(folder, name):
    flip(folder / name, 5)

    assert verify(folder) == []
    (finding,) = verify(folder, full=True)
    assert (finding.file, finding.what) == (name, "hash")


def test_a_changed_tokenizer_is_found_at_once(folder):
    flip(folder / "tokenizer_state.json", 3)

    assert [f.what for f in verify(folder)] == ["hash"]


def drop_an_end(ids, ends):
    return ids, np.delete(ends, 1)


def swap_ends(ids, ends):
    return ids, ends[[1, 0, *range(2, len(ends))]]


def end_outside(ids, ends):
    return ids, np.append(ends[:-1], len(ids) + 1)


def end_at_zero(ids, ends):
    return ids, np.append(0, ends[1:])


def move_an_end(ids, ends):
    return np.where(np.arange(len(ids)) == ends[0] - 1, 5, ids), ends


def large_id(ids, ends):
    return np.append(np.uint16(100), ids[1:]), ends


@pytest.mark.parametrize(
    ("change", "what", "found"),
    [
        (drop_an_end, "index", "0 ends without an end-of-text id, 1 ids without an end"),
        (swap_ends, "index", "then"),
        (end_outside, "index", "51"),
        (end_at_zero, "index", "0"),
        (move_an_end, "index", "1 ends without an end-of-text id, 0 ids without an end"),
        (large_id, "ids", "id 100"),
    ],
)
def test_faults_that_have_right_hashes_are_found_as_well(folder, change, what, found):
    rewrite(folder, 1, change)

    (finding,) = verify(folder, full=True)

    assert (finding.what, found in finding.found) == (what, True)


def test_a_split_that_ends_inside_a_document_is_found(folder):
    last = len(Manifest.load(folder).splits["train"].shards) - 1
    rewrite(folder, last, lambda ids, ends: (ids[:-1], ends[:-1]))

    (finding,) = verify(folder, full=True)

    assert "where the split ends" in finding.expected


def test_a_document_may_be_cut_short_where_a_split_ends(folder):
    """As when the last tenth of one long text is held out for validation."""
    last = len(Manifest.load(folder).splits["train"].shards) - 1
    rewrite(folder, last, lambda ids, ends: (ids[:-1], np.append(ends[:-1], len(ids) - 1)))

    assert verify(folder, full=True) == []


def test_files_that_are_not_in_the_manifest_are_listed_but_are_no_error(folder):
    (folder / "notes.txt").touch()
    (folder / "README.md").touch()
    (folder / "train" / ".shard_00000.bin.12-ab.tmp").touch()
    (folder / ".preparation").mkdir()
    (folder / ".preparation" / "journal").touch()

    findings = verify(folder)

    names = [".preparation", "notes.txt", "train/.shard_00000.bin.12-ab.tmp"]
    assert [f.file for f in findings] == names
    assert not any(f.is_error for f in findings)


@pytest.mark.parametrize(("subset", "share"), [("100%", 1), ("50%", 0.5), ("0.5%", 0.005)])
def test_a_percentage_is_a_share(subset, share):
    assert share_of(subset) == share


def test_a_subset_is_the_same_part_every_time(tmp_path):
    write_dataset(tmp_path / "a", documents=200)
    read, again = [], []

    verify(tmp_path / "a", subset="20%", progress=lambda name, size: read.append(name))
    verify(tmp_path / "a", subset="20%", progress=lambda name, size: again.append(name))

    shards = len(Manifest.load(tmp_path / "a").splits["train"].shards)
    assert read == again
    assert len(read) == -(-shards * 20 // 100)


@pytest.mark.parametrize("subset", ["5", "0%", "101%", "x%", "nan%", "-1%"])
def test_a_subset_must_be_a_percentage(folder, subset):
    with pytest.raises(ValueError, match="percentage"):
        verify(folder, subset=subset)


class TestCard:
    """The README of a dataset."""

    def test_its_header_is_what_the_hub_takes(self, tmp_path):
        yaml = pytest.importorskip("yaml")
        card = dataset_card(write_dataset(tmp_path / "a"), "tokenmill prepare", name='a: "b"\n')

        _, header, body = card.split("---\n", 2)

        assert yaml.safe_load(header) == {
            "pretty_name": 'a: "b"\\x0a',
            "license": "unknown",
            "task_categories": ["text-generation"],
            "size_categories": ["n<1K"],
            "tags": ["tokenmill", "pretokenized"],
            "viewer": False,
        }
        assert body.startswith("\n# a: ")

    def test_it_lists_counts_sources_and_the_command(self, tmp_path):
        manifest = write_dataset(tmp_path / "a")

        card = dataset_card(manifest, "tokenmill prepare corpus -o data")

        tokens, shards = manifest.splits["train"].num_tokens, len(manifest.splits["train"].shards)
        assert f"| train | 40 | {tokens} | {shards} |" in card
        assert "| empty | 2 |" in card
        assert r"| corpus/a\|b\x0a.txt | 123 | 40 |" in card
        assert "```console\ntokenmill prepare corpus -o data\n```" in card
        assert HEX in card

    @pytest.mark.parametrize(
        ("documents", "size"),
        [
            (0, "n<1K"),
            (999, "n<1K"),
            (1000, "1K<n<10K"),
            (10**6 - 1, "100K<n<1M"),
            (10**6, "1M<n<10M"),
            (10**12 - 1, "100B<n<1T"),
            (10**12, "n>1T"),
            (10**15, "n>1T"),
        ],
    )
    def test_its_class_of_size_is_by_documents(self, tmp_path, documents, size):
        splits = {"train": SplitEntry(documents, documents, ())}
        manifest = dataclasses.replace(write_dataset(tmp_path / "a"), splits=splits)

        assert f"size_categories:\n- {size}\n" in dataset_card(manifest, "x")

    def test_its_numpy_line_reads_a_shard(self, tmp_path, monkeypatch):
        manifest = write_dataset(tmp_path / "a")
        monkeypatch.chdir(tmp_path / "a")
        (line,) = [n for n in dataset_card(manifest, "x").splitlines() if n.startswith("ids = ")]
        names = {"np": np}

        exec(line, names)

        expected = np.frombuffer((tmp_path / "a/train/shard_00000.bin").read_bytes(), "<u2")
        assert names["ids"].tolist() == expected.tolist()


@pytest.mark.parametrize(("dtype", "shown"), [("uint16", "<u2"), ("uint32", "<u4")])
def test_the_card_says_how_wide_ids_are(tmp_path, dtype, shown):
    (tmp_path / "a.txt").write_text("some words\n" * 50)
    flat.prepare(tmp_path / "a.txt", tmp_path / "out", tokenizer="bytes", dtype=dtype, workers=1)

    assert f'dtype="{shown}"' in (tmp_path / "out" / "README.md").read_text()
