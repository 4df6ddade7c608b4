"""Gathering rows: the same tokens as plain slices, whatever the shards, backend and dtype."""

import multiprocessing
import shutil
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tokenmill
from tokenmill import BatchLoader, Mixture, kernel
from tokenmill.batches import BatchForm
from tokenmill.batches.id_check import IdCheck, check_dtype
from tokenmill.dataset import from_array
from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.order.order import ANYWHERE
from tokenmill.order.spans import whole_rows
from tokenmill.reading.span_reader import RunReader

DATA = Path(__file__).parents[1] / "data"
IDS = np.random.default_rng(0).integers(0, 60_000, 1000).astype(np.uint16)
STARTS = np.random.default_rng(1).integers(0, 1000 - 33, 200)
SHARDS = [
    [1000],
    [500, 500],
    [1, 998, 1],
    [10] * 100,  # windows longer than a shard
    [333, 1, 1, 665],
    [999, 1],
]


def plain(starts, length):
    return [IDS[start : start + length].tolist() for start in starts]


def gather(data, starts, length):
    reader = data.span_reader(ANYWHERE, IdCheck(data, BatchForm(dtype=data.dtype)))
    rows = np.empty((len(starts), length), data.dtype)
    reader.read(whole_rows(np.asarray(starts, np.int64), length), rows)
    return rows


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("lengths", SHARDS, ids=lambda lengths: f"{len(lengths)} shards")
@pytest.mark.parametrize("dtype", ["int64", "uint16", "int32"])
def test_rows_are_the_tokens_of_their_slices(in_shards, lengths, backend, dtype):
    data = in_shards(IDS.astype(dtype), lengths, backend=backend)

    rows = gather(data, STARTS, 33)

    assert rows.dtype == dtype
    assert rows.tolist() == plain(STARTS, 33)


def test_rows_may_end_with_the_very_last_token_and_start_with_the_first(in_shards):
    for lengths in SHARDS:
        rows = gather(in_shards(IDS, lengths), [0, 1000 - 33, 967], 33)

        assert rows.tolist() == plain([0, 967, 967], 33)


@pytest.mark.parametrize("with_kernel", [True, False])
@pytest.mark.parametrize("max_open", [1, 2, 3, 20])
@pytest.mark.parametrize("out", ["uint16", "int32", "int64"])
def test_rows_are_the_same_however_few_runs_may_be_held(monkeypatch, with_kernel, max_open, out):
    if not with_kernel:
        monkeypatch.setattr(kernel, "compiled", None)
    opened = []

    def array_of(run):
        opened.append(run)
        return IDS[run * 50 : (run + 1) * 50]

    reader = in_runs_of_50(array_of, max_open)
    rows = np.empty((len(STARTS), 33), out)

    reader.read(whole_rows(STARTS, 33), rows)

    assert rows.tolist() == plain(STARTS, 33)
    assert len(opened) == 20 or max_open < 20
    assert sum(run in reader for run in range(20)) <= max_open


def in_runs_of_50(array_of, max_open):
    ids = SimpleNamespace(largest=65_535, end_of_text=None, comes_before=False)
    return RunReader(np.arange(0, 1001, 50), IDS.dtype, array_of, max_open, ids)


def test_a_process_that_is_forked_while_another_thread_reads_does_not_wait_for_it():
    is_reading, may_go_on = threading.Event(), threading.Event()

    def array_of(run):
        if run == 0:
            is_reading.set()
            may_go_on.wait()
        return IDS[run * 50 : (run + 1) * 50]

    def read(start):
        rows = np.empty((1, 33), np.uint16)
        reader.read(whole_rows(np.array([start]), 33), rows)
        assert rows.tolist() == plain([start], 33)

    reader = in_runs_of_50(array_of, 3)
    thread = threading.Thread(target=read, args=[0])
    thread.start()
    is_reading.wait()
    forked = multiprocessing.get_context("fork").Process(target=read, args=[50])
    forked.start()
    forked.join(20)
    forked.kill()
    may_go_on.set()
    thread.join()

    assert forked.exitcode == 0


def test_an_array_in_memory_is_gathered_alike():
    assert gather(from_array(IDS), STARTS, 33).tolist() == plain(STARTS, 33)


@pytest.mark.parametrize("lengths", [[1000], [500, 500]], ids=str)
def test_rows_belong_to_the_caller(in_shards, lengths):
    """Writing into a row changes neither the data nor the next gather."""
    data = in_shards(IDS, lengths)
    first = gather(data, STARTS, 33)

    first[:] = 0

    assert gather(data, STARTS, 33).tolist() == plain(STARTS, 33)


