"""The one writer of shards: the bytes asked for, the entry that fits them, whole files or none."""

import hashlib

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.errors import CorruptShardError
from tokenmill.shards import writer as writer_module
from tokenmill.shards.card import write_tokenizer_and_card
from tokenmill.shards.manifest import (
    EndsEntry,
    Manifest,
    ShardEntry,
    SourceEntry,
    SplitEntry,
    TokenizerEntry,
)
from tokenmill.shards.verify import verify
from tokenmill.shards.writer import ShardWriter

UINT16 = np.dtype("uint16")


class NamedTokenizer:
    name, vocab_size, end_of_text_id, fingerprint = "letters", 300, 0, "ab" * 16


STATE = b'{"fingerprint": "' + b"ab" * 16 + b'"}'


def write_shard(folder, ids, ends, *, file="train/shard_00000.bin", dtype=UINT16, **options):
    with ShardWriter(folder, file, dtype, **options) as shard:
        shard.write(np.asarray(ids))
        return shard.finish(np.asarray(ends, np.int64))


def write_half(folder, ids):
    with ShardWriter(folder, "train/shard_00000.bin", UINT16) as shard:
        shard.write(np.array(ids))
        raise ZeroDivisionError


def files_in(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_files_hold_just_the_ids_and_the_ends(tmp_path):
    write_shard(tmp_path, [7, 0, 65535, 0], [2, 4])

    assert (tmp_path / "train/shard_00000.bin").read_bytes() == b"\x07\0\0\0\xff\xff\0\0"
    ends = (2).to_bytes(8, "little") + (4).to_bytes(8, "little")
    assert (tmp_path / "train/shard_00000.ends").read_bytes() == ends
    assert files_in(tmp_path) == ["train/shard_00000.bin", "train/shard_00000.ends"]


def test_the_entry_counts_and_hashes_what_is_on_disk(tmp_path):
    entry = write_shard(tmp_path, [7, 0, 65535, 0], [2, 4], dtype=np.dtype("uint32"))

    ids = (tmp_path / entry.file).read_bytes()
    ends = (tmp_path / entry.ends.file).read_bytes()
    assert entry == ShardEntry(
        "train/shard_00000.bin",
        4,
        16,
        xxhash.xxh3_128_hexdigest(ids),
        EndsEntry("train/shard_00000.ends", 2, 16, xxhash.xxh3_128_hexdigest(ends)),
    )


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("dtype", ["<u2", ">u2", "uint32"])
def test_ids_are_little_endian_whatever_the_dtype_says(tmp_path, dtype, durable):
    ids = np.arange(1, 300)

    write_shard(tmp_path, ids, [299], dtype=np.dtype(dtype), durable=durable)

    stored = np.fromfile(tmp_path / "train/shard_00000.bin", f"<u{np.dtype(dtype).itemsize}")
    np.testing.assert_array_equal(stored, ids)


@given(pieces=st.lists(st.lists(st.integers(0, 65535), max_size=9), max_size=9))
def test_how_the_ids_are_cut_into_writes_does_not_matter(tmp_path_factory, pieces):
    folder = tmp_path_factory.mktemp("pieces")
    whole = np.array([number for piece in pieces for number in piece], np.uint16)
    with ShardWriter(folder, "train/shard_00001.bin", UINT16) as shard:
        for piece in pieces:
            shard.write(np.array(piece, np.uint16))
        assert shard.num_tokens == len(whole)
        entry = shard.finish(np.array([len(whole)]))

    assert entry.xxh3_128 == xxhash.xxh3_128_hexdigest(whole.tobytes())
    assert (folder / entry.file).read_bytes() == whole.tobytes()


def test_a_slice_with_steps_is_written_as_numpy_reads_it(tmp_path):
    ids = np.arange(20, dtype=np.uint16)

    write_shard(tmp_path, ids[::-3], [7])

    np.testing.assert_array_equal(
        np.fromfile(tmp_path / "train/shard_00000.bin", "<u2"), [19, 16, 13, 10, 7, 4, 1]
    )


def test_no_file_has_its_name_before_the_shard_is_whole(tmp_path):
    with ShardWriter(tmp_path, "train/shard_00000.bin", UINT16) as shard:
        shard.write(np.array([1, 2]))

        assert not (tmp_path / "train/shard_00000.bin").exists()
        shard.finish(np.array([2]))
        assert (tmp_path / "train/shard_00000.bin").exists()


def test_an_error_on_the_way_leaves_no_file(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_half(tmp_path, [1, 2])

    assert files_in(tmp_path) == []


def test_an_unfinished_shard_replaces_nothing(tmp_path):
    write_shard(tmp_path, [1, 2], [2])
    before = (tmp_path / "train/shard_00000.bin").read_bytes()

    with pytest.raises(ZeroDivisionError):
        write_half(tmp_path, [3, 4])

    assert (tmp_path / "train/shard_00000.bin").read_bytes() == before


@pytest.mark.parametrize("damaged", ["train/shard_00000.bin", "train/shard_00000.ends"])
def test_a_disk_that_gives_back_other_bytes_is_reported(tmp_path, monkeypatch, damaged):
    honest = writer_module.hash_file

    def hash_after_damage(path):
        if path == tmp_path / damaged:
            data = bytearray(path.read_bytes())
            data[0] ^= 1
            path.write_bytes(data)
        return honest(path)

    monkeypatch.setattr(writer_module, "hash_file", hash_after_damage)

    with pytest.raises(CorruptShardError, match="but reads back as") as caught:
        write_shard(tmp_path, [1, 2], [2])
    assert str(tmp_path / damaged) in str(caught.value)
    assert "failing" in caught.value.hint


def test_an_entry_comes_back_from_json(tmp_path):
    entry = write_shard(tmp_path, [1, 0], [2])
    manifest = Manifest(
        tokenizer=TokenizerEntry.of(NamedTokenizer(), STATE),
        dtype="uint16",
        tokens_per_shard=2,
        splits={"train": SplitEntry.of((entry,))},
    )

    assert Manifest.parse(manifest.to_bytes()).splits["train"].shards == (entry,)


def make_dataset(folder):
    entries = [
        write_shard(folder, [5, 0, 6], [2], file="train/shard_00000.bin"),
        write_shard(folder, [7, 0], [2], file="train/shard_00001.bin"),
    ]
    manifest = Manifest(
        tokenizer=TokenizerEntry.of(NamedTokenizer(), STATE),
        dtype="uint16",
        tokens_per_shard=3,
        splits={"train": SplitEntry.of(tuple(entries))},
        sources=(SourceEntry("a.txt", 9, 2),),
        settings={"tokenizer": "letters"},
        accounts={"documents_in": 2},
    )
    write_tokenizer_and_card(folder, manifest, STATE, "tokenmill prepare a.txt -o OUT")
    return manifest


def test_a_folder_is_a_dataset_once_the_manifest_is_written(tmp_path):
    manifest = make_dataset(tmp_path)
    assert "dataset_metadata.json" not in files_in(tmp_path)

    manifest.write(tmp_path)

    assert verify(tmp_path, full=True) == []
    assert Manifest.load(tmp_path) == manifest
    assert manifest.splits["train"].num_tokens == 5
    assert manifest.splits["train"].num_documents == 2


def test_the_manifest_describes_the_stored_tokenizer(tmp_path):
    record = make_dataset(tmp_path).tokenizer

    assert (tmp_path / record.state.file).read_bytes() == STATE
    assert (record.name, record.vocab_size, record.end_of_text_id) == ("letters", 300, 0)
    assert record.state.num_bytes == len(STATE)
    assert record.state.xxh3_128 == xxhash.xxh3_128_hexdigest(STATE)


def test_the_card_has_the_command(tmp_path):
    make_dataset(tmp_path)

    assert "tokenmill prepare a.txt -o OUT" in (tmp_path / "README.md").read_text()


def test_the_bytes_of_a_dataset_are_frozen(tmp_path):
    """Golden: the files of one small dataset."""
    make_dataset(tmp_path).write(tmp_path)

    digest = hashlib.sha256()
    for name in files_in(tmp_path):
        data = (tmp_path / name).read_bytes()
        digest.update(name.encode() + data)
    assert digest.hexdigest() == "b691ae1f74a99919b5ea757aeb1a186d43c97b35973c77fb9fab9b3f47989077"
