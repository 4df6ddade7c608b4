"""A dataset as a sequence: lengths, indexes, slices and parts, against plain NumPy."""

import itertools
import pickle

import numpy as np
import pytest
from formats.our_files import write_ours
from formats.raw_files import raw
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from tokenmill.dataset import from_array

IDS = np.arange(1000, 1037, dtype="u2")
BOUND = st.integers(-50, 50) | st.none()


@pytest.fixture(scope="module", params=["one array", "mmap", "pread", "ours"])
def data(request, tmp_path_factory):
    """The same 37 ids: in memory, in files of 10, 1, 20 and 6 tokens, in shards of 10."""
    folder = tmp_path_factory.mktemp("data")
    if request.param == "one array":
        return from_array(IDS)
    if request.param == "ours":
        return tokenmill.open(write_ours(folder / "d", {"train": [IDS.tolist()]}, 10))
    raw(folder, a__bin=IDS[:10], b__bin=IDS[10:11], c__bin=IDS[11:31], d__bin=IDS[31:])
    return tokenmill.open(folder, dtype="uint16", backend=request.param)


class TestIndexing:
    def test_its_length_is_that_of_all_files(self, data):
        assert len(data) == data.num_tokens == 37

    @given(start=BOUND, stop=BOUND, step=st.integers(-5, 5).filter(bool) | st.none())
    def test_a_slice_is_that_of_numpy(self, data, start, stop, step):
        found = data[start:stop:step]

        assert found.dtype == np.dtype("uint16")
        np.testing.assert_array_equal(found, IDS[start:stop:step])

    def test_a_step_of_zero_is_refused_as_by_numpy(self, data):
        with pytest.raises(ValueError, match="cannot be zero"):
            data[::0]

    @given(i=st.integers(-37, 36))
    def test_a_number_gives_an_int(self, data, i):
        assert data[i] == int(IDS[i])
        assert type(data[np.int64(i)]) is int

    @pytest.mark.parametrize("i", [-38, 37, 10**12])
    def test_a_number_outside_is_an_index_error(self, data, i):
        with pytest.raises(IndexError, match=f"token {i} of a dataset of 37 tokens"):
            data[i]

    @pytest.mark.parametrize("key", ["a", 1.5, None, [1, 2]])
    def test_anything_else_is_a_type_error(self, data, key):
        with pytest.raises(TypeError):
            data[key]

    def test_a_slice_is_a_copy(self, data):
        data[3:5][:] = 0

        assert data[3:5].tolist() == [1003, 1004]

    def test_it_can_be_iterated(self, data, monkeypatch):
        monkeypatch.setattr("tokenmill.reading.token_axis.BLOCK", 8)

        assert list(data) == IDS.tolist()
        assert 1036 in data
        assert 1037 not in data

    def test_numpy_takes_it_for_an_array(self, data):
        np.testing.assert_array_equal(np.asarray(data), IDS)
        assert np.asarray(data, dtype=np.int64).dtype == np.int64
        assert np.asarray(data).dtype == np.dtype("uint16")
        if np.lib.NumpyVersion(np.__version__) >= "2.0.0":  # before, `copy=False` was a wish
            with pytest.raises(ValueError, match="without a copy"):
                np.array(data, copy=False)

    def test_a_dataset_without_tokens_is_still_one(self):
        empty = from_array(np.empty(0, "u2"))

        assert len(empty) == 0
        assert empty
        assert empty[:].tolist() == empty[::-1].tolist() == list(empty) == []


