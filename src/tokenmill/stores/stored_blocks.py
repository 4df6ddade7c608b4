"""The content of an object in blocks of 1 MiB: some of them by one request, or all in order.

Of a plain object a block is a range of its bytes. Of one that is compressed in frames (frames.py)
it is a frame, and the first request fetches the table that says where frames are. Objects that are
one compressed stream (other projects' files) cannot be read in blocks.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import NamedTuple

from tokenmill.errors import TokenmillError
from tokenmill.reading.cached_file import CachedFile
from tokenmill.reading.frames import FRAME_BYTES, Frames, num_frames
from tokenmill.reading.token_file import FRAMED

BLOCK_BYTES = FRAME_BYTES
BLOCKS_AT_ONCE = 4
"""That one request fetches, where all are wanted."""
REQUESTS_AHEAD = 2


class Arrived(NamedTuple):
    """The bytes that a request gave; none, where they are wrong."""

    data: bytes
    is_right: bool
    """Whether they were compared with a hash, or need not be."""


Blocks = Mapping[int, "Future[Arrived]"]
"""Blocks that are in memory or on their way, by number."""


class StoredBlocks:
    """The blocks of one object."""

    def __init__(self, file: CachedFile) -> None:
        self.file = file
        self._version = file.etag
        self._lock, self._table = threading.Lock(), dict[str, Frames]()

    @staticmethod
    def are_in(file: CachedFile) -> bool:
        """Whether the object can be read in blocks."""
        return file.packed is None or file.packed.codec == FRAMED

    def __len__(self) -> int:
        return num_frames(self.file.size)

    def read(self, first: int, stop: int) -> list[bytes]:
        """The content of the blocks first .. stop - 1. For a request thread."""
        if self.file.packed is None:
            data = self._get(first * BLOCK_BYTES, min(stop * BLOCK_BYTES, self.file.size))
            return [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
        frames = self._frames()
        starts = frames.starts[first : stop + 1].tolist()
        data = self._get(starts[0], starts[-1])
        return [
            frames.unpack(number, data[start - starts[0] : end - starts[0]])
            for number, start, end in zip(range(first, stop), starts, starts[1:], strict=False)
        ]

    def read_bytes(self, start: int, stop: int) -> bytes:
        """Bytes of a plain object that TLS protects, all of one version of it."""
        from tokenmill.stores.objects import get_part

        file = self.file
        data, etag = get_part(file.address, start, stop, file.size, self._version, hashed=True)
        self._version = self._version or etag
        return data

    def all(self, held: Blocks, deadline: float) -> Iterator[bytes]:
        """All blocks in order, the next ones fetched ahead; those that are held are not fetched."""
        from tokenmill.stores import store_client

        def begin(first: int, stop: int) -> "Future[list[bytes]]":
            work = lambda: self.read(first, stop)  # noqa: E731 - one line in its place
            return store_client.begin(work, "read", self.file.address, deadline)

        runs = iter(self._runs(held))
        begun: dict[int, Future[list[bytes]]] = {}
        number = 0
        while number < len(self):
            while len(begun) <= REQUESTS_AHEAD and (run := next(runs, None)):
                begun[run[0]] = begin(*run)
            if number in held and (block := _content(held[number])):
                found = [block]
            else:
                found = (begun.pop(number, None) or begin(number, number + 1)).result()
            yield from found
            number += len(found)

    def _runs(self, held: Blocks) -> list[tuple[int, int]]:
        """Neighbouring blocks that are not held, as many as one request fetches."""
        runs: list[tuple[int, int]] = []
        for number in (number for number in range(len(self)) if number not in held):
            first, stop = runs[-1] if runs else (0, 0)
            if number == stop and stop - first in range(1, BLOCKS_AT_ONCE):
                runs[-1] = first, stop + 1
            else:
                runs.append((number, number + 1))
        return runs

    def _frames(self) -> Frames:
        """Where the frames are; fetched once."""
        file = self.file
        assert file.packed is not None
        with self._lock:
            if not self._table:
                self._table[file.address] = Frames(
                    lambda start, count: self._get(start, start + count),
                    file.address,
                    file.size,
                    file.packed.num_bytes,
                )
            return self._table[file.address]

    def _get(self, start: int, stop: int) -> bytes:
        """Bytes of the object as it is stored."""
        from tokenmill.stores.objects import get_part

        file = self.file
        hashed = bool(file.digest or file.packed)
        data, _ = get_part(file.address, start, stop, file.stored_bytes, file.etag, hashed=hashed)
        return data


class Held(NamedTuple):
    """What is known of a file before it is fetched whole."""

    stored: StoredBlocks
    blocks: Blocks


def _content(block: "Future[Arrived]") -> bytes:
    """A block that is held; nothing where it has to be fetched after all."""
    try:
        return block.result().data
    except (TokenmillError, CancelledError):
        return b""
