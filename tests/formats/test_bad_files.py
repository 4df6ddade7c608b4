"""Cut, flipped, swapped, missing, oversized, lying and empty files: a typed error for each format.

Each error names the file, what was expected or found, and what to do about it.
"""

import contextlib
import json
import shutil
import struct
import tracemalloc
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from formats.conformance import DATA, DOCUMENTS
from formats.our_files import write_ours
from manifests import write_index

import tokenmill
from tokenmill.errors import FormatError, TokenmillError

# Twice as many tokens of half the size: only the ids themselves would show it.
UNDETECTABLE = [("modalities", 8, 1)]
LIES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**64 - 1, -1]


@dataclass
class Case:
    """One dataset and what can be wrong with it."""

    name: str
    options: dict = field(default_factory=dict)
    tokens: str = ""
    """A file of tokens."""
    index: str | None = None
    """A file without which the tokens are not understood."""
    fields: list[tuple[str, int, str]] = field(default_factory=list)
    """(file, byte, struct code) of every number in a header."""
    keys: list[tuple] = field(default_factory=list)
    """(file, key, key, ...) of every number in a JSON index."""
    magic: tuple[str, int] | None = None
    """(file, byte) that, when changed, makes the file one of no format."""
    knows_its_size: bool = True
    """False for raw tokens: nothing says how many there should be."""
    open_ended: bool = False
    """Whether more bytes may follow the tokens, of any number."""


CASES = {
    case.name: case
    for case in [
        Case(
            "ours",
            tokens="train/shard_00001.bin",
            index="train/shard_00001.ends",
            keys=[
                ("dataset_metadata.json", "splits", "train", "shards", 1, "tokens"),
                ("dataset_metadata.json", "splits", "train", "shards", 1, "bytes"),
                ("dataset_metadata.json", "splits", "train", "shards", 1, "ends", "documents"),
                ("dataset_metadata.json", "splits", "train", "shards", 1, "ends", "bytes"),
                ("dataset_metadata.json", "splits", "train", "tokens"),
                ("dataset_metadata.json", "splits", "train", "documents"),
                ("dataset_metadata.json", "format_version"),
                ("dataset_metadata.json", "tokens_per_shard"),
                ("dataset_metadata.json", "tokenizer", "state", "bytes"),
            ],
            magic=("dataset_metadata.json", 0),
        ),
        Case(
            "llmc",
            tokens="corpus_train_000001.bin",
            fields=[("corpus_train_000001.bin", at, "<i") for at in (0, 4, 8)],
            magic=("corpus_train_000001.bin", 1),
        ),
        Case(
            "llmc_uint32",
            tokens="corpus.bin",
            fields=[("corpus.bin", at, "<i") for at in (0, 4, 8)],
            magic=("corpus.bin", 2),
        ),
        Case("nanogpt", {"dtype": "uint16"}, "train.bin", knows_its_size=False),
        Case("npy", tokens="corpus.npy", magic=("corpus.npy", 0), fields=[("corpus.npy", 8, "<H")]),
        Case("npy_rows", tokens="rows.npy", magic=("rows.npy", 3)),
        Case("dolma", {"dtype": "uint16"}, "part-0-00000.npy", "part-0-00000.csv.gz"),
        Case(
            "megatron",
            tokens="corpus.bin",
            index="corpus.idx",
            fields=[("corpus.idx", 9, "<Q"), ("corpus.idx", 17, "<B")]
            + [("corpus.idx", at, "<Q") for at in (18, 26)]
            + [("corpus.idx", 34 + 4 * n, "<i") for n in (0, 7, 14)]
            + [("corpus.idx", 34 + 4 * 15 + 8 * n, "<q") for n in (0, 7, 14)]
            + [("corpus.idx", 34 + 12 * 15 + 8 * n, "<q") for n in (0, 7, 15)],
            magic=("corpus.idx", 3),
        ),
        Case(
            "datatrove",
            tokens="000_corpus.ds",
            index="000_corpus.ds.index",
            fields=[("000_corpus.ds.index", 8 * n, "<Q") for n in (3, 8)],
        ),
        Case(
            "mds",
            tokens="shard.00000.mds",
            index="index.json",
            fields=[("shard.00000.mds", at, "<I") for at in (0, 4, 8, 16, 36)]
            + [
                ("shard.00000.mds", 228, "<I"),
                ("shard.00000.mds", 232, "<B"),
                ("shard.00000.mds", 233, "<B"),
            ],
            keys=[
                ("index.json", "version"),
                ("index.json", "shards", 0, "samples"),
                ("index.json", "shards", 0, "raw_data", "bytes"),
            ],
            magic=("index.json", 0),
        ),
        Case(
            "mds_rows",
            tokens="shard.00000.mds",
            index="index.json",
            fields=[("shard.00000.mds", at, "<I") for at in (0, 4, 8, 16)],
            keys=[
                ("index.json", "shards", 0, "samples"),
                ("index.json", "shards", 0, "raw_data", "bytes"),
                ("index.json", "shards", 0, "column_sizes", 0),
            ],
            magic=("index.json", 0),
        ),
        Case(
            "litdata",
            tokens="chunk-0-0.bin",
            index="index.json",
            fields=[("chunk-0-0.bin", at, "<I") for at in (0, 4, 8, 36)],
            keys=[
                ("index.json", "chunks", 0, "chunk_size"),
                ("index.json", "chunks", 0, "dim"),
            ],
            magic=("index.json", 0),
        ),
        Case(
            "litpkds",
            tokens="corpus_0000000000.bin",
            fields=[
                ("corpus_0000000000.bin", 7, "<Q"),
                ("corpus_0000000000.bin", 15, "<B"),
                ("corpus_0000000000.bin", 16, "<Q"),
            ],
            magic=("corpus_0000000000.bin", 3),
        ),
        Case(
            "modalities",
            tokens="corpus.pbin",
            fields=[("corpus.pbin", 0, "<Q"), ("corpus.pbin", 8, "<I")],
            open_ended=True,
        ),
    ]
}
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture
def build(tmp_path):
    def build(case: Case, name: str = "somewhere") -> Path:
        if case.name == "ours":
            splits = {"train": DOCUMENTS[:12], "val": DOCUMENTS[12:]}
            return write_ours(tmp_path / name, splits, 100)
        return Path(shutil.copytree(DATA / case.name, tmp_path / name))

    return build


