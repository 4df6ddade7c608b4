"""convert(): nothing is lost on the way, and the real projects read what was written."""

import bz2
import inspect
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from backports import zstd
from click.testing import CliRunner
from formats.conformance import DATA, DOCUMENTS
from formats.our_files import write_ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from system_faults import RENAMES, injecting, needs_strace

import tokenmill
from tokenmill.cli import main
from tokenmill.conversion.conversion import Conversion
from tokenmill.conversion.convert import convert, new_folder
from tokenmill.dataset import TokenDataset
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    LockedError,
    TokenizerMismatchError,
    TokenmillError,
)
from tokenmill.formats.format import WRITABLE, format_to_write
from tokenmill.shards.verify import verify

WRITABLE = WRITABLE
SPLITS = {"train": DOCUMENTS[:12], "val": DOCUMENTS[12:]}
ONE_FILE = ("nanogpt", "npy", "megatron")
OPTIONS = {"dolma": {"dtype": "uint16"}, "npy": {"end_of_text": 50256}}


def small(to: str) -> dict:
    """Shards of 100 tokens, for formats that have shards."""
    return {} if to in ONE_FILE else {"tokens_per_shard": 100}


def documents_of(data: TokenDataset) -> list[list[int]]:
    ends = [0, *data.document_ends(0, data.num_tokens).tolist()]
    return [data.tokens(a, b).tolist() for a, b in itertools.pairwise(ends)]


@pytest.fixture
def ours(tmp_path) -> Path:
    return write_ours(tmp_path / "ours", SPLITS, 100)


@pytest.mark.parametrize("to", WRITABLE)
def test_there_and_back_gives_the_same_tokens_documents_and_bytes(tmp_path, ours, to):
    convert(ours, tmp_path / "there", to=to, **small(to))
    options = {**OPTIONS.get(to, {}), "tokenizer": "gpt2"}
    convert(tmp_path / "there", tmp_path / "back", to="ours", tokens_per_shard=100, **options)

    for split, documents in SPLITS.items():
        assert documents_of(tokenmill.open(tmp_path / "back", split)) == documents
    for path in sorted(ours.rglob("shard_*")):
        assert path.read_bytes() == (tmp_path / "back" / path.relative_to(ours)).read_bytes()
    assert verify(tmp_path / "back", full=True) == []


@pytest.mark.parametrize("to", ["mds", "litdata"])
def test_documents_of_every_size_of_a_length_come_back(tmp_path, to):
    lengths = [1, 255, 256, 511, 512, 65_535, 65_536]
    documents = [[*range(1, length), 50256] for length in lengths]
    documents[-2:] = [[7] * (length - 1) + [50256] for length in lengths[-2:]]
    folder = write_ours(tmp_path / "ours", {"train": documents}, 10_000_000)

    convert(folder, tmp_path / "there", to=to)

    copy = tokenmill.open(tmp_path / "there", end_of_text=50256)
    assert documents_of(copy) == documents


@pytest.mark.parametrize("to", WRITABLE)
def test_validation_sets_with_names_stay_splits_in_every_format(tmp_path, to):
    splits = {
        **{"train": DOCUMENTS[:10], "val": DOCUMENTS[10:12]},
        **{"val_z": DOCUMENTS[12:14], "val_code": DOCUMENTS[14:]},
    }
    folder = write_ours(tmp_path / "ours", splits, 100)
    convert(folder, tmp_path / "there", to=to, **small(to))
    options = {"end_of_text": 50256, **OPTIONS.get(to, {})}
    for split in ("val", "val_z", "val_code"):
        copy = tokenmill.open(tmp_path / "there", split, **options)
        tokens = [id for document in splits[split] for id in document]
        if to == "llmc":  # there the end-of-text id is before each document
            tokens = [50256, *tokens[:-1]]
        assert copy.tokens(0, copy.num_tokens).tolist() == tokens
    convert(tmp_path / "there", tmp_path / "back", to="ours", tokenizer="gpt2", **options)
    for split, documents in splits.items():
        assert documents_of(tokenmill.open(tmp_path / "back", split)) == documents


