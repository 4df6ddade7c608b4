"""open(), documents, backends and bounds, on files written here by hand."""

import json
import os
import pickle
import resource
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from formats.our_files import write_ours
from formats.raw_files import ids_of, raw
from hypothesis import given
from hypothesis import strategies as st
from system_faults import injecting, needs_strace

import tokenmill
from tokenmill.dataset import from_array
from tokenmill.errors import (
    CorruptShardError,
    FormatError,
    MismatchError,
    NotADatasetError,
    TokenizerMismatchError,
    TruncatedShardError,
)
from tokenmill.reading.document_index import ScannedDocuments


class TestOpening:
    def test_a_glob_and_a_list_are_the_files_in_order(self, tmp_path):
        raw(tmp_path, b__bin=[2], a__bin=[1], c__bin=[3])

        assert ids_of(tmp_path / "*.bin", "all") == [1, 2, 3]
        assert ids_of([tmp_path / "c.bin", tmp_path / "a.bin"], "all") == [3, 1]

    def test_a_megatron_pair_opens_by_either_name_or_none(self):
        stem = Path(__file__).parent / "data" / "megatron" / "corpus"

        opened = {tokenmill.open(f"{stem}{suffix}").fingerprint for suffix in ("", ".bin", ".idx")}

        assert len(opened) == 1

    def test_what_is_not_there_is_said_with_what_is_near(self, tmp_path):
        raw(tmp_path, train__bin=[1])

        with pytest.raises(NotADatasetError, match=r"no file or folder") as caught:
            tokenmill.open(tmp_path / "trian.bin")
        assert "did you mean" in caught.value.hint
        with pytest.raises(NotADatasetError, match="no file matches"):
            tokenmill.open(str(tmp_path / "*.npy"))

    def test_a_folder_without_tokens_says_what_it_holds(self, tmp_path):
        (tmp_path / "a.jsonl").write_text("{}")

        with pytest.raises(NotADatasetError, match=r"it holds a\.jsonl") as caught:
            tokenmill.open(tmp_path)
        assert "tokenmill prepare" in caught.value.hint

    def test_unknown_names_are_refused_with_the_nearest(self, tmp_path):
        with pytest.raises(ValueError, match="did you mean 'megatron'"):
            tokenmill.open(tmp_path, format="megatorn")
        with pytest.raises(ValueError, match="backend is 'map'; known are: mmap, pread"):
            tokenmill.open(tmp_path, backend="map")
        for dtype in ("float32", "u3", ">u2", "bool"):
            with pytest.raises(ValueError, match="token ids"):
                tokenmill.open(tmp_path, dtype=dtype)

    def test_a_raw_file_asks_for_its_dtype_with_the_call_to_make(self, tmp_path):
        path = raw(tmp_path, train__bin=[1, 2]) / "train.bin"

        with pytest.raises(FormatError, match="has no header") as caught:
            tokenmill.open(path)
        call = f'tokenmill.open("{path}", dtype="uint16")'
        assert call in caught.value.hint
        assert eval(call, {"tokenmill": tokenmill}).num_tokens == 2

    def test_a_meta_json_beside_raw_files_says_what_they_hold(self, tmp_path):
        raw(tmp_path, train__bin=[1, 9, 2, 3, 9], val__bin=[4])
        (tmp_path / "meta.json").write_text(
            json.dumps({"dtype": "uint16", "vocab_size": 10, "end_of_text_id": 9})
        )

        data = tokenmill.open(tmp_path)

        assert data.vocab_size == 10
        assert data.document(1).tolist() == [2, 3, 9]
        with pytest.raises(MismatchError):
            tokenmill.open(tmp_path, dtype="uint32")

    def test_files_of_different_types_are_refused(self, tmp_path):
        np.save(tmp_path / "a.npy", np.arange(4, dtype="u2"))
        np.save(tmp_path / "b.npy", np.arange(4, dtype="i4"))

        with pytest.raises(MismatchError, match=r"a\.npy.*b\.npy"):
            tokenmill.open(tmp_path)

    def test_a_dataset_of_ours_knows_its_tokenizer(self, tmp_path):
        folder = write_ours(tmp_path / "d", {"train": [[15496, 995, 50256]], "val": []}, 100)

        data = tokenmill.open(folder)

        assert (data.vocab_size, data.end_of_text_id, data.end_of_text_comes) == (
            50257,
            50256,
            "after",
        )
        assert data.tokenizer.name == "gpt2"
        assert data.decode(data.tokens(0, 2)) == "Hello world"
        assert data.decode([447]) == "\N{REPLACEMENT CHARACTER}"
        with pytest.raises(FormatError, match="no tokens"):
            tokenmill.open(folder, "val")
        with pytest.raises(FormatError, match="has no test split; it has train, val"):
            tokenmill.open(folder, "test")
        with pytest.raises(TokenizerMismatchError):
            _ = tokenmill.open(folder, tokenizer="bytes").tokenizer

    def test_decoding_without_a_tokenizer_asks_for_one(self, tmp_path):
        path = raw(tmp_path, x__bin=[72, 105]) / "x.bin"

        with pytest.raises(tokenmill.TokenmillError, match="names the tokenizer"):
            tokenmill.open(path, "all", dtype="uint16").decode([72])
        assert (
            tokenmill.open(path, "all", dtype="uint16", tokenizer="bytes").decode([72, 105]) == "Hi"
        )

    def test_a_dataset_whose_preparation_was_stopped_is_refused(self, tmp_path):
        """Its shards are there already, and look like raw files."""
        raw(tmp_path / "train", shard_00000__bin=[1, 2, 3])
        (tmp_path / ".preparation").mkdir()

        with pytest.raises(NotADatasetError, match="no dataset_metadata") as caught:
            tokenmill.open(tmp_path, dtype="uint16")
        assert "tokenmill prepare" in caught.value.hint

    def test_the_tokenizer_beside_a_pretokenized_npy_is_found(self, tmp_path):
        (tmp_path / "a.txt").write_text("Hello world")
        tokenmill.pretokenize(tmp_path / "a.txt", tokenizer="gpt2")

        data = tokenmill.open(tmp_path / "a.npy", "all")

        assert data.decode(data.tokens(0, data.num_tokens)) == "Hello world"
        assert data.vocab_size == 50257


