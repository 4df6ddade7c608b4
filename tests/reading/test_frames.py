"""Frames are plain zstd to everybody else, any range of them is had alone, and damage is named."""

import contextlib
import io
import shutil
import subprocess
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill.errors import CorruptShardError, TruncatedShardError
from tokenmill.reading.frames import (
    FRAME_BYTES,
    Frames,
    FrameWriter,
    open_frames,
    unpacked_blocks,
    zstd_library,
)

TABLE_HEAD, TABLE_FOOTER, TABLE_ENTRY = 8, 9, 12


def content_of(size: int) -> bytes:
    """Bytes that a compressor finds something in, but not everything."""
    return np.random.default_rng(size).integers(0, 40, size, np.uint8).tobytes()


def pack(content: bytes, chunks=(1 << 30,), level: int = 1) -> bytes:
    file, done = io.BytesIO(), 0
    writer = FrameWriter(file, level)
    while done < len(content):
        for chunk in chunks:
            writer.write(content[done : done + chunk])
            done += chunk
    writer.finish()
    return file.getvalue()


def frames_of(packed: bytes, num_bytes: int) -> Frames:
    def read_at(start: int, count: int) -> bytes:
        return packed[start : start + count]

    return Frames(read_at, "x.zst", num_bytes, len(packed))


CONTENT = content_of(2 * FRAME_BYTES + 12_345)
PACKED = pack(CONTENT)
SIZES = [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, len(CONTENT)]


@pytest.mark.parametrize("size", SIZES)
def test_the_zstd_command_and_arrow_read_what_was_packed(tmp_path, size):
    pyarrow = pytest.importorskip("pyarrow")
    content = content_of(size)
    path = tmp_path / "a.bin.zst"
    path.write_bytes(pack(content, level=3))

    if size:  # Arrow takes a file without content for one that was cut
        with pyarrow.input_stream(str(path), compression="zstd") as stream:
            assert stream.read() == content
    if command := shutil.which("zstd"):
        done = subprocess.run([command, "-dc", path], capture_output=True, check=True)
        assert done.stdout == content


