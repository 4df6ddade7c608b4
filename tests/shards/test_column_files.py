"""Files of columns: their bytes, and what is refused about them."""

import json
import shutil

import numpy as np
import pytest
import xxhash
from click.testing import CliRunner
from column_data import END, axis_of, make_documents, write

import tokenmill
from tokenmill.cli import tokenmill as command
from tokenmill.errors import (
    BadInputError,
    CorruptShardError,
    FormatError,
    NotADatasetError,
    TruncatedShardError,
)
from tokenmill.shards.manifest import FILE_NAME, Manifest
from tokenmill.shards.verify import verify

DOCUMENTS = make_documents(count=30)
COLUMNS = axis_of(DOCUMENTS)
SUFFIXES = ("loss", "weights", "flag", "kind", "likely")


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    write(folder / "plain", DOCUMENTS)
    write(folder / "zstd", DOCUMENTS, compress="zstd:1")
    return folder


@pytest.fixture
def dataset(sound, tmp_path):
    shutil.copytree(sound / "plain", tmp_path / "d")
    return tmp_path / "d"


def test_the_bytes_are_what_the_format_says(dataset):
    """Bits from the lowest on, weights in 4096ths, all little-endian, cut where shards are."""
    stored = {
        "loss": lambda part: np.packbits(part, bitorder="little"),
        "flag": lambda part: np.packbits(part, bitorder="little"),
        "weights": lambda part: (part * 4096).astype("<u2"),
        "kind": lambda part: part.astype("u1"),
        "likely": lambda part: part.astype("<u2"),
    }
    manifest = Manifest.load(dataset)
    start = 0
    for shard in manifest.shards:
        assert [(c.name, c.bits) for c in shard.columns] == [
            *(("loss", 1), ("weights", 16), ("flag", 1), ("kind", 8), ("likely", 48))
        ]
        for column in shard.columns:
            data = (dataset / column.file).read_bytes()
            part = COLUMNS[column.name][start : start + shard.num_tokens]
            assert data == stored[column.name](part).tobytes()
            assert column.file == f"{shard.file[:-4]}.{column.name}"
            assert column.xxh3_128 == xxhash.xxh3_128_hexdigest(data)
        start += shard.num_tokens
    assert start == len(COLUMNS["ids"])


@pytest.mark.parametrize("kind", ["plain", "zstd"])
def test_every_flipped_byte_is_seen(sound, tmp_path, kind):
    shutil.copytree(sound / kind, tmp_path / "d")
    assert verify(tmp_path / "d", full=True) == []
    paths = sorted((tmp_path / "d" / "train").glob("shard_00001.*"))
    paths = [path for path in paths if path.name.split(".")[1] in SUFFIXES]
    assert len(paths) == len(SUFFIXES)
    for path in paths:
        data = path.read_bytes()
        for at in (0, len(data) // 2, len(data) - 1):
            changed = bytearray(data)
            changed[at] ^= 1
            path.write_bytes(changed)
            (finding,) = verify(tmp_path / "d", full=True)
            assert (finding.file, finding.what) in {
                (f"train/{path.name}", "hash"),
                (f"train/{path.name}", "frame"),
            }
        path.write_bytes(data)


def test_a_flip_is_seen_when_the_shard_is_touched(dataset):
    path = dataset / "train" / "shard_00000.loss"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 4]) + path.read_bytes()[1:])
    loader = tokenmill.BatchLoader(
        tokenmill.open(dataset, verify=True), batch_size=1, block_size=8, order="sequential"
    )

    with pytest.raises(CorruptShardError, match=r"shard_00000\.loss has the hash"):
        next(loader)


def test_a_file_that_is_missing_or_of_another_size_is_refused_when_it_is_opened(dataset):
    path = dataset / "train" / "shard_00001.kind"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(TruncatedShardError, match=r"shard_00001\.kind"):
        tokenmill.open(dataset)
    assert [(f.file, f.what) for f in verify(dataset)] == [("train/shard_00001.kind", "size")]
    path.unlink()
    with pytest.raises(NotADatasetError, match=r"shard_00001\.kind"):
        tokenmill.open(dataset)


