"""The tokens of many files, mapped or read when first asked for, and never written.

At most `max_open` files are kept open (a quarter of `ulimit -n`, so that 256 is enough for any
dataset). Shuffled reading of more shards than that maps one again for nearly every row. With
`verify`, the first open of a file reads it all and compares its hash with the manifest: 4 GB/s from
the page cache on one core, else the speed of the disk.

`mmap`: pages come and go with the page cache; a file that is cut short while it is mapped kills the
process (SIGBUS), as it does every program that maps it. `pread`: each read is a system call, a file
cut short an error; for network filesystems, and for files that something else may rewrite.

What is open belongs to one process: a fork or a pickle carries the paths and opens again.
"""

import errno
import mmap
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from tokenmill.base.descriptors import read_by_page, read_into
from tokenmill.base.hashing import hash_open, regular
from tokenmill.base.system import limit_of, physical_memory
from tokenmill.errors import NotADatasetError
from tokenmill.order.order import Locality
from tokenmill.reading.span_reader import FileReader, IdLimit, RunReader, SpanReader, parts_in_runs
from tokenmill.reading.token_file import TokenFile, check_hash

K = TypeVar("K")
V = TypeVar("V")

MAX_OPEN = 64
BACKENDS = ("mmap", "pread")


class RecentlyUsed(Generic[K, V]):
    """The last `size` things made by `make`, for one process."""

    def __init__(self, make: Callable[[K], V], size: int) -> None:
        self._make = make
        self._size = size
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        # By key: a thread does not wait for most of what others make.
        self._making = [threading.Lock() for _ in range(16)]
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        if self._pid != os.getpid():
            self._forget()
        value = self._find(key)
        if value is None:
            with self._making[hash(key) % len(self._making)]:
                value = self._find(key)
                if value is None:
                    value = self._make(key)
                    with self._lock:
                        self._kept[key] = value
                        if len(self._kept) > self._size:
                            self._kept.popitem(last=False)
        return value

    def _find(self, key: K) -> V | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def drop(self, key: K) -> None:
        """Forget one entry, so that the next use makes it again."""
        with self._lock:
            self._kept.pop(key, None)


