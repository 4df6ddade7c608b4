"""`convert --to hf`: documents as rows of ids, in row groups that are bounded."""

import hashlib

import numpy as np
import pytest
from formats.our_files import write_ours

import tokenmill
from tokenmill.conversion.convert import convert
from tokenmill.errors import FormatError
from tokenmill.formats import hf

parquet = pytest.importorskip("pyarrow.parquet")
DOCUMENTS = [[*range(n), 50256] for n in (3, 40, 1, 0, 700, 12, 90, 5)]


@pytest.fixture
def ours(tmp_path):
    return write_ours(tmp_path / "ours", {"train": DOCUMENTS[:6], "val": DOCUMENTS[6:]}, 100)


def rows_of(folder):
    tables = [parquet.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    return [row for table in tables for row in table["input_ids"].to_pylist()]


@pytest.mark.parametrize("tokens_per_shard", [None, 50])
def test_the_rows_are_the_documents_of_each_split(tmp_path, ours, tokens_per_shard):
    done = convert(ours, tmp_path / "hf", to="hf", tokens_per_shard=tokens_per_shard)

    assert rows_of(tmp_path / "hf" / "train") == DOCUMENTS[:6]
    assert rows_of(tmp_path / "hf" / "val") == DOCUMENTS[6:]
    assert done.splits["train"] == (sum(map(len, DOCUMENTS[:6])), 2 if tokens_per_shard else 1)
    schema = parquet.read_schema(tmp_path / "hf" / "train" / "00000.parquet")
    assert str(schema.field("input_ids").type.value_type) == "int32"


@pytest.mark.parametrize("tokens_per_shard", [None, 50])
def test_a_mask_becomes_labels_of_the_same_tokens(tmp_path, tokens_per_shard):
    random = np.random.default_rng(3)
    masks = [random.integers(0, 2, len(ids)).astype(bool) for ids in DOCUMENTS]
    rows = [{"ids": ids, "loss": mask} for ids, mask in zip(DOCUMENTS, masks, strict=True)]
    tokenmill.write_tokens(rows, tmp_path / "chat", tokenizer="gpt2")

    convert(tmp_path / "chat", tmp_path / "hf", to="hf", tokens_per_shard=tokens_per_shard)

    files = sorted((tmp_path / "hf" / "train").glob("*.parquet"))
    labels = [row for path in files for row in parquet.read_table(path)["labels"].to_pylist()]
    assert rows_of(tmp_path / "hf" / "train") == DOCUMENTS
    assert labels == [
        [token if is_target else -100 for token, is_target in zip(ids, mask, strict=True)]
        for ids, mask in zip(DOCUMENTS, masks, strict=True)
    ]


def test_row_groups_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(hf, "TOKENS_PER_GROUP", 1000)
    documents = [[1] * (n % 300) + [50256] for n in range(500)]
    ours = write_ours(tmp_path / "ours", {"train": documents}, 10_000)

    convert(ours, tmp_path / "hf", to="hf")

    file = parquet.ParquetFile(tmp_path / "hf" / "train" / "00000.parquet")
    tokens = [file.metadata.row_group(i).column(0).num_values for i in range(file.num_row_groups)]
    assert sum(tokens) == sum(map(len, documents))
    assert max(tokens) < 1000 + 300
    assert len(tokens) > 50
    assert rows_of(tmp_path / "hf" / "train") == documents


def test_the_same_data_gives_the_same_bytes(tmp_path, ours):
    hashes = []
    for name in ("one", "two"):
        convert(ours, tmp_path / name, to="hf")
        files = sorted((tmp_path / name).rglob("*.parquet"))
        hashes.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])

    assert hashes[0] == hashes[1]
    assert len(hashes[0]) == 2


def test_data_that_does_not_know_its_documents_is_refused(tmp_path):
    np.save(tmp_path / "plain.npy", np.arange(100, dtype=np.uint16))

    with pytest.raises(FormatError, match=r"nothing in .* says where documents end"):
        convert(tmp_path / "plain.npy", tmp_path / "hf", to="hf")


def test_files_of_parquet_are_never_overwritten(tmp_path, ours):
    """They may be the text that a dataset was made from."""
    convert(ours, tmp_path / "hf", to="hf")

    with pytest.raises(FormatError, match=r"is not replaced: it holds 00000.parquet"):
        convert(ours, tmp_path / "hf", to="hf", overwrite=True)


def test_it_is_written_only(tmp_path, ours):
    convert(ours, tmp_path / "hf", to="hf")

    with pytest.raises(tokenmill.TokenmillError, match="parquet"):
        tokenmill.open(tmp_path / "hf" / "train" / "00000.parquet")
