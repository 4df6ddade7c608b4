"""Documents sorted by length: equal to a plain sort, kept in a file, and never of other data."""

import errno
import os
import pickle
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import BatchLoader, from_array
from tokenmill.errors import CorruptShardError, FormatError, MismatchError, TokenmillError
from tokenmill.reading.length_index import IN_MEMORY, sort_by_length

NUM_TOKENS = IN_MEMORY + 1000


def plain(lengths):
    """Lengths, counts and starts, by NumPy's own stable sort."""
    lengths = np.asarray(lengths)
    starts = np.cumsum(lengths) - lengths
    values, counts = np.unique(lengths, return_counts=True)
    return values, counts, starts[np.argsort(lengths, kind="stable")]


def assert_sorted(found, lengths):
    tables = found if isinstance(found, tuple) else (found.lengths, found.counts, found.starts)
    for one, other in zip(tables, plain(lengths), strict=True):
        assert np.array_equal(one, other)


@given(
    lengths=st.lists(
        st.one_of(st.integers(1, 9), st.integers(1, 3000), st.integers(60_000, 200_000)),
        min_size=1,
        max_size=200,
    ),
    num_blocks=st.integers(1, 9),
    open_end=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_ends_in_any_blocks_give_the_plain_sort(lengths, num_blocks, open_end):
    ends = np.cumsum(lengths)
    given = np.array_split(ends[:-1] if open_end else ends, num_blocks)

    found = sort_by_length(
        given, int(ends[-1]), None, lambda _, counts: np.empty(counts.sum(), "<u4")
    )

    assert_sorted(found, lengths)


def test_many_blocks_and_more_than_65536_lengths_are_sorted():
    """Over two million documents in three blocks, and 70,000 distinct lengths."""
    rng = np.random.default_rng(0)
    lengths = np.concatenate([np.arange(1, 70_001), rng.integers(1, 300, 2_200_000)])
    rng.shuffle(lengths)
    ends = np.cumsum(lengths)

    found = sort_by_length(
        np.array_split(ends, 5), int(ends[-1]), None, lambda _, c: np.empty(c.sum(), "<u8")
    )

    assert_sorted(found, lengths)


def lengths_of_large_data():
    lengths = np.random.default_rng(1).integers(1, 3000, 20_000)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), NUM_TOKENS)]
    return np.append(lengths, NUM_TOKENS - lengths.sum())


@pytest.fixture(scope="module")
def large():
    """A file of more tokens than are sorted in memory, with 0 after each document."""
    ids = np.ones(NUM_TOKENS, np.uint16)
    ids[np.cumsum(lengths_of_large_data()) - 1] = 0
    return ids


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tokenmill" / "documents"


@pytest.fixture
def large_file(tmp_path, large):
    large.tofile(tmp_path / "tokens.bin")
    return tmp_path / "tokens.bin"


def open_large(path, **options):
    return tokenmill.open(path, dtype="uint16", end_of_text=0, **options)


def test_large_data_is_sorted_once_and_mapped_from_then_on(cache, large_file):
    index = open_large(large_file).documents_by_length()
    (file,) = cache.iterdir()
    written = file.stat().st_mtime_ns

    again = open_large(large_file).documents_by_length()

    assert_sorted(index, lengths_of_large_data())
    assert_sorted(again, lengths_of_large_data())
    assert again.fingerprint == index.fingerprint
    assert [file.stat().st_mtime_ns for file in cache.iterdir()] == [written]
    assert not again.starts.flags.writeable
    travelled = pickle.dumps(again)
    assert len(travelled) < 1000
    assert_sorted(pickle.loads(travelled), lengths_of_large_data())


def test_another_block_size_and_begin_token_need_no_other_index(cache, large_file):
    data = open_large(large_file)
    for options in ({"block_size": 512}, {"block_size": 64, "begin_token": 5}):
        BatchLoader(data, rows="packed", **options)

    assert len(list(cache.iterdir())) == 1


def test_small_data_leaves_nothing_in_the_cache(cache):
    index = from_array(np.ones(100, np.uint16), document_ends=[10, 60]).documents_by_length()

    assert_sorted(index, [10, 50, 40])
    assert not cache.exists()
    assert_sorted(pickle.loads(pickle.dumps(index)), [10, 50, 40])


def test_other_ends_in_the_same_tokens_are_another_index(cache, large):
    ends = np.arange(1000, NUM_TOKENS, 1000)
    for chosen in (ends, ends + 1, ends):
        data = from_array(large, document_ends=chosen)
        index = data.documents_by_length()
        assert np.sort(index.starts).tolist() == [0, *chosen.tolist()]

    assert len(list(cache.iterdir())) == 2