class Descriptor:
    """An open file that closes when nobody uses it any more (another thread may still read)."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        with suppress(OSError):  # nothing was written through it, so nothing can be lost
            os.close(self.number)


class ShardReader:
    """The tokens of many files, opened when touched."""

    def __init__(
        self,
        files: Iterable[TokenFile],
        *,
        backend: str = "mmap",
        max_open: int | None = None,
        verify: bool | None = None,
    ) -> None:
        self.files = tuple(files)
        # Samples with headers between the tokens cannot be one mapped run: they are read.
        self.backend = "pread" if any(file.pieces for file in self.files) else backend
        self.verify = verify
        # File number -> inode and time of change of the file whose hash was right.
        self._verified: dict[int, tuple[int, int]] = {}
        self.by_page = False
        """Whether files mapped from now on are read by the page. Else the system reads ahead, up to
        megabytes for each row; where any row may be next, and not all fit into memory, these would
        be gone before they are asked for."""
        self.max_open = max_open or most_open()
        self._maps = RecentlyUsed(self._map, self.max_open)
        self._descriptors = RecentlyUsed(self._open, self.max_open)
        self._pieces: RecentlyUsed[int, Any] = RecentlyUsed(self._load_pieces, self.max_open)

    def __reduce__(self) -> tuple[object, ...]:
        return self._maker(), (self.files,), {"by_page": self.by_page}

    def of(self, files: Sequence[TokenFile]) -> "ShardReader":
        """A reader of other files, in the same way."""
        return self._maker()(files)

    def _maker(self) -> Callable[[Sequence[TokenFile]], "ShardReader"]:
        settings: dict[str, Any] = {"max_open": self.max_open, "verify": self.verify}
        return partial(type(self), backend=self.backend, **settings)

    facts: Any = None
    """The facts of its documents, where these are no whole splits of files."""

    def columns_of(self, edges: np.ndarray) -> Any:
        """Return the columns of these files; `edges` are where they begin, and the end."""
        from tokenmill.reading.columns import Columns

        return Columns(self, edges)

    def sampler(self) -> "ShardReader":
        """Return a reader for a few tokens here and there."""
        return self

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        """A reader of spans of these files; `edges` are where they begin, and the end."""
        dtype = self.files[0].dtype
        if self.backend == "pread":
            return FileReader(edges, self.read, ids)
        num_bytes = int(edges[-1]) * dtype.itemsize
        self.by_page = not locality.num_blocks and num_bytes > physical_memory()
        return RunReader(edges, dtype, self.array, self.max_open, ids)

    def array(self, i: int) -> np.ndarray:
        """Return the tokens of file i, read-only: a view of its map, or a copy."""
        if self.backend == "mmap" and self.files[i].num_tokens:
            return self._maps[i]
        tokens = self.read(i, 0, self.files[i].num_tokens)
        tokens.flags.writeable = False
        return tokens

    def read(self, i: int, offset: int, count: int) -> np.ndarray:
        """Return `count` tokens of file i, from `offset` on: a view of its map, or a copy."""
        file = self.files[i]
        if offset < 0 or offset + count > file.num_tokens:
            raise IndexError(
                f"tokens {offset} to {offset + count} of {file.name}, which has {file.num_tokens}"
            )
        return self._read(i, offset, count) if count else np.empty(0, file.dtype)

    def _read(self, i: int, offset: int, count: int) -> np.ndarray:
        if self.backend == "mmap":
            return self._maps[i][offset : offset + count]
        file = self.files[i]
        out = np.empty(count, file.dtype)
        token = file.first + offset
        if file.pieces is None:
            self._pread(i, file.offset + token * file.dtype.itemsize, out)
            return out
        starts, first_bytes = self._pieces[i]
        for piece, inside, some in parts_in_runs(starts, token, count):
            done = int(starts[piece]) + inside - token
            byte = int(first_bytes[piece]) + inside * file.dtype.itemsize
            self._pread(i, byte, out[done : done + some])
        return out

    def _pread(self, i: int, byte: int, out: np.ndarray) -> None:
        """Fill `out` from this byte of file i on; one call may give fewer bytes than asked for."""
        view = memoryview(out.data).cast("B")
        done = 0
        stale = False
        while done < len(view):
            descriptor = self._descriptors[i]
            try:
                got = read_into(descriptor.number, view[done:], byte + done)
            except OSError as error:
                # A network filesystem lost the file that we had open: once more, size compared.
                if error.errno != errno.ESTALE or stale:
                    raise
                stale = True
                self._descriptors.drop(i)
                continue
            if got == 0:
                found = os.fstat(descriptor.number).st_size
                self._descriptors.drop(i)
                raise self.files[i].cut_short(found)
            done += got

    def _open(self, i: int) -> Descriptor:
        file = self.files[i]
        try:
            descriptor = Descriptor(regular(file.path))
        except FileNotFoundError:
            raise NotADatasetError(
                f"{file.path} is gone; it was there when the dataset was opened",
                hint="put the file back, or open the dataset again",
            ) from None
        found = os.fstat(descriptor.number)
        file.check_size(found.st_size)
        known = (found.st_ino, found.st_mtime_ns)
        if self.verify and self._verified.get(i) != known:
            assert file.hashes is not None
            expected = file.hashes.tokens if file.packed is None else file.packed.xxh3_128
            check_hash(file.path, expected, hash_open(descriptor.number))
            self._verified[i] = known
        return descriptor

    def _map(self, i: int) -> np.ndarray:
        file = self.files[i]
        # The map keeps a descriptor of its own: ours closes when this function ends.
        descriptor = self._open(i)
        mapped = mmap.mmap(descriptor.number, 0, access=mmap.ACCESS_READ)
        if self.by_page:
            read_by_page(mapped)
        start = file.offset + file.first * file.dtype.itemsize
        return np.frombuffer(mapped, file.dtype, count=file.num_tokens, offset=start)

    def _load_pieces(self, i: int) -> Any:
        pieces = self.files[i].pieces
        assert pieces is not None
        return pieces()


class ArrayReader(ShardReader):
    """One array in memory instead of files; a part of it is a `TokenFile` with `first`."""

    def __init__(self, files: Sequence[TokenFile], array: np.ndarray) -> None:
        super().__init__(files, backend="memory")
        self._array = array

    def _maker(self) -> Callable[[Sequence[TokenFile]], ShardReader]:
        return partial(ArrayReader, array=self._array)

    def _read(self, i: int, offset: int, count: int) -> np.ndarray:
        start = self.files[i].first + offset
        return self._array[start : start + count]


def most_open() -> int:
    """How many files to keep open: a quarter of what this process may, between 64 and 4096."""
    allowed = limit_of("RLIMIT_NOFILE")
    return 4096 if allowed is None else min(4096, max(MAX_OPEN, allowed // 4))
