"""Opening a dataset never runs code from it, and never reads outside its folder."""

import json
import os
import pickle
import shutil
import struct

import numpy as np
import pytest
from formats.conformance import DATA, DOCUMENTS
from formats.our_files import write_ours
from manifests import write_index

import tokenmill
from tokenmill.errors import FormatError


class Payload:
    """A pickle of this creates a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def trap(tmp_path):
    """A pickle, and a check after the test that nobody has read it."""
    mark = tmp_path / "code-was-run"
    yield Payload(mark)
    assert not mark.exists()


def test_an_npy_of_objects_is_refused_unread(tmp_path, trap):
    np.save(tmp_path / "tokens.npy", np.array([trap, 1], dtype=object), allow_pickle=True)

    with pytest.raises(FormatError, match="Python objects"):
        tokenmill.open(tmp_path / "tokens.npy")


def test_a_meta_pkl_beside_nanogpt_files_is_not_read(tmp_path, trap):
    np.arange(100, dtype="<u2").tofile(tmp_path / "train.bin")
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps(trap))

    with pytest.raises(FormatError, match="token type is unknown") as caught:
        tokenmill.open(tmp_path / "train.bin")
    assert "meta.pkl is a pickle and is never read" in caught.value.hint
    assert tokenmill.open(tmp_path / "train.bin", "all", dtype="uint16").num_tokens == 100


def test_the_pickled_index_of_a_pbin_is_not_read(tmp_path, trap):
    tokens = np.arange(10, dtype="<u2").tobytes()
    data = struct.pack("<QI", len(tokens), 2) + tokens + pickle.dumps(trap)
    (tmp_path / "x.pbin").write_bytes(data)

    assert tokenmill.open(tmp_path / "x.pbin", "all").tokens(0, 10).tolist() == list(range(10))


def test_a_pickled_mds_column_is_refused(tmp_path, trap):
    folder = shutil.copytree(DATA / "mds_pkl", tmp_path / "mds")

    with pytest.raises(FormatError, match="'pkl'") as caught:
        tokenmill.open(folder)
    assert "run code" in caught.value.hint


def test_pickled_litdata_is_refused(tmp_path):
    folder = shutil.copytree(DATA / "litdata", tmp_path / "litdata")
    index = json.loads((folder / "index.json").read_text())
    index["config"]["data_format"] = ["pickle"]
    (folder / "index.json").write_text(json.dumps(index))

    with pytest.raises(FormatError, match="pickle") as caught:
        tokenmill.open(folder)
    assert "run code" in caught.value.hint


BAD_NAMES = [
    "../secret.bin",
    "a/../../secret.bin",
    "..",
    ".",
    "",
    "/etc/passwd",
    "//etc/passwd",
    "a//b",
    "a/",
    "/",
    "./shard.bin",
    "C:\\secret.bin",
    "C:secret.bin",
    "a\\..\\b",
    "\\\\host\\share",
    "file:///etc/passwd",
    "http://169.254.169.254/x",
    "shard\x00.bin",
    "shard\n.bin",
    "~/secret.bin",
    "$HOME/secret.bin",
    "%2e%2e/secret.bin",
    "sh*rd.bin",
    "sh ard.bin",
    "\u2025/secret.bin",
    "..\u200b/secret.bin",
    "a" * 300,
    "/".join(["a"] * 600),
    None,
    7,
    ["shard.bin"],
    {"a": 1},
]


def rename(tree, *keys):
    def change(folder, name):
        index = folder / tree
        whole = entry = json.loads(index.read_text())
        for key in keys[:-1]:
            entry = entry[key]
        entry[keys[-1]] = name
        write_index(index, whole)

    return change


INDEXES = {
    "ours": rename("dataset_metadata.json", "splits", "train", "shards", 0, "file"),
    "ours ends": rename("dataset_metadata.json", "splits", "train", "shards", 0, "ends", "file"),
    "ours tokenizer": rename("dataset_metadata.json", "tokenizer", "state", "file"),
    "mds": rename("index.json", "shards", 1, "raw_data", "basename"),
    "litdata": rename("index.json", "chunks", 1, "filename"),
}


def build(kind, folder):
    if kind.startswith("ours"):
        return write_ours(folder, {"train": DOCUMENTS}, 100)
    return shutil.copytree(DATA / kind, folder)


@pytest.mark.parametrize("kind", INDEXES)
def test_a_name_that_leaves_the_dataset_is_refused(tmp_path, kind):
    (tmp_path / "secret.bin").write_bytes(b"secret")
    folder = build(kind, tmp_path / "data")
    for name in BAD_NAMES:
        INDEXES[kind](folder, name)

        with pytest.raises(FormatError) as caught:
            tokenmill.open(folder, "all")
        assert "not a plain name inside the dataset" in caught.value.message, name


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("ours", "train/shard_00000.bin"),
        ("ours", "train/shard_00000.ends"),
        ("ours", "train"),
        ("mds", "shard.00001.mds"),
        ("litdata", "chunk-0-1.bin"),
    ],
)
def test_a_link_out_of_the_dataset_is_refused(tmp_path, kind, file):
    folder = build(kind, tmp_path / "data")
    shutil.move(folder / file, tmp_path / "outside")
    (folder / file).symlink_to(tmp_path / "outside")

    with pytest.raises(FormatError, match="link out of"):
        tokenmill.open(folder, "all")


def test_a_link_to_the_dataset_and_links_inside_it_are_followed(tmp_path):
    folder = build("ours", tmp_path / "data")
    shutil.move(folder / "train/shard_00000.bin", folder / "elsewhere")
    (folder / "train/shard_00000.bin").symlink_to("../elsewhere")
    (tmp_path / "link").symlink_to(folder)

    assert tokenmill.open(tmp_path / "link", "all").tokens(0, 8).tolist() == DOCUMENTS[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"shards": NaN}',
        '{"shards": [], "shards": []}',
        '{"shards": ' + "[" * 100_000,
        '{"shards": "\\ud800", "version": 2}',
        '{"version": 2, "shards": [1]}',
        '{"version": 2, "shards": [{}]}',
        '{"version": 2, "shards": []}',
        '{"chunks": [], "config": {}}',
        '{"chunks": {}, "config": {"data_format": ["no_header_numpy:5"]}}',
        "\x00" * 100,
    ],
    ids=range(13),
)
def test_an_index_that_is_not_the_json_it_should_be_is_refused(tmp_path, text):
    (tmp_path / "index.json").write_text(text)

    with pytest.raises(FormatError):
        tokenmill.open(tmp_path, "all")


def test_a_huge_index_is_refused_unread(tmp_path):
    with (tmp_path / "index.json").open("wb") as file:
        file.truncate(1 << 40)

    with pytest.raises(FormatError, match="1,099,511,627,776 bytes"):
        tokenmill.open(tmp_path, "all")


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (4611686018427387904,), }",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (-1,), }",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2, 2), }",
        b"{'descr': '<u2', 'fortran_order': True, 'shape': (2, 4), }",
        b"{'descr': '<u2', 'fortran_order': False, 'shape': 8, }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
        b"{'descr': '>u2', 'fortran_order': False, 'shape': (8,), }",
        b"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (8,), }",
        b"{'descr': '<u2', 'shape': (8,), }",
        b"__import__('os').mkdir('code-was-run')",
        b"(" * 5000,
        b"\xff" * 70,
    ],
    ids=range(13),
)
def test_an_npy_header_that_is_not_of_tokens_is_refused(tmp_path, header):
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(16)
    (tmp_path / "x.npy").write_bytes(data)

    with pytest.raises(FormatError) as caught:
        tokenmill.open(tmp_path / "x.npy")
    assert "x.npy" in caught.value.message


@pytest.mark.parametrize(
    ("first_bytes", "what"),
    [
        (struct.pack("<i", 20240522), "evaluation file of llm.c"),
        (struct.pack("<i", 20240527), "training state of llm.c"),
        (b"TNTIDX\x00\x00", "fairseq"),
        (b"PK\x03\x04", "zip"),
        (b"PAR1", "parquet"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ],
)
def test_files_that_hold_no_tokens_are_named(tmp_path, first_bytes, what):
    path = tmp_path / "file.data"
    path.write_bytes(first_bytes + bytes(2000))

    with pytest.raises(FormatError, match=what) as caught:
        tokenmill.open(path)
    assert caught.value.hint


@pytest.mark.parametrize(
    "sample",
    [
        "llmc/corpus_train_000001.bin",
        "npy/corpus.npy",
        "litpkds/corpus_0000000000.bin",
        "megatron/corpus.idx",
    ],
)
def test_a_header_is_never_read_as_tokens_even_when_the_caller_insists(sample):
    """traps: 512 bogus tokens from llm.c shards, 64 from .npy files, read as raw uint16."""
    for format in ("nanogpt", "dolma"):
        if format == "nanogpt" or sample.endswith(".npy"):
            with pytest.raises(FormatError, match="header"):
                tokenmill.open(DATA / sample, format=format, dtype="uint16")
