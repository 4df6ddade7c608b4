"""Read a shard of ours and its index as they are on disk, compressed or not.

For what looks at files one by one: `verify`, and a preparation that adds to a dataset. A dataset
that is opened is read by reading/block_reader.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tokenmill.base.hashing import regular
from tokenmill.reading.frames import FRAME_BYTES, open_frames, unpacked_stream
from tokenmill.reading.token_file import FRAMED
from tokenmill.shards.entries import EndsEntry, ShardEntry

_BLOCK = 8 << 20  # bytes; a multiple of every item size


def read_blocks(folder: Path, entry: ShardEntry | EndsEntry) -> Iterator[bytes | memoryview]:
    """The content of a file in order, in blocks that hold whole ids or ends."""
    if entry.packed is not None:
        frames = open_frames(folder / entry.packed.file, entry.num_bytes, entry.packed.num_bytes)
        yield from frames.read(0, entry.num_bytes)
        return
    with open(folder / entry.file, "rb", opener=regular) as file:
        while block := file.read(_BLOCK):
            yield block


def unpacked(file: BinaryIO, entry: ShardEntry | EndsEntry) -> BinaryIO:
    """The content of an entry from its start, where its file is open already; owns the file."""
    if entry.packed is None:
        return file
    return unpacked_stream(file, FRAMED, entry.packed.file, entry.num_bytes)


def read_ends(folder: Path, entry: EndsEntry) -> np.ndarray:
    """Where documents end in a shard: uint64."""
    return np.frombuffer(b"".join(read_blocks(folder, entry)), "<u8")


def open_ids(folder: Path, entry: ShardEntry, dtype: np.dtype[Any]) -> "np.ndarray | PackedIds":
    """The ids of a shard, to be cut into slices: mapped, or unpacked as they are asked for."""
    if entry.packed is None:
        return np.memmap(folder / entry.file, dtype, mode="r", shape=(entry.num_tokens,))
    return PackedIds(folder, entry, dtype)


class PackedIds:
    """The ids of a compressed shard; the frame that was used last is kept."""

    def __init__(self, folder: Path, entry: ShardEntry, dtype: np.dtype[Any]) -> None:
        assert entry.packed is not None
        path = folder / entry.packed.file
        self._frames = open_frames(path, entry.num_bytes, entry.packed.num_bytes)
        self._dtype = dtype
        self._num_tokens = entry.num_tokens
        self._kept: tuple[int, np.ndarray] = (-1, np.empty(0, dtype))

    def __getitem__(self, wanted: slice) -> np.ndarray:
        start, stop, _ = wanted.indices(self._num_tokens)
        in_frame = FRAME_BYTES // self._dtype.itemsize
        parts = [np.empty(0, self._dtype)]
        for number in range(start // in_frame, -(-stop // in_frame)):
            first = number * in_frame
            parts.append(self._frame(number)[max(0, start - first) : max(0, stop - first)])
        return np.concatenate(parts)

    def _frame(self, number: int) -> np.ndarray:
        if self._kept[0] != number:
            self._kept = (number, np.frombuffer(self._frames[number], self._dtype))
        return self._kept[1]
