"""Bytes as zstd frames of 1 MiB each, with a table at the end that says where every frame is.

This is the seekable layout of zstd; format.md specifies it. Smaller frames pack worse and are
slower to unpack, larger ones cost more for a single row: with GPT-2 ids of English at level 3, 256
KiB unpack at 0.67 of the speed of 1 MiB, and 4 MiB are 0.5 % smaller.

Every size is known beforehand, from the manifest: a frame that claims or yields another one is
refused before it can fill the memory.
"""

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import xxhash

from tokenmill.base.descriptors import read_at
from tokenmill.base.hashing import regular
from tokenmill.base.zstd import zstd_library
from tokenmill.errors import CorruptShardError, TruncatedShardError
from tokenmill.reading.shard_reader import Descriptor

FRAME_BYTES = 1 << 20
_SKIPPED, _SEEKABLE, _HAS_CHECKSUMS = 0x184D2A5E, 0x8F92EAB1, 0x80
_ENTRY = np.dtype([("packed", "<u4"), ("content", "<u4"), ("checksum", "<u4")])
_FOOTER = np.dtype([("frames", "<u4"), ("descriptor", "u1"), ("magic", "<u4")])
_HEAD = np.dtype([("magic", "<u4"), ("length", "<u4")])
_AT_ONCE = 4 << 20  # bytes of a stream
_FETCH = "fetch this file again, then run `tokenmill verify --full` on the dataset"

ReadAt = Callable[[int, int], bytes]
"""Bytes from a start on, so many; fewer at the end of the file."""