def test_no_rows_are_no_rows(in_shards):
    assert gather(in_shards(IDS, [500, 500]), [], 33).shape == (0, 33)


def test_a_dtype_that_ids_may_not_fit_into_is_refused():
    wide = np.arange(10, dtype=np.uint32)

    with pytest.raises(ValueError, match="dtype uint16 holds ids up to 65,535"):
        check_dtype(from_array(wide), "uint16")
    with pytest.raises(ValueError, match="vocabulary size is 100,000"):
        check_dtype(from_array(wide, vocab_size=100_000), "uint16")
    with pytest.raises(ValueError, match="float32"):
        BatchForm(dtype="float32")
    check_dtype(from_array(wide, vocab_size=65_536), "uint16")
    check_dtype(from_array(wide), "int64")


def test_an_id_that_does_not_fit_is_refused_whatever_the_vocabulary_is_said_to_be():
    wide = np.array([1, 2, 70_000, 3] * 10, np.int32)
    loader = BatchLoader(
        from_array(wide, vocab_size=50_257),
        batch_size=1,
        block_size=8,
        form=BatchForm(dtype="uint16"),
    )

    with pytest.raises(FormatError, match=r"holds the id 70,000, which uint16 cannot hold"):
        next(loader)


def test_the_source_of_a_mixture_that_holds_such_an_id_is_named(tmp_path):
    sources = {}
    for name, largest in (("good", 9), ("bad", 70_000)):
        np.save(tmp_path / f"{name}.npy", np.array([1, 2, largest] * 20, np.uint32))
        sources[name] = tokenmill.open(tmp_path / f"{name}.npy", "all", tokenizer="gpt2")
    mixture = Mixture(sources, weights={"good": 1, "bad": 1})

    with pytest.raises(FormatError, match=r"bad\.npy holds the id 70,000, which uint16 cannot"):
        next(BatchLoader(mixture, batch_size=64, block_size=8, form=BatchForm(dtype="uint16")))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_an_id_below_0_is_refused_when_its_row_is_served(tmp_path, dtype):
    ids = np.arange(100, dtype=dtype)
    ids[70] = -5
    np.save(tmp_path / "x.npy", ids)
    data = tokenmill.open(tmp_path / "x.npy")
    loader = BatchLoader(data, batch_size=1, block_size=10, order="sequential")

    for _ in range(6):  # the rows before it are served
        next(loader)
    with pytest.raises(FormatError, match=r"x\.npy holds the id -5, .*below 0 \(its token 70;"):
        next(loader)
    with pytest.raises(FormatError, match="-5"):
        loader.windows()[6]
    unchecked = BatchLoader(
        data, batch_size=9, block_size=10, order="sequential", form=BatchForm(check_ids=False)
    )
    assert next(unchecked).inputs.ravel().tolist() == ids[:90].tolist()


def one_row_at_a_time(path, **options):
    data = tokenmill.open(path, **options)
    return BatchLoader(data, batch_size=1, block_size=8, order="sequential")


def test_the_vocabulary_may_be_known_by_the_name_of_a_tokenizer(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([1, 50_256, 50_257] * 20, np.uint16))

    with pytest.raises(FormatError, match=r"x\.npy holds the id 50,257, .*50,257 ids"):
        next(one_row_at_a_time(path, tokenizer="gpt2"))
    next(one_row_at_a_time(path))
    with pytest.raises(ValueError, match="no tokenizer 'gtp2'"):
        one_row_at_a_time(path, tokenizer="gtp2")


def test_the_vocabulary_may_be_known_by_the_tokenizer_next_to_the_file(tmp_path):
    (tmp_path / "a.txt").write_text("Some text. " * 20)
    tokenmill.pretokenize(tmp_path / "a.txt", tokenizer="bytes")
    ids = np.load(tmp_path / "a.npy", mmap_mode="r+")
    ids[5] = 300
    ids.flush()

    with pytest.raises(FormatError, match=r"a\.npy holds the id 300, .*\(its token 5;"):
        next(one_row_at_a_time(tmp_path / "a.npy"))
    (tmp_path / "a.tokenizer_state.json").write_text("{}")
    batch = next(one_row_at_a_time(tmp_path / "a.npy"))
    assert batch.inputs[0, 5] == 300  # nothing says any more that it is none


