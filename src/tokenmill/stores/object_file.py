"""An object as a file: blocks by range, the next ones are fetched while one is read."""

import errno
import io
import os
from concurrent.futures import Future
from typing import Any

from tokenmill.errors import DownloadError
from tokenmill.stores.objects import begin_part, read, read_tail, stat, wrong_size
from tokenmill.stores.store_requests import ObjectStat, Part

BLOCK_BYTES = 4 << 20
TAIL_BYTES = 16 << 10


def read_range(address: str, start: int, stop: int) -> bytes:
    """The bytes start..stop of an object; fewer only where it ends."""
    known = stat(address)
    if known.size > BLOCK_BYTES:
        return read(address, start, min(stop, known.size), known)
    return read(address, 0, known.size, known)[start:stop]  # all of it can be compared at once


class Seekable(io.RawIOBase):
    """Read-only, seekable: a position in an object that is known."""

    _known: ObjectStat

    def __init__(self, address: str) -> None:
        self.address = self.name = address
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = (0, self._position, self._known.size)[whence]
        self._position = max(0, base + offset)
        return self._position


class ObjectFile(Seekable):
    """All bytes are of one version of the object, or DownloadError.

    They are checked, unless the caller compares the whole with its own hash (`hashed`). An object
    of another size or ETag than stated is refused.
    """

    blocks_ahead = 1
    _stat = staticmethod(stat)

    def __init__(
        self, address: str, etag: str = "", size: int | None = None, *, hashed: bool = False
    ) -> None:
        super().__init__(address)
        self._hashed = hashed
        self._known = self._stat(address)
        if size is not None and size != self._known.size:
            raise wrong_size(address, self._known.size, size)
        if etag and self._known.etag != etag:
            raise DownloadError(
                f"{address} was replaced after its first part was read",
                hint="open the dataset again when no one writes to it",
            )
        self._number = -1  # of the block that was read last
        self._next = 0  # the block that would follow it
        self._block = b""
        self._ahead: dict[int, Future[Part]] = {}  # the next blocks, where blocks follow

    def readinto(self, buffer: Any) -> int:
        """Fill the whole buffer, up to the end of the object: pyarrow takes less for damage."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view) and self._position < self._known.size:
            number, offset = divmod(self._position, BLOCK_BYTES)
            taken = self._load(number)[offset : offset + len(view) - filled]
            view[filled : filled + len(taken)] = taken
            filled += len(taken)
            self._position += len(taken)
        return filled

    def close(self) -> None:
        while self._ahead:
            self._ahead.popitem()[1].cancel()
        super().close()

    def _load(self, number: int) -> bytes:
        if number == self._number:
            return self._block
        current = self._ahead.pop(number, None) or self._begin(number)
        follows = number == self._next
        last = min(number + self.blocks_ahead, (self._known.size - 1) // BLOCK_BYTES)
        ahead = range(number + 1, last + 1) if follows else ()
        self._ahead = {at: self._ahead.get(at) or self._begin(at) for at in ahead}
        self._block = current.result()[0]
        self._number = number
        self._next = number + 1
        return self._block

    def _begin(self, number: int) -> "Future[Part]":
        start = number * BLOCK_BYTES
        return self.fetch(start, min(start + BLOCK_BYTES, self._known.size))

    def fetch(self, start: int, stop: int) -> "Future[Part]":
        return begin_part(self.address, start, stop, self._known, hashed=self._hashed)


class TailFile(Seekable):
    """An object of which a few parts are read, each by one request; and its end by the first."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        tail = read_tail(address, TAIL_BYTES)
        if tail is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address)
        self._tail, self._known = tail

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        stop = min(self._position + len(view), self._known.size)
        in_tail = self._position - (self._known.size - len(self._tail))
        if in_tail >= 0:
            data = self._tail[in_tail : in_tail + len(view)]
        else:
            data = read(self.name, self._position, stop, self._known)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