def resign(dataset, change):
    """Change the manifest, with a right hash."""
    tree = json.loads((dataset / FILE_NAME).read_text())
    change(tree["splits"]["train"]["shards"])
    del tree["xxh3_128"]
    text = json.dumps(tree, indent=2, ensure_ascii=False).encode() + b"\n"
    digest = f',\n  "xxh3_128": "{xxhash.xxh3_128_hexdigest(text)}"\n}}\n'.encode()
    (dataset / FILE_NAME).write_bytes(text.removesuffix(b"\n}\n") + digest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda shards: shards[1]["columns"].pop(), "those of the first shard"),
        (lambda shards: shards[1].pop("columns"), "those of the first shard"),
        (lambda shards: shards[0].update(columns=[]), "those of the first shard"),
        (lambda shards: shards[0]["columns"][0].update(bits=2), "1, 8, 16 or k x 16"),
        (lambda shards: shards[0]["columns"][3].update(bits=16), "those of the first|bytes"),
        (lambda shards: shards[0]["columns"][0].update(file="train/other"), "shard_00000.loss"),
        (lambda shards: shards[0]["columns"][0].update(file="../x.loss"), "plain name"),
        (lambda shards: shards[0]["columns"][0].update(bytes=7), "shard_00000.loss"),
        (lambda shards: shards[0]["columns"][0].update(name="ends"), "shard_00000.ends"),
    ],
    ids=range(9),
)
def test_a_manifest_that_contradicts_itself_is_refused(dataset, change, message):
    resign(dataset, change)

    with pytest.raises(FormatError, match=message):
        Manifest.load(dataset)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"loss": [True]}, r"document 1: column 'loss' has bool values of shape \(1,\)"),
        ({"loss": [0, 2, 0]}, "document 1: column 'loss' has values from 0 to 2"),
        ({"loss": ["a", "b", "c"]}, "document 1: column 'loss' has <U1 values"),
        ({"weights": [0, 1, 16.5]}, "document 1: column 'weights' has values from 0.0 to 16.5"),
        ({"weights": [0, 1, float("nan")]}, "document 1: column 'weights' has values"),
        ({"weights": [0, 1, -0.1]}, "document 1: column 'weights' has values from -0.1"),
        ({"kind": np.arange(3)}, "document 1: column 'kind' has int64 values"),
        ({"End": np.zeros(3, bool)}, "document 1: column 'End' has bool values"),
        ({"ids": [1, END, 2]}, "document 1 has the id 256 at position 1"),
        ({"ids": [1, 900, 2]}, "document 1 has the id 900 at position 1"),
        ({"ids": [0.5, 1, 2]}, "document 1 is array"),
        ({"flag": np.zeros(3, bool)}, "document 1 has the columns {'flag': 1}, and the ones"),
    ],
    ids=range(12),
)
def test_a_document_that_does_not_fit_is_refused_by_its_number(tmp_path, column, message):
    first = {"ids": [1, 2, 3], **{k: np.ones(3, bool) for k in column if k in ("loss", "weights")}}

    with pytest.raises((FormatError, BadInputError), match=message):
        write(tmp_path / "d", [first, {"ids": [1, 2, 3], **column}])
    assert list(tmp_path.iterdir()) == []


def test_inspect_names_the_columns_and_append_refuses_text_without_them(dataset, tmp_path):
    (tmp_path / "a.txt").write_text("some text")

    shown = CliRunner().invoke(command, ["inspect", str(dataset)])
    added = CliRunner().invoke(
        command, ["prepare", str(tmp_path / "a.txt"), "-o", str(dataset), "--append"]
    )

    assert "loss (1 bit), weights (16 bits), flag (1 bit), kind (8 bits)" in shown.output
    assert added.exit_code != 0
    assert "has the columns loss (1 bit), weights (16 bits), flag (1 bit), kind (8 bits)" in str(
        added.exception
    )
    assert verify(dataset, full=True) == []


def test_retokenize_refuses_columns_by_name(dataset, tmp_path):
    from tokenmill.preparation.retokenize import retokenize

    with pytest.raises(FormatError, match="has the columns loss, weights") as caught:
        retokenize(dataset, tmp_path / "new", tokenizer="gpt2", workers=1)
    assert "--columns none" in caught.value.hint