class TestDocuments:
    @given(
        lengths=st.lists(st.integers(0, 9), max_size=30),
        tail=st.integers(0, 5),
        window=st.tuples(st.integers(0, 300), st.integers(0, 300)),
    )
    def test_ends_from_an_index_are_those_of_a_plain_loop(self, lengths, tail, window):
        ends = np.cumsum(lengths, dtype=np.int64)
        total = int(sum(lengths)) + tail
        data = from_array(np.arange(total, dtype="u2"), document_ends=ends)

        assert data.num_documents == len(lengths) + (tail > 0)
        bounds = [0, *ends.tolist(), *([total] if tail else [])]
        for i in range(data.num_documents):
            assert data.document_range(i) == (bounds[i], bounds[i + 1])
        for position in range(total):
            owner = data.document_at(position)
            assert bounds[owner] <= position < bounds[owner + 1]
        start, stop = sorted(min(x, total) for x in window)
        assert data.document_ends(start, stop).tolist() == sorted(
            {e for e in ends.tolist() if start < e <= stop}
        )

    @given(
        ids=st.lists(st.integers(0, 3), min_size=1, max_size=60),
        comes=st.sampled_from(["after", "before"]),
        block=st.integers(1, 9),
    )
    def test_ends_by_scanning_are_those_of_a_plain_loop(self, ids, comes, block):
        documents = [[]]
        for token in ids:  # the oracle: cut after, or before, each 0
            if comes == "before" and token == 0 and documents[-1]:
                documents.append([])
            documents[-1].append(token)
            if comes == "after" and token == 0:
                documents.append([])
        documents = [document for document in documents if document]
        array = np.array(ids, "u2")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tokenmill.reading.document_index.BLOCK", block)
            scanned = ScannedDocuments(lambda a, b: array[a:b], len(ids), 0, comes)

            bounds = zip(*scanned.ranges(np.arange(len(documents))), strict=True)
            owners = [scanned.at(position) for position in range(len(ids))]
            with pytest.raises(IndexError):
                scanned.ranges(np.array([len(documents)]))

        assert [ids[start:stop] for start, stop in bounds] == documents
        assert owners == [i for i, document in enumerate(documents) for _ in document]

    def test_documents_straddle_shards(self, tmp_path):
        documents = [[1] * 7, [2] * 30, [3] * 3]
        data = tokenmill.open(write_ours(tmp_path / "d", {"train": documents}, 10))

        assert len(data.shards) == 4
        assert data.num_documents == 3
        assert [data.document(i).tolist() for i in range(3)] == documents
        assert data.document_ends(0, 40).tolist() == [7, 37, 40]
        assert data.document_at(36) == 1

    @pytest.mark.parametrize("scale", [1, 700])
    @pytest.mark.parametrize("length", [1, 2, 9, 10, 11, 57])
    def test_ends_of_many_rows_at_once_are_those_of_each(self, tmp_path, length, scale):
        """Rows within a shard, across one edge and across several, in any order and twice."""
        rng = np.random.default_rng(length)
        documents = [[1] * n for n in (rng.integers(1, 25, 40) * scale).tolist()]
        data = tokenmill.open(write_ours(tmp_path / "d", {"train": documents}, 10 * scale))
        length *= scale
        starts = rng.integers(0, data.num_tokens - length + 1, 200)

        rows, ends = data.document_ends_in_rows(starts, length)

        assert (np.diff(rows) >= 0).all()
        for row, start in enumerate(starts.tolist()):
            expected = data.document_ends(start, start + length - 1)
            assert ends[rows == row].tolist() == expected.tolist()

    def test_an_index_that_goes_back_is_refused(self, tmp_path):
        folder = write_ours(tmp_path / "d", {"train": [[1] * 4, [2] * 4]}, 10)
        ends = folder / "train" / "shard_00000.ends"
        ends.write_bytes(np.array([5, 4], "<u8").tobytes())

        with pytest.raises(CorruptShardError, match="goes back"):
            tokenmill.open(folder).document(0)


