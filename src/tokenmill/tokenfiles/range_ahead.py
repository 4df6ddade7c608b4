"""Blocks of objects that will be read soon: fetched by range, in the order they come.

Many requests are under way at once, the one that is needed first goes first. Each block is compared
with its hash, where the dataset has hashes. What has arrived is kept for the rows after it, up to a
bound; the next announcement says which are still needed.
"""

import itertools
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import xxhash

from tokenmill.tokenfiles.token_file import TokenFile

BLOCK_BYTES = 1 << 20
AT_MOST_BLOCKS = 64
"""Blocks that are under way, or have arrived and are kept."""


class Block(NamedTuple):
    """The k-th 1 MiB of a file."""

    file: int
    number: int


class RangeAhead:
    """The blocks that were announced, for one process."""

    def __init__(self, files: Sequence[TokenFile]) -> None:
        self._files = files
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[Block] = deque()
        self._begun: dict[Block, Future[bytes | None]] = {}  # the one used last comes last
        self._uses: Counter[Block] = Counter()  # how often each will still be read
        self._numbers = itertools.count(1)
        self._etags: dict[int, str] = {}

    def expect(self, blocks: Iterable[Block]) -> None:
        """These come next, in this order, as often as they are here. What was announced before and
        has not begun is dropped; what has arrived is kept while there is room."""
        if self._pid != os.getpid():
            self._forget()
        with self._lock:
            self._uses = Counter(blocks)
            for block in [block for block in self._begun if block not in self._uses]:
                if self._begun[block].cancel():
                    del self._begun[block]
            self._waiting = deque(block for block in self._uses if block not in self._begun)
            self._begin_more()

    def read(self, file: int, start: int, stop: int) -> bytes | None:
        """The bytes start..stop of a file; None where a block has no hash, or another one."""
        if self._pid != os.getpid():
            self._forget()
        first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
        found = [self._block(Block(file, number)) for number in range(first, last + 1)]
        if any(data is None for data in found):
            return None
        data = b"".join(block for block in found if block is not None)
        return data[start - first * BLOCK_BYTES : stop - first * BLOCK_BYTES]

    def is_announced(self, file: int, start: int) -> bool:
        """Whether the block of this byte is here or on its way."""
        return self._pid == os.getpid() and Block(file, start // BLOCK_BYTES) in self._begun

    def _block(self, block: Block) -> bytes | None:
        with self._lock:
            self._uses[block] -= 1
            answer = self._begun.pop(block, None)
            if answer is None:
                self._make_room()
                answer = self._begin(block, 0.0)
            self._begun[block] = answer
            self._begin_more()
        return answer.result()

    def _begin_more(self) -> None:
        while self._waiting and self._make_room():
            block = self._waiting.popleft()
            if block not in self._begun:
                self._begin(block, float(next(self._numbers)))

    def _make_room(self) -> bool:
        """Forget the block that was used least recently and is not announced, if it is needed."""
        if len(self._begun) < AT_MOST_BLOCKS:
            return True
        oldest = next((block for block in self._begun if self._uses[block] <= 0), None)
        if oldest is not None:
            self._begun.pop(oldest).cancel()
        return oldest is not None

    def _begin(self, block: Block, deadline: float) -> "Future[bytes | None]":
        from tokenmill.storage import store_client

        path = self._files[block.file].path
        answer = store_client.begin(lambda: self._fetch(block), "read", path, deadline)
        self._begun[block] = answer
        return answer

    def _fetch(self, block: Block) -> bytes | None:
        """One request, and the comparison with the hash."""
        from tokenmill.storage.objects import get_part

        file = self._files[block.file]
        start = block.number * BLOCK_BYTES
        stop = min(start + BLOCK_BYTES, file.file_bytes)
        etag = file.etag or self._etags.get(block.file, "")
        hashes = None if file.blocks is None else file.blocks()
        if file.hashes is not None and hashes is None:
            return None  # only the whole file can be compared
        known = hashes is not None
        data, etag = get_part(file.path, start, stop, file.file_bytes, etag, hashed=known)
        self._etags.setdefault(block.file, etag)
        if hashes is not None and xxhash.xxh3_64_intdigest(data) != int(hashes[block.number]):
            return None
        return data
