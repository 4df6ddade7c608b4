"""What every format must do, as tests: a class of each format says where its files are."""

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import tokenmill
from tokenmill.dataset import TokenDataset

DATA = Path(__file__).parent.parent / "data"
DOCUMENTS: list[list[int]] = json.loads((DATA / "documents.json").read_text())
ROWS = [token for document in DOCUMENTS for token in document][: 975 // 64 * 64]


class AdapterTests:
    """The suite; `sample` is a folder of tests/data."""

    format: str
    sample: str
    dtype: str
    options: ClassVar[dict] = {}
    documents: ClassVar[list[list[int]] | None] = DOCUMENTS
    tokens: list[int] | None = None
    indexed = True
    """Whether the files say where documents end."""
    comes = None

    @pytest.fixture
    def path(self, tmp_path) -> Path:
        """A copy: nothing may depend on where the files are."""
        return Path(shutil.copytree(DATA / self.sample, tmp_path / "somewhere"))

    def open(self, path, split="all", **options) -> TokenDataset:
        return tokenmill.open(path, split, **{**self.options, **options})

    @property
    def expected(self) -> np.ndarray:
        flat = self.tokens or [token for document in self.documents for token in document]
        return np.array(flat, self.dtype)

    def test_the_format_is_detected_by_content(self, path):
        data = self.open(path)

        assert data.format == self.format
        assert data.dtype == np.dtype(self.dtype)
        assert data.num_tokens == len(self.expected)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_tokens_are_the_ones_that_were_written(self, path, backend):
        data = self.open(path, backend=backend)

        np.testing.assert_array_equal(data.tokens(0, data.num_tokens), self.expected, strict=True)
        for start, stop in [(0, 1), (5, 5), (390, 415), (500, 600), (len(self.expected) - 1,) * 2]:
            np.testing.assert_array_equal(data.tokens(start, stop), self.expected[start:stop])

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_shards_lie_one_after_another(self, path, backend):
        data = self.open(path, backend=backend)

        parts = [data.array(i) for i in range(len(data.shards))]
        for i, part in enumerate(parts):
            assert (len(part), data.shard_starts[i]) == (
                data.shards[i].num_tokens,
                data.shards[i].start,
            )
            assert not part.flags.writeable
            if len(part) > 3:
                wide = np.empty(len(part) - 3, np.int64)
                data.read_into(i, 2, wide)
                np.testing.assert_array_equal(wide, part[2:-1])
        np.testing.assert_array_equal(np.concatenate(parts), self.expected)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_documents_are_the_ones_that_were_written(self, path, backend):
        if self.documents is None:
            pytest.skip("these files hold rows, not documents")
        data = self.open(path, backend=backend)

        ends = np.cumsum([len(document) for document in self.documents])
        assert data.num_documents == (len(self.documents) if self.indexed else None)
        for i, document in enumerate(self.documents):
            assert data.document(i).tolist() == document
            assert data.document_at(int(ends[i]) - 1) == i
            assert data.document_at(int(ends[i]) - len(document)) == i
        with pytest.raises(IndexError):
            data.document(len(self.documents))
        assert data.document_ends(0, data.num_tokens).tolist() == ends.tolist()
        for start, stop in [(0, 0), (8, 8), (7, 8), (8, 10), (3, 500), (521, 523), (600, 975)]:
            within = ends[(ends > start) & (ends <= stop)]
            assert data.document_ends(start, stop).tolist() == within.tolist()

    def test_where_documents_end_is_asked_for_when_nothing_says_it(self, path):
        if self.indexed or self.comes == "before":
            pytest.skip("these files say it")
        options = {key: value for key, value in self.options.items() if key != "end_of_text"}

        with pytest.raises(tokenmill.TokenmillError, match="end_of_text=50256"):
            tokenmill.open(path, "all", **options).document(0)

    def test_train_and_val_are_all_tokens_and_share_none(self, path):
        train, val = self.open(path, "train"), self.open(path, "val")

        places = []
        for data in (train, val):
            for file in data.files:
                places += [(file.name, file.first + k) for k in range(file.num_tokens)]
        assert val.num_tokens > 0 < train.num_tokens
        assert len(set(places)) == len(places) == len(self.expected)
        joined = sorted([*train.tokens(0, train.num_tokens), *val.tokens(0, val.num_tokens)])
        assert joined == sorted(self.expected)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_a_pickle_carries_paths_and_opens_again(self, path, backend):
        data = self.open(path, backend=backend)
        data.tokens(0, data.num_tokens)

        pickled = pickle.dumps(data)
        copy = pickle.loads(pickled)

        assert len(pickled) < 20_000
        assert copy.fingerprint == data.fingerprint
        np.testing.assert_array_equal(copy.tokens(0, copy.num_tokens), self.expected)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_a_forked_process_reads_the_same(self, path, backend):
        data = self.open(path, backend=backend)
        data.tokens(0, 10)
        receive, send = os.pipe()

        # A bare fork: a pool would wait for ever for locks that other threads of the tests hold.
        if (child := os.fork()) == 0:
            os.write(send, b"%d" % _sum(data))
            os._exit(0)
        os.close(send)
        with open(receive, "rb") as answer:
            found = answer.read()
        os.waitpid(child, 0)

        assert int(found) == self.expected.astype(np.int64).sum()

    def test_the_fingerprint_is_of_the_data_and_not_of_the_place(self, path, tmp_path):
        elsewhere = shutil.copytree(path, tmp_path / "elsewhere" / "deep")

        assert self.open(path).fingerprint == self.open(elsewhere).fingerprint
        assert self.open(path, "train").fingerprint != self.open(path).fingerprint

    def test_another_dtype_than_the_stored_one_is_refused(self, path):
        if "dtype" in self.options:
            pytest.skip("no file says the dtype")

        with pytest.raises(tokenmill.TokenmillError, match="uint64 was asked for"):
            self.open(path, dtype="uint64")

    def test_no_file_is_written(self, path):
        before = _stats(path)

        data = self.open(path)
        data.tokens(0, data.num_tokens)
        if data.knows_documents:
            data.document(0)

        assert _stats(path) == before


def _sum(data: TokenDataset) -> int:
    return int(data.tokens(0, data.num_tokens).astype(np.int64).sum())


def _stats(path: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_size, p.stat().st_mtime_ns) for p in sorted(path.rglob("*"))}
