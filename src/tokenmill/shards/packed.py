"""Read a shard of ours and its index as they are on disk, compressed or not.

For what looks at files one by one: `verify`, and a preparation that adds to a dataset. A dataset
that is opened is read by reading/block_reader.py.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tokenmill.base.hashing import regular
from tokenmill.reading.frames import open_frames, unpacked_stream
from tokenmill.reading.token_file import FRAMED
from tokenmill.shards.entries import EndsEntry, PackableEntry

_BLOCK = 8 << 20  # bytes; a multiple of every item size


def read_blocks(folder: Path, entry: PackableEntry) -> Iterator[bytes | memoryview]:
    """The content of a file in order, in blocks that hold whole ids or ends."""
    if entry.packed is not None:
        frames = open_frames(folder / entry.packed.file, entry.num_bytes, entry.packed.num_bytes)
        yield from frames.read(0, entry.num_bytes)
        return
    with open(folder / entry.file, "rb", opener=regular) as file:
        while block := file.read(_BLOCK):
            yield block


def unpacked(file: BinaryIO, entry: PackableEntry) -> BinaryIO:
    """The content of an entry from its start, where its file is open already; owns the file."""
    if entry.packed is None:
        return file
    return unpacked_stream(file, FRAMED, entry.packed.file, entry.num_bytes)


def read_ends(folder: Path, entry: EndsEntry) -> np.ndarray:
    """Where documents end in a shard: uint64."""
    return np.frombuffer(b"".join(read_blocks(folder, entry)), "<u8")
