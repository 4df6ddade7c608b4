"""Files written by the real projects give the same tokens and documents as everybody's.

How each file of tests/data was made, and by which version, is in tests/data/README.md.
"""

import shutil
from pathlib import Path
from typing import ClassVar

import pytest
from formats.conformance import DATA, DOCUMENTS, ROWS, AdapterTests
from formats.our_files import write_ours

BEFORE = [[50256, *document[:-1]] for document in DOCUMENTS]


class TestOurs(AdapterTests):
    format = "tokenmill"
    dtype = "uint16"

    @pytest.fixture
    def path(self, tmp_path) -> Path:
        train, val = DOCUMENTS[:12], DOCUMENTS[12:]
        return write_ours(tmp_path / "somewhere", {"train": train, "val": val}, 100)


class TestLlmc(AdapterTests):
    format, sample, dtype = "llmc", "llmc", "uint16"
    indexed, comes = False, "before"

    @pytest.fixture
    def path(self, tmp_path) -> Path:
        """By name, the val shard of llm.c (its first) comes after train."""
        path = Path(shutil.copytree(DATA / "llmc", tmp_path / "somewhere"))
        (path / "corpus_val_000000.bin").rename(path / "corpus_000000.bin")
        return path

    documents: ClassVar = BEFORE


class TestLlmcForLlama(AdapterTests):
    format, sample, dtype = "llmc", "llmc_uint32", "uint32"
    indexed, comes = False, "before"
    documents: ClassVar = [[128000, *document[:-1]] for document in DOCUMENTS]


class TestNanogpt(AdapterTests):
    format, sample, dtype = "nanogpt", "nanogpt", "uint16"
    options: ClassVar = {"dtype": "uint16", "end_of_text": 50256}
    indexed = False


class TestNpy(AdapterTests):
    format, sample, dtype = "npy", "npy", "uint16"
    options: ClassVar = {"end_of_text": 50256}
    indexed = False


class TestNpyRows(AdapterTests):
    format, sample, dtype = "npy", "npy_rows", "int32"
    indexed, documents, tokens = False, None, ROWS


class TestDolma(AdapterTests):
    format, sample, dtype = "dolma", "dolma", "uint16"
    options: ClassVar = {"dtype": "uint16"}


class TestMegatron(AdapterTests):
    format, sample, dtype = "megatron", "megatron", "uint16"


class TestMegatronOfSeveralSequences(AdapterTests):
    format, sample, dtype = "megatron", "megatron_int32", "int32"


class TestDatatrove(AdapterTests):
    format, sample, dtype = "datatrove", "datatrove", "uint16"


class TestDatatroveOfFourBytes(AdapterTests):
    format, sample, dtype = "datatrove", "datatrove_uint32", "uint32"


class TestMds(AdapterTests):
    format, sample, dtype = "mds", "mds", "uint16"


class TestMdsWithOtherColumns(AdapterTests):
    format, sample, dtype = "mds", "mds_columns", "int32"


class TestMdsRows(AdapterTests):
    format, sample, dtype = "mds", "mds_rows", "int32"
    indexed, documents, tokens = False, None, ROWS


class TestMdsBytes(AdapterTests):
    format, sample, dtype = "mds", "mds_bytes", "int64"
    options: ClassVar = {"dtype": "int64"}
    indexed, documents, tokens = False, None, ROWS


class TestLitdata(AdapterTests):
    format, sample, dtype = "litdata", "litdata", "uint16"


class TestLitdataTensors(AdapterTests):
    format, sample, dtype = "litdata", "litdata_tensor", "int64"


class TestLitpkds(AdapterTests):
    """lit-gpt fills its last file up with separators; they are tokens there, and here."""

    format, sample, dtype = "litpkds", "litpkds", "uint16"
    options: ClassVar = {"end_of_text": 50256}
    indexed = False
    documents: ClassVar = [*DOCUMENTS, *[[50256]] * (1024 - 975)]


class TestModalities(AdapterTests):
    format, sample, dtype = "modalities", "modalities", "uint16"
    options: ClassVar = {"end_of_text": 50256}
    indexed = False
