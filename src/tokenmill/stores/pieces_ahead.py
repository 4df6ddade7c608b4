"""Pieces of files that will be read soon: fetched by range, in the order they come.

A piece is a block of 1 MiB, which is compared with its hash, or the bytes of one row as they are.
Many requests are under way at once, the one that is needed first goes first. What has arrived is
kept until it is read as often as it was announced, and then as long as there is room.

A file that is fetched whole takes the blocks that are here or on their way (`lend`), so that they
are not fetched twice. Further blocks of it are not begun.
"""

import itertools
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import xxhash

from tokenmill.errors import CorruptShardError
from tokenmill.reading.cached_file import tokens_of
from tokenmill.reading.token_file import TokenFile
from tokenmill.stores.stored_blocks import BLOCK_BYTES, Arrived, Held, StoredBlocks

AT_MOST_BLOCKS, AT_MOST_ROWS = 64, 1024
"""Pieces that are under way, or have arrived and are kept."""
UNDER_WAY, BESIDE_FILES = 48, 8
"""Requests for pieces at once; and while files are fetched whole, which is faster."""


class Piece(NamedTuple):
    """Some bytes of the content of a file."""

    file: int
    start: int
    stop: int
    is_block: bool
    """Whether it is a block, so that it can be checked."""


class PiecesAhead:
    """The pieces that were announced, for one process."""

    def __init__(self, files: Sequence[TokenFile]) -> None:
        self._files = files
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._waiting: deque[Piece] = deque()
        self._begun: dict[Piece, Future[Arrived]] = {}
        self._num_blocks, self._under_way = 0, 0
        self._uses: Counter[Piece] = Counter()  # how often each will still be read
        self._idle: dict[Piece, None] = {}  # no further use is known; used last comes last
        self._lent: set[int] = set()
        self._came_whole: set[int] = set()
        self._numbers = itertools.count(1)
        self._objects: dict[int, StoredBlocks] = {}
        self._hashes: dict[int, Future[np.ndarray | None]] = {}

    def block(self, file: int, byte: int) -> Piece:
        """The block that holds a byte."""
        start = byte - byte % BLOCK_BYTES
        return Piece(file, start, min(start + BLOCK_BYTES, self._files[file].file_bytes), True)

    def blocks(self, file: int, start: int, stop: int) -> list[Piece]:
        """The blocks that hold the bytes start..stop."""
        first = start - start % BLOCK_BYTES
        return [self.block(file, byte) for byte in range(first, stop, BLOCK_BYTES)]

    def forget_files(self) -> None:
        """The caller looks again at which files are in the cache. One that comes from now on is not
        fetched in pieces, even if it was not there yet when the caller looked."""
        self._check_process()
        with self._lock:
            self._came_whole.clear()

    def expect(self, pieces: Iterable[Piece]) -> None:
        """These come next, in this order, as often as they are here. What was announced before and
        has not begun is dropped; what has arrived is kept while there is room."""
        self._check_process()
        with self._lock:
            self._uses, self._waiting = Counter(pieces), deque()
            for piece in [each for each in self._begun if each not in self._uses]:
                is_dropped = not self._comes_whole(piece) and self._begun[piece].cancel()
                if is_dropped or not piece.is_block:
                    self._drop(piece)
                else:
                    self._idle[piece] = None
            self._waiting = deque(piece for piece in self._uses if piece not in self._begun)
            self._begin_more()

    def read(self, file: int, start: int, stop: int) -> bytes | None:
        """The bytes start..stop of a file; None where only the whole file can be trusted, or is on
        its way."""
        self._check_process()
        row = Piece(file, start, stop, False)
        if row in self._begun or row in self._uses:
            return self._read(row)
        blocks = self.blocks(file, start, stop)
        found = [self._read(block) for block in blocks]
        if any(data is None for data in found):
            return None
        data = b"".join(block for block in found if block is not None)
        return data[start - blocks[0].start : stop - blocks[0].start]

    @property
    def num_blocks(self) -> int:
        """Blocks that are here or on their way."""
        return self._num_blocks

    def is_announced(self, file: int, start: int, stop: int) -> bool:
        """Whether these bytes are here or on their way."""
        if self._pid != os.getpid():
            return False
        row = Piece(file, start, stop, False)
        return row in self._uses or self.block(file, start) in self._begun

    @contextmanager
    def lend(self, file: int) -> Iterator[Held]:
        """The blocks of a file that are here, for as long as the file is fetched whole."""
        self._check_process()
        with self._lock:
            self._lent.add(file)
            begun = self._begun_blocks(file)
            blocks = {piece.start // BLOCK_BYTES: self._begun[piece] for piece in begun}
        is_here = False
        try:
            yield Held(self._stored(file), blocks)
            is_here = True
        finally:
            with self._lock:
                self._lent.discard(file)
                if is_here:
                    self._came_whole.add(file)
                    for piece in self._begun_blocks(file):
                        self._drop(piece)

    def _begun_blocks(self, file: int) -> list[Piece]:
        return [piece for piece in self._begun if piece.file == file and piece.is_block]

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._forget()

    def _read(self, piece: Piece) -> bytes | None:
        with self._lock:
            self._uses[piece] -= 1
            answer = self._begun.get(piece)
            if answer is None:
                if self._is_needless(piece):
                    return None
                self._make_room(piece)
                answer = self._begin(piece, 0.0)
            if self._uses[piece] <= 0:
                del self._uses[piece]
                self._idle.pop(piece, None)
                if piece.is_block:
                    self._idle[piece] = None
                else:
                    self._drop(piece)
            self._begin_more()
        arrived = answer.result()
        return arrived.data if arrived.is_right else None

    def _comes_whole(self, piece: Piece) -> bool:
        return piece.is_block and piece.file in self._lent

    def _is_needless(self, piece: Piece) -> bool:
        return piece.file in self._came_whole or self._comes_whole(piece)

    def _begin_more(self) -> None:
        most = BESIDE_FILES if self._lent else UNDER_WAY
        while self._waiting and self._under_way < most:
            piece = self._waiting[0]
            is_begun = piece in self._begun
            if is_begun or self._is_needless(piece) or not self._uses[piece]:
                self._waiting.popleft()
                continue
            if not self._make_room(piece):
                return
            self._waiting.popleft()
            self._begin(piece, float(next(self._numbers)))

    def _make_room(self, piece: Piece) -> bool:
        """Forget a block that is not announced, the one used least recently, if one is needed."""
        if not piece.is_block:
            return len(self._begun) - self._num_blocks < AT_MOST_ROWS
        if self._num_blocks < AT_MOST_BLOCKS:
            return True
        idle = (each for each in self._idle if each.is_block and not self._comes_whole(each))
        if (oldest := next(idle, None)) is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, piece: Piece) -> None:
        self._idle.pop(piece, None)
        if self._begun.pop(piece, None) is not None:
            self._num_blocks -= piece.is_block

    def _begin(self, piece: Piece, deadline: float) -> "Future[Arrived]":
        from tokenmill.stores import store_client

        path = self._files[piece.file].path
        hashes = self._begin_hashes(piece.file) if piece.is_block else None
        work = lambda: self._fetch(piece, hashes)  # noqa: E731 - one line in its place
        answer = store_client.begin(work, "read", path, deadline)
        self._begun[piece] = answer
        self._num_blocks += piece.is_block
        self._under_way += 1
        answer.add_done_callback(self._done)
        return answer

    def _done(self, answer: "Future[Arrived]") -> None:
        with self._lock:
            self._under_way -= 1
            self._begin_more()

    def _begin_hashes(self, file: int) -> "Future[np.ndarray | None] | None":
        """Fetch the hashes of the blocks of a file at the same time as its first block.

        They are asked for before the block and with the earliest deadline, so that a thread that
        waits for them never waits for something that has not begun.
        """
        from tokenmill.stores import store_client

        blocks = self._files[file].blocks
        if blocks is not None and file not in self._hashes:
            self._hashes[file] = store_client.begin(blocks, "read", self._files[file].path)
        return self._hashes.get(file)

    def _fetch(self, piece: Piece, hashes: "Future[np.ndarray | None] | None") -> Arrived:
        """One request, and the comparison with the hash."""
        stored, file = self._stored(piece.file), self._files[piece.file]
        if not piece.is_block:
            return Arrived(stored.read_bytes(piece.start, piece.stop), True)
        if hashes is None and file.hashes is not None and file.packed is None:
            return Arrived(b"", False)  # only the whole file can be compared
        number = piece.start // BLOCK_BYTES
        try:
            (data,) = stored.read(number, number + 1)
        except CorruptShardError:
            return Arrived(b"", False)  # a damaged frame: the whole file decides
        if hashes is None:
            return Arrived(data, True)
        if (known := hashes.result()) is None:
            return Arrived(data, False)  # may still be a part of the whole file
        is_right = xxhash.xxh3_64_intdigest(data) == int(known[number])
        return Arrived(data if is_right else b"", is_right)

    def _stored(self, file: int) -> StoredBlocks:
        with self._lock:
            found = self._objects.get(file)
            if found is None:
                found = self._objects[file] = StoredBlocks(tokens_of(self._files[file]))
            return found