@pytest.mark.parametrize("size", SIZES)
def test_the_layout_is_that_of_the_specification(size):
    """Read by hand: frames one after another, then the table as docs/reference/format.md has it."""
    content = content_of(size)
    packed = pack(content)
    number, descriptor, magic = np.frombuffer(
        packed[-TABLE_FOOTER:], np.dtype("<u4, u1, <u4"), 1
    ).tolist()[0]
    assert (number, descriptor, magic) == (-(-size // FRAME_BYTES), 0x80, 0x8F92EAB1)
    length = TABLE_ENTRY * number + TABLE_FOOTER
    head = np.frombuffer(packed, "<u4", 2, len(packed) - length - TABLE_HEAD).tolist()
    assert head == [0x184D2A5E, length]
    entries = np.frombuffer(packed, "<u4", 3 * number, len(packed) - length).reshape(-1, 3)
    at = 0
    for k, (compressed, held, _) in enumerate(entries.tolist()):
        alone = zstd_library().decompress(packed[at : at + compressed])
        assert alone == content[k * FRAME_BYTES : (k + 1) * FRAME_BYTES]
        assert len(alone) == held
        at += compressed
    assert at == len(packed) - length - TABLE_HEAD


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_how_it_was_written_does_not_matter_and_any_range_is_read(data):
    size = data.draw(st.sampled_from([*SIZES, 700_000]))
    chunks = data.draw(st.lists(st.integers(1, 900_000), min_size=1, max_size=4))
    if sum(chunks) < size // 50:
        chunks.append(size // 3 + 1)
    content = content_of(size)

    packed = pack(content, chunks)

    assert packed == pack(content)
    assert b"".join(frames_of(packed, size)) == content


@given(st.integers(0, len(PACKED) - 1), st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_never_gives_other_content(byte, bit):
    damaged = bytearray(PACKED)
    damaged[byte] ^= 1 << bit

    with contextlib.suppress(CorruptShardError):
        found = b"".join(frames_of(bytes(damaged), len(CONTENT)))
        assert found == CONTENT  # the headers of zstd have a few bits without a meaning


def test_the_damaged_frame_is_named_and_the_others_are_read():
    frames = frames_of(PACKED, len(CONTENT))
    damaged = bytearray(PACKED)
    damaged[int(frames.starts[1]) + 1000] ^= 0xFF
    frames = frames_of(bytes(damaged), len(CONTENT))

    with pytest.raises(CorruptShardError, match=r"frame 1 of x\.zst \(of 3; bytes .* is damaged"):
        frames[1]
    assert frames[0] + frames[2] == CONTENT[:FRAME_BYTES] + CONTENT[2 * FRAME_BYTES :]


def test_frames_that_changed_places_are_noticed():
    starts = frames_of(PACKED, len(CONTENT)).starts.tolist()
    first, second = PACKED[: starts[1]], PACKED[starts[1] : starts[2]]
    table = bytearray(PACKED[starts[3] :])
    sizes = np.frombuffer(table, "<u4", 9, TABLE_HEAD).reshape(3, 3)
    sizes[0, 0], sizes[1, 0] = len(second), len(first)
    swapped = second + first + PACKED[starts[2] : starts[3]] + bytes(table)

    with pytest.raises(CorruptShardError, match="its content is not that of the table"):
        frames_of(swapped, len(CONTENT))[0]


def with_bomb(bomb: bytes) -> bytes:
    """One frame of 1,000 bytes by its table, but other bytes are in its place."""
    table = np.frombuffer(pack(bytes(1000))[-29:], np.uint8).copy()
    table[TABLE_HEAD : TABLE_HEAD + 4] = np.frombuffer(len(bomb).to_bytes(4, "little"), np.uint8)
    return bomb + table.tobytes()


def test_a_frame_that_claims_more_than_the_manifest_is_not_unpacked():
    bomb = zstd_library().compress(bytes(1 << 30))

    with pytest.raises(CorruptShardError, match="claims to hold 1,073,741,824 bytes, not 1,000"):
        frames_of(with_bomb(bomb), 1000)[0]


def test_a_frame_that_claims_nothing_and_yields_more_is_stopped():
    zstd = zstd_library()
    compressor = zstd.ZstdCompressor()
    parts = [compressor.compress(bytes(1 << 20)) for _ in range(64)]  # no size in its header
    bomb = b"".join([*parts, compressor.flush()])

    with pytest.raises(CorruptShardError, match=r"frame 0 of x\.zst"):
        frames_of(with_bomb(bomb), 1000)[0]


def test_a_file_that_was_cut_is_truncated(tmp_path):
    path = tmp_path / "a.zst"
    path.write_bytes(PACKED[:-1])

    with pytest.raises(TruncatedShardError, match=f"promises {len(PACKED):,}"):
        open_frames(path, len(CONTENT), len(PACKED))


@pytest.mark.parametrize("num_bytes", [0, len(CONTENT) - 1, len(CONTENT) + 1, 10 * len(CONTENT)])
def test_a_table_of_another_size_is_refused(num_bytes):
    with pytest.raises(CorruptShardError, match="no sound table of frames"):
        frames_of(PACKED, num_bytes)


@pytest.mark.parametrize("codec", ["frames", "gz"])
def test_a_stream_yields_what_was_stated_and_never_more(codec):
    if codec == "gz":
        compressor = zlib.compressobj(wbits=31)
        packed = compressor.compress(CONTENT) + compressor.flush()
    else:
        packed = PACKED

    def read(data, stated):
        return b"".join(unpacked_blocks(io.BytesIO(data), codec, "a", stated))

    assert read(packed, len(CONTENT)) == CONTENT
    with pytest.raises(CorruptShardError, match="more follows than was stated"):
        read(packed, len(CONTENT) - 1)
    with pytest.raises(CorruptShardError, match="ends 1 bytes early"):
        read(packed, len(CONTENT) + 1)
    with pytest.raises(CorruptShardError, match="is damaged after"):
        read(packed[: len(packed) // 2], len(CONTENT))