class TestBackends:
    def test_a_file_cut_short_while_open_is_an_error_with_pread(self, tmp_path):
        path = raw(tmp_path, x__bin=list(range(5000))) / "x.bin"
        data = tokenmill.open(path, "all", dtype="uint16", backend="pread")
        data.tokens(0, 5000)

        os.truncate(path, 4000)

        assert data.tokens(0, 2000).tolist() == list(range(2000))
        with pytest.raises(TruncatedShardError, match=r"x\.bin is 4,000 bytes; .* 10,000"):
            data.tokens(0, 5000)

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_a_file_changed_before_its_first_use_is_an_error(self, tmp_path, backend):
        path = raw(tmp_path, x__bin=list(range(50))) / "x.bin"
        for size, error in [(40, TruncatedShardError), (160, CorruptShardError)]:
            data = tokenmill.open(path, "all", dtype="uint16", backend=backend)
            os.truncate(path, size)
            with pytest.raises(error, match=r"x\.bin"):
                data.tokens(0, 1)
        data = tokenmill.open(path, "all", dtype="uint16", backend=backend)
        path.unlink()
        with pytest.raises(NotADatasetError, match="is gone"):
            data.tokens(0, 1)

    def test_reads_outside_are_refused(self, tmp_path):
        path = raw(tmp_path, x__bin=list(range(5))) / "x.bin"
        for data in (tokenmill.open(path, "all", dtype="uint16"), from_array(np.arange(5))):
            for start, stop in [(-1, 2), (3, 6), (4, 3)]:
                with pytest.raises(IndexError):
                    data.tokens(start, stop)
            with pytest.raises(IndexError):
                data.read_into(0, 3, np.empty(3, np.int64))

    def test_tokens_do_not_wrap_into_a_smaller_type_of_another_kind(self):
        data = from_array(np.array([-1, 70000], "i4"))

        with pytest.raises(TypeError):
            data.read_into(0, 0, np.empty(2, "u2"))

    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_threads_may_read_while_shards_come_and_go(self, tmp_path, backend):
        for i in range(100):
            np.full(64, i, "<u2").tofile(tmp_path / f"{i:03d}.bin")
        data = tokenmill.open(tmp_path, "all", dtype="uint16", backend=backend)
        data._reader.max_open = 2
        wrong = []

        def read(seed):
            for i in np.random.default_rng(seed).integers(0, 100, 2000):
                if not (data.tokens(64 * i, 64 * i + 64) == i).all():
                    wrong.append(i)

        threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not wrong

    @needs_strace
    def test_a_file_that_the_network_lost_is_opened_once_more(self, tmp_path):
        path = raw(tmp_path, x__bin=list(range(50))) / "x.bin"
        code = (
            "import sys, tokenmill;"
            "data = tokenmill.open(sys.argv[1], 'all', dtype='uint16', backend='pread');"
            "assert data.tokens(0, 50).tolist() == list(range(50))"
        )
        log = tmp_path / "log"
        stale = injecting("error=ESTALE:when=1", "preadv,preadv2", log=log)

        subprocess.run([*stale, "-P", path, sys.executable, "-c", code, path], check=True)

        calls = log.read_text().splitlines()
        assert [("ESTALE" in call, call.endswith("= 100")) for call in calls] == [
            (True, False),
            (False, True),
        ]


