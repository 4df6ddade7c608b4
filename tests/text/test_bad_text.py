"""Text that is not UTF-8, and archives that are not whole."""

import bz2
import gzip
import lzma
import os
import tracemalloc

import pytest
from backports import zstd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text.naive import ANYWHERE, LETTERS, naive_documents, read_all

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.sources import find_sources
from tokenmill.text.inputs.units import Unit, cut_into_units
from tokenmill.text.reading.chunks import Edge, ReadRules
from tokenmill.text.reading.read import read_unit

SETTINGS = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
COMPRESS = {
    ".gz": gzip.compress, ".zst": zstd.compress, ".xz": lzma.compress, ".bz2": bz2.compress,
}  # fmt: skip
TEXT = b"".join(b"line %d of some text\n" % n for n in range(5000))


def test_bad_bytes_are_an_error_that_names_the_byte(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("caf\u00e9\n".encode() * 100 + b"here: \xe9t\xe9\n" + b"more\n" * 100)

    for document_is in ("file", "line", "paragraph"):
        for unit_bytes in (50, 1 << 20):
            with pytest.raises(BadInputError, match=r"a\.txt at byte 606: not UTF-8 \(bytes e9 74"):
                read_all(
                    path,
                    ReadRules(document_is=document_is, long_line=100),
                    unit_bytes=unit_bytes,
                    chunk_bytes=70,
                    cuts=ANYWHERE,
                )


def test_documents_with_bad_bytes_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nbad \xff\nalso good\ntruncated \xe4\xb8\nlast")
    rules = ReadRules(document_is="line", on_bad_input="skip")

    for unit_bytes in (1, 5, 1000):
        documents, dropped, _ = read_all(path, rules, unit_bytes=unit_bytes, chunk_bytes=7)

        assert documents == [b"good", b"also good", b"last"]
        assert dropped == {"not UTF-8": 2}


@pytest.mark.parametrize("unit_bytes", [64, 1 << 20])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_a_large_document_with_bad_bytes_is_never_left_out(tmp_path, unit_bytes, chunk_bytes):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some line\n" * 100 + b"\xff" + b"some line\n" * 100)
    rules = ReadRules(on_bad_input="skip", long_line=200)

    with pytest.raises(BadInputError, match=r"at byte 1,000: .* too large to leave out") as bad:
        read_all(path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=LETTERS)
    assert "replace" in bad.value.hint


def test_an_empty_file_is_one_empty_document(tmp_path):
    for name, data in (("a.txt", b""), ("b.txt.gz", gzip.compress(b""))):
        (tmp_path / name).write_bytes(data)
        for document_is in ("file", "line", "paragraph"):
            found, dropped, _ = read_all(tmp_path / name, ReadRules(document_is=document_is))
            assert (found, dropped) == ([], {"empty": 1})


@SETTINGS
@given(
    suffix=st.sampled_from(sorted(COMPRESS)),
    lines=st.lists(st.sampled_from(["", "word", "two words", "\u4e2d", "x" * 300]), max_size=50),
    members=st.integers(1, 4),
    chunk_bytes=st.sampled_from([1, 7, 100, 1 << 20]),
    long_line=st.sampled_from([5, 100, 10_000]),
    document_is=st.sampled_from(["file", "line", "paragraph"]),
)
def test_compressed_files_of_several_members_give_what_the_plain_text_gives(
    tmp_path, suffix, lines, members, chunk_bytes, long_line, document_is
):
    data = "\n".join(lines).encode()
    step = len(data) // members + 1
    parts = [data[n : n + step] for n in range(0, len(data), step)] or [b""]
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"".join(COMPRESS[suffix](part) for part in parts))
    rules = ReadRules(document_is=document_is, long_line=long_line)

    found, _, _ = read_all(path, rules, chunk_bytes=chunk_bytes, cuts=ANYWHERE)

    assert found == [document for document in naive_documents(data, rules) if document]


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
def test_an_archive_cut_at_any_length_is_an_error(tmp_path, suffix):
    data = COMPRESS[suffix](TEXT[:2000]) + COMPRESS[suffix](TEXT[2000:3000])
    first = len(COMPRESS[suffix](TEXT[:2000]))
    path = tmp_path / f"a.txt{suffix}"
    for length in range(12, len(data), 7):
        if length == first:
            continue  # a whole member: this cannot be detected
        path.write_bytes(data[:length])

        with pytest.raises(BadInputError, match=r"cut short|damaged"):
            read_all(path, ReadRules(on_bad_input="skip"))


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
def test_what_follows_an_archive_is_an_error_unless_it_is_zeros(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT) + bytes(512))
    documents, _, _ = read_all(path, ReadRules())
    assert documents == [TEXT]

    for garbage in (b"garbage", b"\0\0\0\0garbage"):
        path.write_bytes(COMPRESS[suffix](TEXT) + garbage)
        with pytest.raises(BadInputError, match=r"damaged|cut short"):
            read_all(path, ReadRules())


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
def test_a_flipped_byte_in_an_archive_is_an_error(tmp_path, suffix):
    compress = COMPRESS[suffix]
    if suffix == ".zst":
        options = {zstd.CompressionParameter.checksum_flag: 1}
        compress = lambda data: zstd.compress(data, options=options)  # noqa: E731
    data = bytearray(compress(TEXT))
    data[len(data) // 2] ^= 0x10
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(data)

    with pytest.raises(BadInputError, match=r"damaged|cut short"):
        read_all(path, ReadRules())


@pytest.mark.parametrize("suffix", sorted(COMPRESS))
def test_a_decompression_bomb_costs_time_not_memory(tmp_path, suffix):
    path = tmp_path / f"a.txt{suffix}"
    times = 1_500_000 if suffix != ".bz2" else 300_000  # packing it takes seconds
    path.write_bytes(COMPRESS[suffix](b"word and word\n" * times))
    rules = ReadRules(long_line=1 << 18, cuts=LETTERS, chunk_bytes=1 << 18)
    [source] = find_sources(path)
    tracemalloc.start()
    size = 0
    last = Edge.NONE
    for chunk in read_unit(source, Unit(0, 0, source.size), rules):
        size += sum(map(len, chunk.texts))
        last = chunk.open
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (size, last) == (14 * times, Edge.NONE)
    assert peak < 12 << 20  # xz keeps 8 MiB of history


def test_one_line_of_any_size_is_read_in_bounded_memory(tmp_path):
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        for _ in range(40):
            file.write(b"words without a line end " * 40_000)
    rules = ReadRules(long_line=1 << 18, cuts=LETTERS, chunk_bytes=1 << 18)
    sources = find_sources(path)
    tracemalloc.start()

    size = 0
    for unit in cut_into_units(sources, 10 << 20):
        for chunk in read_unit(sources[0], unit, rules):
            size += sum(map(len, chunk.texts))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert size == os.path.getsize(path)
    assert peak < 4 << 20