def num_frames(num_bytes: int) -> int:
    """How many frames hold this many bytes."""
    return -(-num_bytes // FRAME_BYTES)


class FrameWriter:
    """Packs what is written into `file`; `finish` adds the table. The same bytes every time."""

    def __init__(self, file: IO[bytes], level: int) -> None:
        zstd = zstd_library()
        parameters = zstd.CompressionParameter
        options = {parameters.compression_level: level, parameters.checksum_flag: 1}
        self._compressor = zstd.ZstdCompressor(options=options)
        self._file = file
        self._hash = xxhash.xxh3_128()
        self._waiting = bytearray()
        self._entries: list[tuple[int, int, int]] = []
        self.num_bytes = 0
        """Written to the file so far."""

    def write(self, data: memoryview | bytes) -> None:
        """Add bytes; they are packed when they fill a frame."""
        self._waiting += data
        while len(self._waiting) >= FRAME_BYTES:
            self._pack(self._waiting[:FRAME_BYTES])
            del self._waiting[:FRAME_BYTES]

    def finish(self) -> str:
        """Write the rest and the table; the xxh3-128 of the whole file."""
        if self._waiting:
            self._pack(self._waiting)
        rows = np.array(self._entries, _ENTRY)
        footer = np.array((len(rows), _HAS_CHECKSUMS, _SEEKABLE), _FOOTER)
        head = np.array((_SKIPPED, rows.nbytes + footer.nbytes), _HEAD)
        self._put(head.tobytes() + rows.tobytes() + footer.tobytes())
        return self._hash.hexdigest()

    def _pack(self, content: bytearray) -> None:
        packed = self._compressor.compress(content, self._compressor.FLUSH_FRAME)
        self._entries.append((len(packed), len(content), _checksum(content)))
        self._put(packed)

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._hash.update(data)
        self.num_bytes += len(data)


def open_frames(path: Path | str, num_bytes: int, packed_bytes: int) -> "Frames":
    """The frames of a file on disk, which stays open as long as they are in use."""
    file = Descriptor(regular(path))
    found = os.fstat(file.number).st_size
    if found < packed_bytes:
        raise TruncatedShardError(
            f"{path} is {found:,} bytes; its manifest promises {packed_bytes:,}", hint=_FETCH
        )
    return Frames(
        lambda start, count: read_at(file.number, count, start),
        str(path),
        num_bytes,
        packed_bytes,
    )


class Frames:
    """The frames of one file: `num_bytes` of content in `packed_bytes`; `name` is for errors."""

    def __init__(self, read_at: ReadAt, name: str, num_bytes: int, packed_bytes: int) -> None:
        self.name = name
        self.num_bytes = num_bytes
        self._read_at = read_at
        self._entries = self._read_table(packed_bytes)
        self.starts = np.concatenate([[0], self._entries["packed"].cumsum(dtype=np.int64)])
        """The first byte of each frame in the file, and where the last one ends."""

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, number: int) -> bytes:
        """The content of a frame."""
        start, stop = self.starts[number : number + 2].tolist()
        packed = self._read_at(start, stop - start)
        size = int(self._entries["content"][number])
        try:
            claimed = zstd_library().get_frame_info(packed).decompressed_size
            if claimed != size:
                stated = "an unknown number of" if claimed is None else f"{claimed:,}"
                raise self._damaged(number, f"it claims to hold {stated} bytes, not {size:,}")
            unpacker = zstd_library().ZstdDecompressor()
            content: bytes = unpacker.decompress(packed, size + 1)
        except zstd_library().ZstdError as error:
            raise self._damaged(number, str(error)) from None
        if len(content) != size or not unpacker.eof or unpacker.unused_data:
            raise self._damaged(number, f"it does not end after {size:,} bytes")
        if _checksum(content) != self._entries["checksum"][number]:
            raise self._damaged(number, "its content is not that of the table of frames")
        return content

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def _read_table(self, packed_bytes: int) -> np.ndarray:
        count = num_frames(self.num_bytes)
        body = count * _ENTRY.itemsize + _FOOTER.itemsize
        start = packed_bytes - body - _HEAD.itemsize
        data = self._read_at(max(0, start), packed_bytes - max(0, start)) if start >= 0 else b""
        if len(data) != _HEAD.itemsize + body:
            raise self._no_table("the file is too short for it")
        head = np.frombuffer(data, _HEAD, 1)[0]
        footer = np.frombuffer(data, _FOOTER, 1, len(data) - _FOOTER.itemsize)[0]
        if footer["magic"] != _SEEKABLE or footer["descriptor"] != _HAS_CHECKSUMS:
            raise self._no_table("the file ends with something else")
        if footer["frames"] != count or (head["magic"], head["length"]) != (_SKIPPED, body):
            raise self._no_table(f"{self.num_bytes:,} bytes need {count:,} frames, not these")
        entries = np.frombuffer(data, _ENTRY, count, _HEAD.itemsize)
        contents = np.full(count, FRAME_BYTES)
        contents[-1:] = self.num_bytes - (count - 1) * FRAME_BYTES
        if not np.array_equal(entries["content"], contents):
            raise self._no_table(f"its frames hold another size than {self.num_bytes:,} bytes")
        if int(entries["packed"].sum(dtype=np.int64)) != start:
            raise self._no_table(f"its frames do not fill the {start:,} bytes before it")
        return entries

    def _damaged(self, number: int, what: str) -> CorruptShardError:
        start, stop = self.starts[number : number + 2].tolist()
        return CorruptShardError(
            f"frame {number} of {self.name} (of {len(self)}; bytes {start:,} to {stop:,} of the "
            f"file) is damaged: {what}",
            hint=_FETCH,
        )

    def _no_table(self, what: str) -> CorruptShardError:
        return CorruptShardError(
            f"{self.name} has no sound table of frames at its end: {what}", hint=_FETCH
        )


def unpacked_blocks(
    file: BinaryIO, codec: str | None, name: str, num_bytes: int
) -> Iterator[bytes]:
    """Yield the content of a file in order, and close it.

    Compressed content must be `num_bytes`: never more is unpacked, and an error says where it ends.
    """
    unpacked: Any = file
    if codec == "gz":
        unpacked = gzip.GzipFile(fileobj=file)
    elif codec == "bz2":
        unpacked = bz2.BZ2File(file)
    elif codec is not None:
        unpacked = zstd_library().open(file)
    position = 0
    with file, unpacked:
        if codec is None:
            yield from iter(partial(file.read, _AT_ONCE), b"")
            return
        try:
            while block := unpacked.read(min(_AT_ONCE, num_bytes - position + 1)):
                if position + len(block) > num_bytes:
                    raise EOFError("more follows than was stated")
                position += len(block)
                yield block
            if position < num_bytes:
                raise EOFError(f"it ends {num_bytes - position:,} bytes early")
        except (EOFError, OSError, zlib.error, zstd_library().ZstdError) as error:
            raise CorruptShardError(
                f"{name} is damaged after {position:,} bytes of its content (frame "
                f"{position // FRAME_BYTES} of a shard of ours): {error}",
                hint=_FETCH,
            ) from None


def _checksum(content: bytes | bytearray | memoryview) -> int:
    return xxhash.xxh64_intdigest(content) & 0xFFFFFFFF