def use(folder: Path, case: Case) -> np.ndarray:
    """All that a program may ask of a dataset."""
    data = tokenmill.open(folder, "all", **case.options)
    tokens = data.tokens(0, data.num_tokens)
    if data.knows_documents:
        data.document_ends(0, data.num_tokens)
    return tokens


def refused(folder: Path, case: Case, file: str = "") -> FormatError:
    try:
        use(folder, case)
        pytest.fail("it was not refused")
    except TokenmillError as caught:
        error = caught
    assert isinstance(error, FormatError), repr(error)
    names = {path.name for path in folder.rglob("*")} | {file}
    assert any(name in error.message for name in names), error
    return error


@ALL
@pytest.mark.parametrize("left", ["all but a byte", "half and a byte", "a byte", "nothing"])
def test_a_cut_file_is_refused(build, case, left):
    for file in filter(None, [case.tokens, case.index]):
        folder = build(case, file.replace("/", "_"))
        path = folder / file
        data = path.read_bytes()
        keep = {"all but a byte": len(data) - 1, "half and a byte": len(data) // 2 | 1}
        if case.open_ended:  # cut inside the tokens: what follows them has no known length
            keep["all but a byte"] = 12 + 2 * 975 - 1
        if case.name == "nanogpt" and left == "nothing":
            (folder / "val.bin").unlink()
        path.write_bytes(data[: keep.get(left, 1 if left == "a byte" else 0)])

        error = refused(folder, case, file)

        assert error.hint or "JSON" in error.message


@ALL
def test_a_file_that_is_too_long_is_refused(build, case):
    if case.open_ended:
        pytest.skip("what follows the tokens is of any length")
    folder = build(case)
    with (folder / case.tokens).open("ab") as file:
        file.write(b"\x00\x00" if case.knows_its_size else b"\x00")

    assert refused(folder, case, case.tokens).hint


@ALL
def test_a_missing_file_is_refused(build, case):
    for file in filter(None, [case.tokens, case.index]):
        if case.index is None or (case.name in ("dolma", "datatrove") and file == case.index):
            continue  # one file less is another dataset; without its index, ids are still ids
        if case.name == "megatron" and file == case.index:
            continue  # a raw .bin: its dtype is asked for
        folder = build(case, file.replace("/", "_"))
        (folder / file).unlink()

        refused(folder, case, file)


@ALL
def test_a_file_with_another_first_byte_is_not_read_as_tokens(build, case):
    if case.magic is None:
        pytest.skip("nothing in the first bytes says this format")
    file, at = case.magic
    folder = build(case)
    data = bytearray((folder / file).read_bytes())
    data[at] ^= 0x15
    (folder / file).write_bytes(data)
    stated = Case(case.name, {**case.options, "dtype": "uint16"}, case.tokens, case.index)

    refused(folder, case, file)
    if case.name.startswith("npy"):  # even when the caller insists on a type
        refused(folder, stated, file)


def fields():
    for case in CASES.values():
        for file, at, code in case.fields:
            yield pytest.param(case, file, at, code, id=f"{case.name}-{file}-{at}")


@pytest.mark.parametrize(("case", "file", "at", "code"), list(fields()))
def test_a_wrong_header_is_refused_before_anything_is_allocated(build, case, file, at, code):
    folder = build(case)
    true = (folder / file).read_bytes()
    for lie in LIES:
        data = bytearray(true)
        try:
            struct.pack_into(code, data, at, lie)
        except struct.error:
            continue  # too large for this field
        if data == true or (case.name, at, lie) in UNDETECTABLE:
            continue
        (folder / file).write_bytes(data)

        with little_memory(lie):
            refused(folder, case, file)


def keys():
    for case in CASES.values():
        for file, *path in case.keys:
            yield pytest.param(case, file, path, id=f"{case.name}-{'.'.join(map(str, path))}")


@pytest.mark.parametrize(("case", "file", "path"), list(keys()))
def test_a_wrong_index_is_refused_before_anything_is_allocated(build, case, file, path):
    folder = build(case)
    true = (folder / file).read_text()
    for lie in [*LIES, 1.5, "1", None, [], True, 10**30]:
        tree = whole = json.loads(true)
        for key in path[:-1]:
            tree = tree[key]
        longer_shards = path == ["tokens_per_shard"] and type(lie) is int and 100 <= lie < 2**63
        if repr(tree[path[-1]]) == repr(lie) or longer_shards:
            continue
        tree[path[-1]] = lie
        write_index(folder / file, whole)

        with little_memory(lie):
            refused(folder, case, file)


@contextlib.contextmanager
def little_memory(lie):
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 100_000_000, lie
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["megatron", "datatrove", "dolma"])
def test_an_index_of_another_build_is_refused(build, name):
    case = CASES[name]
    folder = build(case)
    other = {
        "megatron": DATA / "megatron_int32" / "corpus.idx",
        "datatrove": DATA / "datatrove" / "001_corpus.ds.index",
        "dolma": DATA / "dolma" / "part-1-00000.csv.gz",
    }[name]
    shutil.copy(other, folder / case.index)

    assert refused(folder, case, case.index).hint