def test_ids_that_were_compared_when_they_were_written_are_not_compared_again(tmp_path):
    """What changes in our own files later is found by their hashes."""
    tokens = np.array([7] * 60 + [50256], np.uint16)
    np.save(tmp_path / "x.npy", tokens)
    how = {"tokenizer": "gpt2", "end_of_text": 50256}
    tokenmill.convert(tmp_path / "x.npy", tmp_path / "ours", to="tokenmill", **how)
    (shard,) = (tmp_path / "ours").rglob("*.bin")
    shard.write_bytes(np.where(np.arange(61) == 3, 60_000, tokens).astype("<u2").tobytes())

    assert tokenmill.open(tmp_path / "ours").has_manifest
    with pytest.raises(CorruptShardError):
        next(one_row_at_a_time(tmp_path / "ours", verify=True))


def test_an_id_below_0_of_megatron_is_refused(tmp_path):
    shutil.copytree(DATA / "megatron_int32", tmp_path / "m")
    tokens = np.memmap(tmp_path / "m" / "corpus.bin", "<i4")
    tokens[-2] = -1
    tokens.flush()
    data = tokenmill.open(tmp_path / "m", "all")

    with pytest.raises(FormatError, match=rf"holds the id -1, .*\(its token {len(tokens) - 2:,};"):
        next(BatchLoader(data, batch_size=1, block_size=data.num_tokens - 1))


@pytest.mark.parametrize("cut", SHARDS)
@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_an_id_beyond_the_vocabulary_is_refused_with_its_file(tmp_path, cut, backend):
    ids = IDS % 500
    ids[985] = 503
    for i, part in enumerate(np.split(ids, np.cumsum(cut)[:-1])):
        np.save(tmp_path / f"{i:03}.npy", part)
    tokenizer = SimpleNamespace(vocab_size=503, fingerprint="x", name="x", end_of_text_id=502)
    data = tokenmill.open(tmp_path, "all", tokenizer=tokenizer, backend=backend)
    file = int(np.searchsorted(np.cumsum(cut), 985, side="right"))
    token = 985 - sum(cut[:file])

    expected = (
        rf"{file:03}\.npy holds the id 503, .*not in its vocabulary \(its token {token}; .*503 ids"
    )
    with pytest.raises(FormatError, match=expected):
        next(BatchLoader(data, batch_size=30, block_size=33, order="sequential"))
    assert len(next(BatchLoader(data, batch_size=29, block_size=33, order="sequential")).tokens)


def test_the_vocabulary_of_gpt2_is_not_built_to_know_its_size(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", IDS % 500)
    data = tokenmill.open(tmp_path / "x.npy", tokenizer="gpt2")
    monkeypatch.setattr("tokenmill.tokens.vocabulary.Vocabulary.__init__", None)

    next(BatchLoader(data, batch_size=8, block_size=33))


def test_rows_of_a_map_that_is_not_aligned_are_taken_without_a_copy_of_it(tmp_path):
    """A terabyte would not fit into memory; the tokens begin at an odd byte, as after a header."""
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 + 2 * 5000)
        file.write(np.arange(1, 34, dtype="<u2").tobytes())
    tokens = np.ndarray((1 << 39) - 8, "<u2", np.memmap(path, np.uint8, "r"), 1)
    assert not tokens.flags.aligned
    ids = SimpleNamespace(largest=65_535, end_of_text=None, comes_before=False)
    reader = RunReader(np.array([0, len(tokens)]), tokens.dtype, lambda run: tokens, 1, ids)
    rows = np.empty((3, 33), np.int64)

    reader.read(whole_rows(np.array([5000, 0, (1 << 39) - 100]), 33), rows)

    assert rows.tolist() == [list(range(1, 34)), [0] * 33, [0] * 33]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how a map is read")
@pytest.mark.parametrize(
    ("num_bytes", "order", "is_by_page"),
    [
        (1 << 42, "shuffle", True),
        (1 << 42, "random", True),
        (1 << 42, "sequential", False),
        (1 << 42, "blocks", False),
        (1 << 20, "shuffle", False),  # it stays in memory once it was read: the more the better
    ],
)
def test_maps_are_read_by_the_page_where_reading_ahead_is_in_vain(
    tmp_path, num_bytes, order, is_by_page
):
    """The system read 8 MB for each row, 1 GB for a first batch."""
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(num_bytes)
    loader = tokenmill.BatchLoader(
        tokenmill.open(path, dtype="uint16"),
        batch_size=4,
        block_size=64,
        order=order,
        form=BatchForm(prefetch=0),
    )

    next(loader)

    smaps = Path("/proc/self/smaps").read_text().partition(str(path))[2]
    assert ("rr" in smaps.partition("VmFlags:")[2].partition("\n")[0].split()) == is_by_page