@pytest.mark.parametrize("to", WRITABLE)
@pytest.mark.parametrize(
    ("sample", "options"),
    [
        ("llmc", {}),
        ("nanogpt", {"dtype": "uint16", "end_of_text": 50256}),
        ("megatron_int32", {"end_of_text": 50256}),
        ("mds_columns", {"end_of_text": 50256}),
        ("litdata_tensor", {"end_of_text": 50256}),
        ("dolma", {"dtype": "uint16", "end_of_text": 50256}),
    ],
)
def test_any_format_becomes_any_other(tmp_path, sample, options, to):
    source = DATA / sample
    if sample == "llmc":  # its val shard ends inside a document; here it is all one
        source = shutil.copytree(source, tmp_path / "source")
        (source / "corpus_val_000000.bin").rename(source / "corpus_000000.bin")

    convert(source, tmp_path / "out", to=to, tokenizer="gpt2", **small(to), **options)

    how = {"end_of_text": 50256, **OPTIONS.get(to, {})}
    data = tokenmill.open(tmp_path / "out", "all", **how)
    expected = DOCUMENTS
    if to == "llmc":
        expected = [[50256, *document[:-1]] for document in DOCUMENTS]
    order = [*SPLITS["train"], *SPLITS["val"]]
    assert data.format == to
    assert documents_of(data) == (expected if sample != "nanogpt" or to == "llmc" else order)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    size=st.integers(1, 60),
    chunk=st.integers(1, 50),
    to=st.sampled_from([*WRITABLE]),
)
def test_no_size_of_shard_chunk_or_document_matters(tmp_path_factory, lengths, size, chunk, to):
    documents = [[*range(1, length + 1), 50256] for length in lengths]
    folder = tmp_path_factory.mktemp("sizes")
    write_ours(folder / "ours", {"train": documents}, 7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tokenmill.conversion.conversion.CHUNK", chunk)
        shards = {} if to in ONE_FILE else {"tokens_per_shard": size}
        convert(folder / "ours", folder / "there", to=to, **shards)

    data = tokenmill.open(folder / "there", "all", **OPTIONS.get(to, {"end_of_text": None}))
    turned = [[50256, *document[:-1]] for document in documents]
    assert documents_of(data) == (turned if to == "llmc" else documents)


@pytest.mark.parametrize("to", WRITABLE)
def test_a_tokenizer_that_is_named_says_where_documents_end(tmp_path, to):
    ids = [token for document in DOCUMENTS for token in document]
    np.save(tmp_path / "train.npy", np.array(ids, np.uint16))

    convert(tmp_path / "train.npy", tmp_path / "out", to=to, tokenizer="gpt2")

    options = {"dtype": "uint16"} if to == "dolma" else {}
    convert(tmp_path / "out", tmp_path / "back", to="ours", tokenizer="gpt2", **options)
    assert documents_of(tokenmill.open(tmp_path / "back", "all")) == DOCUMENTS


def test_splits_of_any_name_stay_apart(tmp_path):
    """A held-out split that is not called val must not become training data."""
    source = write_ours(tmp_path / "ours", {"train": DOCUMENTS[:9], "held": DOCUMENTS[9:]}, 100)

    convert(source, tmp_path / "out", to="ours")

    assert documents_of(tokenmill.open(tmp_path / "out", "train")) == DOCUMENTS[:9]
    manifest = json.loads((tmp_path / "out" / "dataset_metadata.json").read_text())
    assert {name: split["documents"] for name, split in manifest["splits"].items()} == {
        "train": 9,
        "held": 6,
    }


@pytest.mark.parametrize("to", sorted(set(WRITABLE) - set(ONE_FILE)))
def test_more_than_ten_shards_stay_in_order(tmp_path, to):
    """By name, part-10 would come before part-2."""
    documents = [[i, 50256] for i in range(1, 112)]
    write_ours(tmp_path / "ours", {"train": documents}, 50)

    convert(tmp_path / "ours", tmp_path / "out", to=to, tokens_per_shard=2)

    data = tokenmill.open(tmp_path / "out", "all", **OPTIONS.get(to, {}))
    assert len(data.shards) == 111
    ids = data.tokens(0, data.num_tokens)
    assert ids[ids != 50256].tolist() == list(range(1, 112))


class TestCompressedMds:
    def test_converting_unpacks_it(self, tmp_path):
        cache = tmp_path / "cache"
        convert(DATA / "mds_zstd", tmp_path / "out", to="mds", cache_dir=cache)

        assert documents_of(tokenmill.open(tmp_path / "out", "all")) == DOCUMENTS
        assert {path.name for path in tmp_path.iterdir()} == {"out", "cache"}

    @pytest.mark.parametrize("codec", ["br", "snappy"])
    def test_the_hint_for_another_compression_names_what_works(self, tmp_path, codec):
        folder = shutil.copytree(DATA / "mds_zstd", tmp_path / "a b")
        index = json.loads((folder / "index.json").read_text())
        for shard in index["shards"]:
            packed = folder / shard["zip_data"]["basename"]
            raw = zstd.decompress(packed.read_bytes())
            shard["compression"] = f"{codec}:9"
            shard["zip_data"]["basename"] = f"{shard['raw_data']['basename']}.{codec}"
            packed.rename(folder / shard["zip_data"]["basename"])
            (tmp_path / shard["raw_data"]["basename"]).write_bytes(raw)
        (folder / "index.json").write_text(json.dumps(index))

        for read in (tokenmill.open, lambda path: convert(path, tmp_path / "out", to="mds")):
            with pytest.raises(FormatError, match=codec) as caught:
                read(folder)
            assert "tokenmill convert" not in caught.value.hint
            assert f"brotli -dk '{folder}'/*.br" in caught.value.hint

        for raw in tmp_path.glob("*.mds"):  # as that command leaves them
            raw.rename(folder / raw.name)
        convert(folder, tmp_path / "out", to="mds")
        for path in (folder, tmp_path / "out"):
            assert documents_of(tokenmill.open(path, "all")) == DOCUMENTS

    def test_bzip2_is_unpacked(self, tmp_path):
        folder = shutil.copytree(DATA / "mds_zstd", tmp_path / "src")
        index = json.loads((folder / "index.json").read_text())
        for shard in index["shards"]:
            packed = folder / shard["zip_data"]["basename"]
            packed.write_bytes(bz2.compress(zstd.decompress(packed.read_bytes())))
            shard["compression"] = "bz2:9"
            shard["zip_data"]["bytes"] = packed.stat().st_size
        (folder / "index.json").write_text(json.dumps(index))

        convert(folder, tmp_path / "out", to="mds", cache_dir=tmp_path / "cache")

        assert documents_of(tokenmill.open(tmp_path / "out", "all")) == DOCUMENTS

    def test_what_is_damaged_in_the_cache_is_unpacked_again(self, tmp_path):
        assert documents_of(tokenmill.open(DATA / "mds_zstd", cache_dir=tmp_path)) == DOCUMENTS
        for path in tmp_path.glob("*.bin"):
            other = path.with_suffix(".other")
            other.write_bytes(bytes(path.stat().st_size))
            other.replace(path)  # writing to a mapped file may kill its reader

        assert documents_of(tokenmill.open(DATA / "mds_zstd", cache_dir=tmp_path)) == DOCUMENTS

    def test_it_opens_through_the_cache_and_is_the_unpacked_dataset(self, tmp_path):
        convert(DATA / "mds_zstd", tmp_path / "plain", to="mds", cache_dir=tmp_path / "cache")
        data = tokenmill.open(DATA / "mds_zstd", cache_dir=tmp_path / "cache")

        assert documents_of(data) == DOCUMENTS
        loader = tokenmill.BatchLoader(data, batch_size=2, block_size=8, documents=True)
        plain = tokenmill.BatchLoader(
            tokenmill.open(tmp_path / "plain"), batch_size=2, block_size=8, documents=True
        )
        for _ in range(20):
            assert np.array_equal(next(loader).tokens, next(plain).tokens)
        again = tokenmill.open(DATA / "mds_zstd", cache_dir=tmp_path / "cache")
        assert again.fingerprint == data.fingerprint
        shards = [path for path in (tmp_path / "cache").iterdir() if path.suffix == ".bin"]
        assert len(shards) == len(data.shards)

    @pytest.mark.parametrize("fault", ["bomb", "cut", "flip", "hash", "codec"])
    @pytest.mark.parametrize("command", ["convert", "open"])
    def test_what_does_not_unpack_to_what_the_index_says_is_refused(self, tmp_path, fault, command):
        folder = shutil.copytree(DATA / "mds_zstd", tmp_path / "src")
        index = json.loads((folder / "index.json").read_text())
        shard = index["shards"][0]
        packed = folder / shard["zip_data"]["basename"]
        if fault == "bomb":
            packed.write_bytes(zstd.compress(bytes(100_000_000)))
        if fault == "cut":
            packed.write_bytes(packed.read_bytes()[:1000])
        if fault == "flip":
            data = bytearray(packed.read_bytes())
            data[4:12] = bytes(8)
            packed.write_bytes(data)
        if fault == "hash":
            shard["raw_data"]["hashes"]["xxh3_128"] = "0" * 32
        if fault == "codec":
            shard["compression"] = "br:11"
        shard["zip_data"]["bytes"] = packed.stat().st_size
        (folder / "index.json").write_text(json.dumps(index))

        tasks = {
            "open": lambda: tokenmill.open(folder, cache_dir=folder / "cache"),
            "convert": lambda: convert(
                folder,
                tmp_path / "out",
                to="npy",
                allow_lost_documents=True,
                cache_dir=folder / "cache",
            ),
        }
        with pytest.raises(FormatError, match=r"shard\.00000\.mds"):
            tasks[command]()
        assert [path.name for path in tmp_path.iterdir()] == ["src"]


class TestRefusals:
    def test_ids_that_do_not_fit(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([1, 70000, 2], "<u4"))

        with pytest.raises(
            FormatError, match="token id 70000 at position 1 does not fit"
        ) as caught:
            convert(tmp_path / "x.npy", tmp_path / "out", to="nanogpt", to_dtype="uint16")
        assert "uint32" in caught.value.hint
        assert not (tmp_path / "out").exists()
        convert(tmp_path / "x.npy", tmp_path / "out", to="nanogpt")
        assert tokenmill.open(tmp_path / "out", "all").dtype == np.dtype("uint32")

    def test_negative_ids(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([1, -100, 2], "<i8"))

        with pytest.raises(FormatError, match="token id -100 at position 1"):
            convert(tmp_path / "x.npy", tmp_path / "out", to="npy", to_dtype="uint32")

    def test_ids_outside_the_vocabulary(self, tmp_path):
        np.save(tmp_path / "x.npy", np.array([1, 60000, 50256], "<u2"))

        with pytest.raises(TokenizerMismatchError, match="60000 at position 1 is outside"):
            convert(
                tmp_path / "x.npy",
                tmp_path / "out",
                to="ours",
                tokenizer="gpt2",
                end_of_text=50256,
            )

    @pytest.mark.parametrize("to", ["nanogpt", "npy", "llmc"])
    def test_documents_that_only_an_index_separates(self, tmp_path, to):
        with pytest.raises(FormatError, match=r"index|readers would not find") as caught:
            convert(DATA / "megatron", tmp_path / "out", to=to)
        assert "allow_lost_documents=True" in caught.value.hint
        convert(DATA / "megatron", tmp_path / "out", to=to, allow_lost_documents=True)
        data = tokenmill.open(tmp_path / "out", "all")
        flat = [token for document in DOCUMENTS for token in document]
        assert data.tokens(0, data.num_tokens).tolist() == flat

    @pytest.mark.parametrize("to", ["ours", "megatron", "datatrove", "dolma", "mds", "litdata"])
    def test_data_of_unknown_documents_to_a_format_of_documents(self, tmp_path, to):
        how = {"dtype": "uint16", "tokenizer": "bytes"}
        np.arange(200, dtype="<u2").tofile(tmp_path / "x.bin")

        with pytest.raises(FormatError, match="says where documents end") as caught:
            convert(tmp_path / "x.bin", tmp_path / "out", to=to, **how)
        assert "end_of_text=" in caught.value.hint

    def test_documents_without_an_end_of_text_id(self, tmp_path):
        data = json.loads((DATA / "documents.json").read_text())
        bare = [document[:-1] for document in data]
        source = self._megatron(tmp_path, bare)

        with pytest.raises(FormatError, match="ends at token 7 without") as caught:
            convert(source, tmp_path / "out", to="ours", tokenizer="gpt2")
        assert "add_end_of_text=True" in caught.value.hint
        convert(source, tmp_path / "out", to="ours", tokenizer="gpt2", add_end_of_text=True)
        assert documents_of(tokenmill.open(tmp_path / "out")) == DOCUMENTS

    def test_a_split_that_ends_inside_a_document(self, tmp_path):
        """As in a dataset whose documents are too few to be held out one by one."""
        splits = {"train": [[1, 2, 50256], [3, 4]], "val": [[5, 50256]]}
        source = write_ours(tmp_path / "ours", splits, 100)

        convert(source, tmp_path / "out", to="llmc", allow_lost_documents=True)

        data = tokenmill.open(tmp_path / "out", "train")
        assert data[0 : len(data)].tolist() == [50256, 1, 2, 50256, 3, 4]

    def test_documents_with_the_id_inside(self, tmp_path):
        source = self._megatron(tmp_path, [[1, 50256, 2, 50256], [3, 50256]])

        with pytest.raises(FormatError, match="inside, at token 1") as caught:
            convert(source, tmp_path / "out", to="ours", tokenizer="gpt2")
        assert "allow_lost_documents=True" in caught.value.hint
        convert(source, tmp_path / "out", to="ours", tokenizer="gpt2", allow_lost_documents=True)
        assert documents_of(tokenmill.open(tmp_path / "out")) == [
            [1, 50256],
            [2, 50256],
            [3, 50256],
        ]

    def test_empty_documents(self, tmp_path):
        source = self._megatron(tmp_path, [[], [1, 50256], [], [], [2, 50256], []])

        with pytest.raises(FormatError, match="4 empty documents"):
            convert(source, tmp_path / "out", to="datatrove")
        convert(source, tmp_path / "out", to="datatrove", allow_lost_documents=True)
        assert documents_of(tokenmill.open(tmp_path / "out", "all")) == [[1, 50256], [2, 50256]]

    def test_ours_without_a_tokenizer(self, tmp_path):
        with pytest.raises(TokenmillError, match="names its tokenizer") as caught:
            convert(DATA / "megatron", tmp_path / "out", to="ours")
        assert 'tokenizer="gpt2"' in caught.value.hint

    def test_what_exists_and_what_nobody_knows(self, tmp_path, ours):
        with pytest.raises(FormatError, match="exists already"):
            convert(ours, tmp_path, to="npy")
        with pytest.raises(ValueError, match="did you mean 'megatron'"):
            convert(ours, tmp_path / "out", to="megatorn")
        with pytest.raises(ValueError, match="megatron has no uint32"):
            convert(ours, tmp_path / "out", to="megatron", to_dtype="uint32")
        with pytest.raises(ValueError, match="llmc shards have 1 to 2,147,483,647"):
            convert(ours, tmp_path / "out", to="llmc", tokens_per_shard=2**31)
        with pytest.raises(ValueError, match="npy is one file a split"):
            convert(ours, tmp_path / "out", to="npy", tokens_per_shard=100)

    def _megatron(self, folder: Path, documents: list[list[int]]) -> Path:
        """A pair written here, by the specification."""
        lengths = np.array([len(document) for document in documents])
        flat = [token for document in documents for token in document]
        np.array(flat, "<u2").tofile(folder / "m.bin")
        with (folder / "m.idx").open("wb") as index:
            index.write(b"MMIDIDX\x00\x00" + np.array([1], "<u8").tobytes() + b"\x08")
            index.write(np.array([len(lengths), len(lengths) + 1], "<u8").tobytes())
            index.write(lengths.astype("<i4").tobytes())
            index.write(((np.cumsum(lengths) - lengths) * 2).astype("<i8").tobytes())
            index.write(np.arange(len(lengths) + 1, dtype="<i8").tobytes())
        return folder / "m.bin"


class TestWholeOrNotThere:
    @pytest.mark.parametrize("to", WRITABLE)
    def test_every_file_is_synced(self, tmp_path, ours, synced, to):
        convert(ours, tmp_path / "out", to=to)

        written = [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()]
        assert [name for name in written if not any(name in path for path in synced)] == []

    def test_a_failed_conversion_leaves_nothing(self, tmp_path, ours):
        (ours / "train" / "shard_00003.ends").write_bytes(bytes(8 * 2))

        with pytest.raises(TokenmillError):
            convert(ours, tmp_path / "out", to="megatron")

        assert sorted(path.name for path in tmp_path.iterdir()) == ["ours"]

    @needs_strace
    def test_a_copy_that_differs_is_not_put_in_place(self, tmp_path, ours):
        """The disk gives back other bytes than were written to it."""
        code = "import sys; from tokenmill.cli import main; main(sys.argv[1:])"
        # The first write is the lock. In the second, after the 128 bytes of the header, which is
        # written again when all is counted.
        damage = injecting(f"poke_enter=@arg2={'00' * 300}07:when=2", "write")
        command = [sys.executable, "-B", "-c", code, "convert", ours, tmp_path / "out"]

        done = subprocess.run([*damage, *command, "--to", "npy"], capture_output=True, text=True)

        assert done.returncode == CorruptShardError.exit_code
        assert "what was written for train is not what was read" in done.stderr
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ours"]

    @needs_strace
    def test_what_a_killed_conversion_left_is_removed_by_the_next(self, tmp_path, ours):
        command = [sys.executable, "-m", "tokenmill", "convert", ours, tmp_path / "out"]
        killed = injecting("signal=KILL:when=1", "fsync")

        done = subprocess.run([*killed, *command, "--to", "npy"], capture_output=True)

        assert done.returncode != 0
        assert sorted(path.name for path in tmp_path.iterdir()) == [".out.convert", "ours"]
        convert(ours, tmp_path / "out", to="megatron")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "out"]

    @needs_strace
    def test_a_dataset_is_never_lost_between_two_renames(self, tmp_path, ours):
        """Killed when the old one was moved aside and the new one not yet in its place."""
        out = tmp_path / "out"
        convert(ours, out, to="nanogpt", to_dtype="uint32")
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        command = [sys.executable, "-m", "tokenmill", "convert", ours, out, "--overwrite"]
        killed = injecting("signal=KILL:when=2", RENAMES)

        subprocess.run([*killed, *command, "--to", "npy"], capture_output=True)

        assert not out.exists()
        with pytest.raises(FormatError, match="exists already"):
            convert(ours, out, to="npy")
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "out"]

    def test_two_conversions_to_one_target_do_not_meet(self, tmp_path, ours):
        with new_folder(tmp_path / "out"), pytest.raises(LockedError, match="out is being"):
            convert(ours, tmp_path / "out", to="npy")

        convert(ours, tmp_path / "out", to="npy", overwrite=True)

    def test_an_error_of_the_disk_is_the_only_thing_that_is_said(self, tmp_path, ours):
        """No file may grow: what a writer still holds cannot be written when it is closed."""
        code = (
            "import resource, sys, tokenmill\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))\n"
            "for to in sys.argv[2:]:\n"
            "    try:\n"
            "        tokenmill.convert(sys.argv[1], to, to=to)\n"
            "    except OSError as error:\n"
            "        print(to, error.strerror)\n"
        )

        done = subprocess.run(
            [sys.executable, "-c", code, str(ours), *WRITABLE],
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )

        assert done.stderr == ""
        assert done.stdout.splitlines() == [f"{to} File too large" for to in WRITABLE]
        assert [path.name for path in tmp_path.iterdir()] == ["ours"]

    def test_overwriting_replaces_the_whole_folder(self, tmp_path, ours):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "old.bin").write_bytes(b"old")

        convert(ours, tmp_path / "out", to="npy", overwrite=True)

        assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "out"]
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
            "train.npy",
            "val.npy",
        ]

    @pytest.mark.parametrize("to", WRITABLE)
    def test_equal_data_gives_equal_bytes(self, tmp_path, ours, to):
        for name in ("a", "b"):
            convert(ours, tmp_path / name, to=to)

        files = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
        for file in files:
            if (tmp_path / "a" / file).is_file():
                assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