class TestBounds:
    @pytest.mark.parametrize("backend", ["mmap", "pread"])
    def test_ten_thousand_shards_work_with_256_open_files(self, tmp_path, backend):
        code = f"""
            import resource, sys, time
            resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
            import numpy as np, os, tokenmill
            # Ten files under ten thousand names: what counts is how many are open.
            for i in range(10_000):
                name = f"{{sys.argv[1]}}/{{i:05d}}.bin"
                if i < 10:
                    np.full(4, i, "<u2").tofile(name)
                else:
                    os.link(f"{{sys.argv[1]}}/{{i % 10:05d}}.bin", name)
            data = tokenmill.open(sys.argv[1], "all", dtype="uint16", backend="{backend}")
            for i in np.random.default_rng(0).permutation(10_000)[:3000]:
                assert (data.tokens(4 * i, 4 * i + 4) == i % 10).all()
            assert data.tokens(0, 40_000).sum() == 4 * 45 * 1000
            assert len(os.listdir("/proc/self/fd")) < 100
            loader = tokenmill.BatchLoader(data, batch_size=100, block_size=18)
            for _ in range(40):
                batch = next(loader)
                places = batch.starts[:, None] + np.arange(19)
                assert (batch.tokens == places // 4 % 10).all()
            assert len(os.listdir("/proc/self/fd")) < 200
        """
        subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)],
            check=True,
            env={**os.environ, "PYTHONPATH": "src"},
        )

    def test_a_trillion_tokens_in_a_sparse_file_open_with_little_memory(self, tmp_path):
        with (tmp_path / "big.bin").open("wb") as file:
            file.truncate(2 * 10**12)
            file.seek(2 * (10**12 - 3))
            file.write(np.array([7, 8, 9], "<u2").tobytes())

        data = tokenmill.open(tmp_path / "big.bin", "val", dtype="uint16")

        assert data.num_tokens == 10**11
        assert data.tokens(data.num_tokens - 3, data.num_tokens).tolist() == [7, 8, 9]

    def test_own_memory_does_not_grow_with_reading(self, tmp_path):
        for i in range(200):
            np.full(50_000, i, "<u2").tofile(tmp_path / f"{i:03d}.bin")
        data = tokenmill.open(tmp_path, "all", dtype="uint16", backend="pread")
        out = np.empty(50_000, np.int64)
        for i in range(50):
            data.read_into(i, 0, out)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        for i in range(200):
            data.read_into(i, 0, out)

        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3_000  # KB


class TestFromArray:
    def test_an_array_is_a_dataset(self):
        ids = np.arange(10, dtype="u4")

        data = from_array(ids, document_ends=[4, 10], vocab_size=10, end_of_text=9)

        assert (data.format, data.backend, data.dtype) == ("array", "memory", np.dtype("u4"))
        assert (data.num_tokens, data.num_documents, data.vocab_size) == (10, 2, 10)
        assert data.array(0).base is not None
        assert data.document(1).tolist() == [4, 5, 6, 7, 8, 9]
        assert pickle.loads(pickle.dumps(data)).tokens(2, 4).tolist() == [2, 3]

    def test_its_fingerprint_is_of_its_tokens(self):
        prints = {from_array(np.array(x, "u2")).fingerprint for x in ([1, 2], [1, 3], [1, 2, 3])}

        assert len(prints) == 3
        assert from_array(np.array([1, 2], "u2")).fingerprint in prints

    @pytest.mark.parametrize("ids", [np.zeros((2, 2), int), np.zeros(3), [1.5]])
    def test_only_lists_of_integers_are(self, ids):
        with pytest.raises(ValueError, match="1-D array of integers"):
            from_array(ids)


def test_a_token_is_named_by_its_id_or_its_spelling(tmp_path):
    np.save(tmp_path / "x.npy", np.array([1, 50256, 2, 3, 50256], np.uint16))

    for token in (50256, "50256", "<|endoftext|>"):
        data = tokenmill.open(tmp_path / "x.npy", tokenizer="gpt2", end_of_text=token)
        assert data.document_ends(0, 5).tolist() == [2, 5]
    with pytest.raises(ValueError, match="'</s>' is not one of the special tokens of gpt2"):
        tokenmill.open(tmp_path / "x.npy", tokenizer="gpt2", begin_token="</s>")
    with pytest.raises(ValueError, match="name the tokenizer"):
        tokenmill.open(tmp_path / "x.npy", end_of_text="</s>")