def test_empty_documents_are_left_out():
    index = from_array(np.ones(9, np.uint16), document_ends=[0, 3, 3, 9]).documents_by_length()

    assert_sorted(index, [3, 6])


SORT = """
import sys, tokenmill
data = tokenmill.open(sys.argv[1], dtype="uint16", end_of_text=0)
print(data.documents_by_length().fingerprint)
"""


def test_many_processes_at_once_get_the_same_index(cache, large_file):
    command = [sys.executable, "-c", SORT, large_file]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = {process.communicate()[0] for process in running}

    assert {process.returncode for process in running} == {0}
    assert printed == {open_large(large_file).documents_by_length().fingerprint + "\n"}
    assert [file.suffix for file in cache.iterdir()] == [".documents"]


def test_a_file_of_other_data_in_its_place_is_refused(cache, large_file, large):
    open_large(large_file).documents_by_length()
    (file,) = cache.iterdir()
    other = from_array(large, document_ends=[5]).documents_by_length()
    other.path.rename(file)

    with pytest.raises(MismatchError, match="is an index of other data"):
        open_large(large_file).documents_by_length()


@pytest.mark.parametrize("damage", ["cut short", "another kind of file", "empty"])
def test_a_damaged_file_is_refused_by_name(cache, large_file, damage):
    open_large(large_file).documents_by_length()
    (file,) = cache.iterdir()
    contents = file.read_bytes()
    file.write_bytes({"cut short": contents[:-4], "empty": b""}.get(damage, b"x" * 9000))

    with pytest.raises(CorruptShardError, match=f"{file.name} is not a whole index"):
        open_large(large_file).documents_by_length()


def test_no_flipped_bit_gives_another_index(cache, large_file):
    """Rows would be packed in another way, and the fingerprint of the order would stay the same."""
    index = open_large(large_file).documents_by_length()
    (file,) = cache.iterdir()
    contents = file.read_bytes()
    tables = range(4096, 4096 + 16 * len(index.lengths))
    starts = range(len(contents) - index.starts.nbytes, len(contents))
    rng = np.random.default_rng(0)

    for places in (range(4096), tables, starts):
        for place in rng.choice(places, 20):
            damaged = bytearray(contents)
            damaged[place] ^= 1 << rng.integers(8)
            file.write_bytes(damaged)
            with pytest.raises((CorruptShardError, MismatchError), match=file.name):
                open_large(large_file).documents_by_length()


def test_what_a_killed_builder_left_is_removed_after_a_day(cache, large_file):
    name = open_large(large_file).documents_by_length().path.name
    (cache / name).unlink()
    long_ago, just_now = cache / f".{name}.12-0123abcd.tmp", cache / f".{name}.34-0123abcd.tmp"
    for path in (long_ago, just_now):
        path.write_bytes(b"begun")
    os.utime(long_ago, (0, 0))

    open_large(large_file).documents_by_length()

    assert {file.name for file in cache.iterdir()} == {name, just_now.name}


def test_a_full_disk_is_an_error_with_the_folder_and_leaves_nothing(cache, large_file):
    """A limit on the size of files stands for the disk: its error comes from the same call."""
    data = open_large(large_file)
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        with pytest.raises(TokenmillError, match="cannot write the index of documents") as caught:
            data.documents_by_length()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert str(cache) in str(caught.value)
    assert "XDG_CACHE_HOME" in caught.value.hint
    assert caught.value.__cause__.errno == errno.EFBIG
    assert list(cache.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_with_its_name(tmp_path, large_file, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(TokenmillError, match="cannot write the index of documents"):
        open_large(large_file).documents_by_length()


def test_data_that_does_not_know_its_documents_has_no_index():
    with pytest.raises(FormatError, match="says where documents end"):
        from_array(np.ones(10, np.uint16)).documents_by_length()


def test_rows_from_the_file_are_those_of_a_plain_loop(cache, large_file, large):
    loader = BatchLoader(open_large(large_file), rows="packed", batch_size=4, block_size=4096)

    for step in (0, 100):
        batch = loader.batch(step)
        spans = batch.spans
        for i, row in enumerate(spans.row.tolist()):
            start, size, column = spans.start[i], spans.length[i], spans.column[i]
            held = batch.tokens[row, column : column + size]
            assert np.array_equal(held, large[start : start + size])
    assert Path(cache).exists()