@ALL
def test_a_folder_of_empty_files_is_refused(build, case):
    folder = build(case)
    for path in folder.rglob("*"):
        if path.is_file():
            path.write_bytes(b"")

    with pytest.raises(FormatError):
        use(folder, case)


@pytest.mark.parametrize("name", ["raw.bin", "dolma.npy"])
def test_an_empty_file_is_called_empty_before_its_type_is_asked_for(tmp_path, name):
    (tmp_path / name).touch()

    with pytest.raises(FormatError, match=rf"{name} is empty: 0 bytes") as caught:
        tokenmill.open(tmp_path / name, "all")
    assert "write it again or remove it" in caught.value.hint


@ALL
def test_no_flipped_byte_is_worse_than_a_typed_error(build, case):
    """Other tokens (raw data has no check), or our own error; never a crash or another error."""
    folder = build(case)
    paths = [p for p in folder.rglob("*") if p.is_file() and p.name != "tokenizer_state.json"]
    for path in sorted(paths)[:6]:
        data = path.read_bytes()
        for at in [*range(min(len(data), 40)), *range(40, len(data), len(data) // 40 + 1)]:
            flipped = bytearray(data)
            flipped[at] ^= (0x01, 0x80, 0xFF)[at % 3]
            path.write_bytes(flipped)
            with contextlib.suppress(TokenmillError):
                use(folder, case)
        path.write_bytes(data)