class TestPart:
    @given(bounds=st.tuples(st.integers(0, 37), st.integers(0, 37)).map(sorted))
    def test_a_part_holds_the_tokens_between(self, data, bounds):
        start, stop = bounds
        part = data.part(start, stop)

        np.testing.assert_array_equal(part[:], IDS[start:stop])
        assert len(part) == part.num_tokens == stop - start
        joined = [part.array(i) for i in range(len(part.shards))]
        np.testing.assert_array_equal(np.concatenate(joined), IDS[start:stop])
        assert [shard.start for shard in part.shards] == part.shard_starts[:-1].tolist()

    @given(
        outer=st.tuples(st.integers(0, 37), st.integers(0, 37)).map(sorted),
        inner=st.tuples(st.integers(0, 37), st.integers(0, 37)).map(sorted),
    )
    def test_a_part_of_a_part_is_a_part(self, data, outer, inner):
        part = data.part(*outer)
        low, high = (min(x, len(part)) for x in inner)

        np.testing.assert_array_equal(part.part(low, high)[:], IDS[slice(*outer)][low:high])

    @pytest.mark.parametrize(("start", "stop"), [(-1, 2), (5, 38), (4, 3)])
    def test_a_part_outside_is_an_index_error(self, data, start, stop):
        with pytest.raises(IndexError, match=f"tokens {start} to {stop} of a dataset of 37"):
            data.part(start, stop)

    def test_it_knows_what_the_whole_knows(self, data):
        part = data.part(5, 25)

        for name in ("path", "split", "format", "dtype", "backend", "end_of_text_id", "vocab_size"):
            assert getattr(part, name) == getattr(data, name)

    def test_a_pickle_of_it_is_the_same_part(self, data):
        part = data.part(8, 33)

        again = pickle.loads(pickle.dumps(part))

        np.testing.assert_array_equal(again[:], part[:])
        assert again.fingerprint == part.fingerprint

    def test_the_whole_as_a_part_is_the_same_data(self, data):
        assert data.part(0, 37).fingerprint == data.fingerprint
        prints = {data.part(a, b).fingerprint for a, b in [(0, 37), (0, 36), (1, 37), (1, 36)]}
        assert len(prints) == 4

    def test_batches_of_a_part_hold_its_tokens_only(self, data):
        loader = tokenmill.BatchLoader(data.part(9, 26), batch_size=2, block_size=4, seed=1)

        seen = {token for _ in range(8) for token in next(loader).tokens.reshape(-1).tolist()}

        assert seen <= set(IDS[9:26].tolist())
        assert len(seen) > 10

    def test_the_tokenizer_is_not_loaded_again(self, tmp_path):
        data = tokenmill.open(write_ours(tmp_path / "d", {"train": [[15496, 995, 50256]]}, 2))

        assert data.decode(data[:2]) == "Hello world"
        assert data.part(1, 2).tokenizer is data.tokenizer

    def test_hashes_are_compared_also_for_a_part(self, tmp_path):
        folder = write_ours(tmp_path / "d", {"train": [IDS.tolist()]}, 10)
        path = folder / "train" / "shard_00001.bin"
        path.write_bytes(path.read_bytes()[:-2] + b"\0\0")
        data = tokenmill.open(folder, verify=True)

        assert data.part(0, 10)[3] == 1003
        with pytest.raises(tokenmill.TokenmillError, match="promises"):
            data.part(11, 12)[:]


class TestDocumentsOfAPart:
    @staticmethod
    def check(whole, data, start, stop):
        """Every document of the part is the one of the whole, without what is outside."""
        part = data.part(start, stop)
        expected = [
            list(range(max(low, start) - start, min(high, stop) - start))
            for low, high in whole
            if max(low, start) < min(high, stop)
        ]

        found = [list(range(*part.document_range(i))) for i in range(len(expected))]
        assert found == expected
        for i, positions in enumerate(expected):
            assert {part.document_at(position) for position in positions} == {i}
        assert part.num_documents in (None, len(expected))
        ends = [positions[-1] + 1 for positions in expected]
        inside = part.document_ends(0, len(part)).tolist()
        # The end of the part is one only where a document really ends, or an id begins documents.
        assert inside in (ends, ends[:-1])

    @given(
        lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
        tail=st.integers(0, 3),
        bounds=st.tuples(st.integers(0, 120), st.integers(0, 120)),
    )
    def test_from_an_index(self, lengths, tail, bounds):
        ends = np.cumsum(lengths)
        total = int(ends[-1]) + tail
        data = from_array(np.arange(total, dtype="u2"), document_ends=ends)
        edges = [0, *ends.tolist(), total]

        start, stop = sorted(min(x, total) for x in bounds)
        self.check(list(itertools.pairwise(edges)), data, start, stop)

    @given(
        ids=st.lists(st.integers(0, 3), min_size=1, max_size=40),
        comes=st.sampled_from(["after", "before"]),
        bounds=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    )
    def test_by_scanning(self, ids, comes, bounds):
        data = from_array(np.array(ids, "u2"), end_of_text=0, end_of_text_comes=comes)
        shift = 1 if comes == "after" else 0
        cuts = {i + shift for i, token in enumerate(ids) if token == 0}
        edges = sorted({0, len(ids)} | cuts)

        start, stop = sorted(min(x, len(ids)) for x in bounds)
        self.check(list(itertools.pairwise(edges)), data, start, stop)

    def test_over_shards(self, tmp_path):
        documents = [[1] * 7, [2] * 30, [3] * 3]
        data = tokenmill.open(write_ours(tmp_path / "d", {"train": documents}, 10))

        for start in range(0, 41, 3):
            for stop in range(start, 41):
                self.check([(0, 7), (7, 37), (37, 40)], data, start, stop)

    def test_empty_documents_before_the_part_are_not_in_it(self):
        data = from_array(np.arange(6, dtype="u2"), document_ends=[2, 2, 4, 4, 6])

        part = data.part(2, 5)

        assert part.num_documents == 3
        assert [part.document(i).tolist() for i in range(3)] == [[2, 3], [], [4]]
        assert part.num_empty_documents == 1
