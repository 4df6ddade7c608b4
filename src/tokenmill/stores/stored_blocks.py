"""The content of an object in blocks of 1 MiB, each by one request.

A block of a plain object is a range of its bytes. A block of an object that is compressed in frames
(reading/frames.py) is a frame, and the first request fetches the table that says where frames are.
Objects that are one compressed stream (files of other projects) cannot be read in blocks.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import xxhash

from tokenmill.errors import CorruptShardError
from tokenmill.reading.cached_file import CachedFile, tokens_of
from tokenmill.reading.frames import FRAME_BYTES, Frames, num_frames
from tokenmill.reading.token_file import FRAMED, TokenFile
from tokenmill.stores import store_client
from tokenmill.stores.objects import ObjectStat, get_part

BLOCK_BYTES = FRAME_BYTES
REQUESTS_AHEAD = 8
"""Blocks in progress while a whole file is fetched."""


class Block(NamedTuple):
    """The content of one block."""

    data: bytes
    """Empty where it is known to be wrong."""
    is_right: bool
    """False where only the whole file can be trusted."""


class StoredBlocks:
    """The blocks of one object. All methods but `content` are for a request thread."""

    def __init__(self, file: TokenFile) -> None:
        self._wanted = tokens_of(file)
        self._load_hashes = file.blocks
        self._version = file.etag
        self._lock = threading.Lock()
        self._frames: Frames | None = None
        self._hashes: np.ndarray | None = None

    @staticmethod
    def are_in(file: CachedFile) -> bool:
        """Return True if the object can be read in blocks."""
        return file.packed is None or file.packed.codec == FRAMED

    def block(self, number: int) -> Block:
        """One block, compared with its hash if the dataset states one."""
        hashes = self._block_hashes()
        for _ in range(2):  # it may have been damaged on its way
            try:
                data = self._read(number)
            except CorruptShardError:  # of a frame
                continue
            if hashes is None:
                return Block(data, self._wanted.packed is not None or not self._wanted.digest)
            if xxhash.xxh3_64_intdigest(data) == int(hashes[number]):
                return Block(data, True)
        return Block(b"", False)

    def row(self, start: int, stop: int) -> Block:
        """Bytes of a plain object that TLS protects, all of one version of it."""
        known = ObjectStat(self._wanted.size, self._version, 0)
        part = get_part(self._wanted.address, start, stop, known, hashed=True)
        self._version = self._version or part.etag
        return Block(part.data, True)

    def content(self, begin: "Callable[[int], Future[Block]]", again: bool) -> Iterator[bytes]:
        """All blocks in order, several in progress; `begin` starts to fetch one.

        `again`: what came before was wrong, so all are fetched again, and compared with a second
        read where TLS does not protect them.
        """
        begun: deque[tuple[int, Future[Block]]] = deque()
        for number in range(num_frames(self._wanted.size)):
            begun.append((number, self._begin_again(number) if again else begin(number)))
            if len(begun) > REQUESTS_AHEAD:
                yield self._content_of(*begun.popleft())
        while begun:
            yield self._content_of(*begun.popleft())

    def _content_of(self, number: int, block: "Future[Block]") -> bytes:
        return block.result().data or self._begin_again(number).result().data

    def _begin_again(self, number: int) -> "Future[Block]":
        work = lambda: Block(self._read(number, hashed=False), False)  # noqa: E731
        return store_client.begin(work, "read", self._wanted.address)

    def _block_hashes(self) -> np.ndarray | None:
        """The hashes that the dataset states for all blocks; fetched once."""
        with self._lock:
            if self._load_hashes is not None:
                self._hashes = self._load_hashes()
                self._load_hashes = None
            return self._hashes

    def _read(self, number: int, *, hashed: bool = True) -> bytes:
        """The content of one block; `hashed` if its hash, or that of the file, is compared."""
        if self._wanted.packed is None:
            start = number * BLOCK_BYTES
            stop = min(start + BLOCK_BYTES, self._wanted.size)
            return self._get(start, stop, hashed=hashed and bool(self._wanted.digest))
        frames = self._table(self._wanted.packed.num_bytes)
        start, stop = frames.starts[number : number + 2].tolist()
        return frames.unpack(number, self._get(start, stop))

    def _table(self, packed_bytes: int) -> Frames:
        """Where the frames are; fetched once."""
        with self._lock:
            if self._frames is None:
                file = self._wanted
                read_at = lambda start, count: self._get(start, start + count)  # noqa: E731
                self._frames = Frames(read_at, file.address, file.size, packed_bytes)
            return self._frames

    def _get(self, start: int, stop: int, *, hashed: bool = True) -> bytes:
        """Bytes of the object as it is stored."""
        file = self._wanted
        known = ObjectStat(file.stored_bytes, file.etag, 0)
        return get_part(file.address, start, stop, known, hashed=hashed).data