RIVALS = Path(os.environ.get("TOKENMILL_RIVALS", "/nowhere"))


def read_by(project: str, *args: object):
    """What the project's own reader says."""
    python = RIVALS / project / "bin" / "python"
    if not python.exists():
        pytest.skip(f"no {python}: TOKENMILL_RIVALS names the folder of the projects' environments")
    script = Path(__file__).parents[1] / "formats" / "readers" / f"read_{project}.py"
    done = subprocess.run(
        [python, script, *map(str, args)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


class TestTheProjectsReadIt:
    """Their own readers, in their own environments, give the documents that went in."""

    def test_megatron_core(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="megatron")

        assert read_by("megatron", tmp_path / "out" / "train") == SPLITS["train"]
        assert read_by("megatron", tmp_path / "out" / "val") == SPLITS["val"]

    def test_datatrove(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="datatrove", tokens_per_shard=100)
        convert(ours, tmp_path / "wide", to="datatrove", to_dtype="uint32")

        assert read_by("datatrove", tmp_path / "out" / "train") == SPLITS["train"]
        assert read_by("datatrove", tmp_path / "wide" / "train") == SPLITS["train"]

    def test_dolma(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="dolma", tokens_per_shard=100)

        assert read_by("dolma", tmp_path / "out" / "train", "uint16") == SPLITS["train"]

    def test_litdata(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="litdata", tokens_per_shard=300)

        flat = [token for document in SPLITS["train"] for token in document]
        assert read_by("litdata", tmp_path / "out" / "train") == flat

    def test_mosaic_streaming(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="mds", tokens_per_shard=300)
        convert(ours, tmp_path / "wide", to="mds", to_dtype="int32")

        assert read_by("mosaic", tmp_path / "out" / "train") == SPLITS["train"]
        assert read_by("mosaic", tmp_path / "wide" / "val") == SPLITS["val"]

    def test_numpy(self, tmp_path, ours):
        convert(ours, tmp_path / "out", to="npy")

        array = np.load(tmp_path / "out" / "train.npy", allow_pickle=False)
        assert array.dtype == np.uint16
        assert array.tolist() == [token for document in SPLITS["train"] for token in document]

    def test_llmc_by_the_checks_of_its_loader(self, tmp_path, ours):
        """What dataloader.h asserts: magic, version, a token, and the exact size."""
        convert(ours, tmp_path / "out", to="llmc", tokens_per_shard=100)

        paths = sorted((tmp_path / "out").glob("corpus_train_*.bin"))
        assert len(paths) == 7
        stream = []
        for path in paths:
            header = np.fromfile(path, "<i4", 256)
            assert header[:2].tolist() == [20240520, 1]
            assert not header[3:].any()
            assert path.stat().st_size == 1024 + 2 * header[2]
            stream += np.fromfile(path, "<u2", offset=1024).tolist()
        assert stream == [t for document in SPLITS["train"] for t in [50256, *document[:-1]]]


@pytest.mark.parametrize(
    ("num_tokens", "size"),
    [(10**11, 10**7), (10**11 + 1, 2 * 10**7), (2 * 10**11 + 1, 4 * 10**7)],
)
def test_shards_of_large_data_are_larger_so_that_there_are_at_most_10_000(
    tmp_path, num_tokens, size
):
    (tmp_path / "train.bin").touch()
    os.truncate(tmp_path / "train.bin", 2 * num_tokens)  # a hole: no disk is used
    data = tokenmill.open(tmp_path / "train.bin", "all", dtype="uint16", tokenizer="gpt2")

    asked = Conversion(data, format_to_write("tokenmill"), None, None, False, False, None)

    assert asked.tokens_per_shard == size


def test_the_command_says_what_it_wrote(tmp_path, ours, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["convert", str(ours), str(tmp_path / "out"), "--to", "megatron"])

    assert stopped.value.code == 0
    assert "621 tokens in 1 file, uint16" in capsys.readouterr().err
    assert tokenmill.open(tmp_path / "out").num_documents == 12
    with pytest.raises(SystemExit) as stopped:
        main(["convert", str(ours), str(tmp_path / "out"), "--to", "megatron"])
    assert stopped.value.code == 12
    assert "--overwrite" in capsys.readouterr().err


def test_the_command_explains_itself():
    from tokenmill.cli.convert import convert as command

    text = CliRunner().invoke(command, ["--help"]).output

    for name in WRITABLE:
        assert name in text


def test_only_token_files_are_replaced(tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(1000, dtype=np.uint16))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("months of work")

    with pytest.raises(FormatError, match=r"holds notes\.txt, which is no file of tokens"):
        convert(tmp_path / "ids.npy", tmp_path / "out", to="llmc", overwrite=True)
    with pytest.raises(FormatError, match=r"ids\.npy is read from there"):
        convert(tmp_path / "ids.npy", tmp_path, to="llmc", overwrite=True)

    assert (tmp_path / "out" / "notes.txt").read_text() == "months of work"
    assert (tmp_path / "ids.npy").exists()


def test_help_shows_every_argument_and_a_mistyped_one_is_named(tmp_path):
    shown = inspect.signature(convert).parameters
    how_to_open = set(inspect.signature(tokenmill.open).parameters) - {"path", "split"}

    assert {"to", "tokens_per_shard", *how_to_open} <= set(shown)
    assert all(p.kind is not p.VAR_KEYWORD for p in shown.values())
    with pytest.raises(TypeError, match="did you mean 'tokenizer'"):
        convert(DATA / "megatron", tmp_path / "out", to="npy", tokeniser="gpt2")


def test_a_document_that_the_end_of_the_data_cuts_is_one(tmp_path):
    ids = np.array([5, 6, 50256, 7, 8], "<u2")
    ids.tofile(tmp_path / "a.bin")

    convert(tmp_path / "a.bin", tmp_path / "out", to="megatron", dtype="uint16", end_of_text=50256)

    copy = tokenmill.open(tmp_path / "out", "all", end_of_text=50256)
    assert documents_of(copy) == [[5, 6, 50256], [7, 8]]
