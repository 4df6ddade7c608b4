"""Shards of a dataset in a bucket: fetched when first needed, into a folder of bounded size.

A file in the cache is named by its hash, so datasets and processes can share the folder. It is
written under a temporary name, compared with the hash that the manifest gives, and only then gets
its name: a name in the cache is a whole file. When room is needed, the file that was used least
recently is removed. Whoever has it open keeps it until it is closed.

Several processes that want the same file wait for the first of them, where `flock` works; where it
does not, each fetches it, and the last rename wins with the same bytes.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from tokenmill.base.atomic import temporary_beside
from tokenmill.base.hashing import hash_open
from tokenmill.errors import CorruptShardError, DownloadError, TokenmillError
from tokenmill.tokenfiles.shard_reader import MAX_OPEN, Descriptor, ShardReader
from tokenmill.tokenfiles.token_file import TokenFile

CACHE_BYTES = 16 << 30
ABANDONED = 3600.0
"""Seconds without a write after which a partly fetched file is waste."""
AHEAD = 2
"""Shards that are fetched ahead of the one that is opened, when nobody says which come next."""
_BLOCK = 4 << 20


class ShardCache:
    """A folder with at most `max_bytes` of files, fetched when they are first asked for."""

    def __init__(self, folder: str | os.PathLike[str] | None, max_bytes: int | None) -> None:
        self.folder = Path(folder) if folder is not None else usual_folder()
        self.max_bytes = CACHE_BYTES if max_bytes is None else max_bytes
        if self.max_bytes < 1:
            raise ValueError(f"cache_bytes is {max_bytes}, but must be at least 1")
        self._forget()

    def __reduce__(self) -> tuple[object, ...]:
        return ShardCache, (self.folder, self.max_bytes)

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._checked: set[tuple[str, int]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        self._being_fetched: set[str] = set()

    def open(self, address: str, size: int, digest: str) -> int:
        """A descriptor of the file with these bytes; the caller closes it."""
        if self._pid != os.getpid():
            self._forget()
        if size > self.max_bytes:
            raise ValueError(
                f"{address} has {size:,} bytes, but the cache holds {self.max_bytes:,}; "
                f"pass cache_bytes={4 * size} or more"
            )
        path = self.folder / f"{digest}.bin"
        for _ in range(2):
            if (descriptor := self._find(path, size, digest)) is not None:
                return descriptor
            with self._one_at_a_time(path):
                descriptor = self._find(path, size, digest)
                if descriptor is None:
                    descriptor = self._fetch(address, path, size, digest)
            if descriptor is not None:
                return descriptor
        raise CorruptShardError(
            f"{address} was fetched twice, and is not what its manifest says (xxh3-128 {digest})",
            hint="the object was replaced or damaged; upload it again",
        )

    def fetch_ahead(self, wanted: Iterable[tuple[str, int, str]]) -> None:
        """Begin to fetch files (address, size, hash) that will be asked for; errors come then."""
        if self._pid != os.getpid():
            self._forget()
        for address, size, digest in wanted:
            if (self.folder / f"{digest}.bin").exists():
                continue
            with self._lock:
                if digest in self._being_fetched:
                    continue
                self._being_fetched.add(digest)
                if self._threads is None:
                    self._threads = ThreadPoolExecutor(1, "tokenmill-fetch")
                self._threads.submit(self._fetch_now, address, size, digest)

    def _fetch_now(self, address: str, size: int, digest: str) -> None:
        try:
            with contextlib.suppress(TokenmillError, OSError, ValueError):
                os.close(self.open(address, size, digest))
        finally:
            with self._lock:
                self._being_fetched.discard(digest)

    def _find(self, path: Path, size: int, digest: str) -> int | None:
        """The file from the cache, if it is there and whole."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        known = (digest, os.fstat(descriptor).st_ino)
        if known not in self._checked:
            if os.fstat(descriptor).st_size != size or hash_open(descriptor) != digest:
                os.close(descriptor)
                path.unlink(missing_ok=True)
                return None
            self._checked.add(known)
        with contextlib.suppress(OSError):
            os.utime(descriptor)  # used just now
        return descriptor

    def _fetch(self, address: str, path: Path, size: int, digest: str) -> int | None:
        """Fetch the file; None when its bytes are not those of the manifest."""
        from tokenmill.storage.object_file import ObjectFile

        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = temporary_beside(path)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._lock:
            self._make_room(size)
            descriptor = os.open(temporary, flags, 0o600)
            os.truncate(descriptor, size)  # seen by whoever else makes room
        try:
            with (
                ObjectFile(address, hashed=True) as remote,
                open(descriptor, "wb", closefd=False) as file,
            ):
                shutil.copyfileobj(remote, file, _BLOCK)
            if os.fstat(descriptor).st_size != size or hash_open(descriptor) != digest:
                os.close(descriptor)
                temporary.unlink(missing_ok=True)
                return None
            os.replace(temporary, path)
        except BaseException as error:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DownloadError(
                    f"no room for {size:,} bytes in the cache {self.folder}",
                    hint="free some, pass a smaller cache_bytes, or another cache_dir",
                ) from error
            raise
        self._checked.add((digest, os.fstat(descriptor).st_ino))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def _make_room(self, size: int) -> None:
        """Remove what was used least recently until `size` bytes more fit."""
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        files.append((stat.st_mtime, stat.st_size, entry.path))
        total = sum(length for _, length, _ in files)
        for used, length, path in sorted(files):
            if path.endswith(".tmp"):
                removable = time.time() - used > ABANDONED
            else:
                removable = path.endswith(".bin") and total + size > self.max_bytes
            if not removable:
                continue
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= length

    @contextlib.contextmanager
    def _one_at_a_time(self, path: Path) -> Iterator[None]:
        """Wait for another process that fetches the same file; nothing depends on it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock")
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(descriptor)


class CachedReader(ShardReader):
    """A reader of files in a bucket: their paths are addresses. Each is cached when touched."""

    is_remote = True

    def __init__(
        self, files: Sequence[TokenFile], cache: ShardCache, *, backend: str = "mmap"
    ) -> None:
        # A file that was evicted uses the disk while it is open, so what is open is bounded too.
        largest = max((file.file_bytes for file in files), default=1) or 1
        max_open = max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest)))
        super().__init__(files, backend=backend, max_open=max_open)
        self.cache = cache
        self._knows_what_comes = False

    def __reduce__(self) -> tuple[object, ...]:
        return partial(CachedReader, self.files, self.cache, backend=self.backend), ()

    def of(self, files: Sequence[TokenFile]) -> "CachedReader":
        return CachedReader(files, self.cache, backend=self.backend)

    def expect(self, shards: Sequence[int]) -> None:
        """Fetch as many of these as there is room for."""
        self._knows_what_comes = True
        self._fetch_ahead(shards)

    def _fetch_ahead(self, shards: Sequence[int]) -> None:
        room, wanted = self.cache.max_bytes // 2, []
        for i in shards:
            room -= self.files[i].file_bytes
            if room < 0:
                break
            wanted.append(self._wanted(i))
        self.cache.fetch_ahead(wanted)

    def _open(self, i: int) -> Descriptor:
        descriptor = Descriptor(self.cache.open(*self._wanted(i)))
        if not self._knows_what_comes:
            self._fetch_ahead(range(i + 1, min(i + 1 + AHEAD, len(self.files))))
        return descriptor

    def _wanted(self, i: int) -> tuple[str, int, str]:
        file = self.files[i]
        assert file.hashes is not None
        return file.path, file.file_bytes, file.hashes.tokens


def usual_folder() -> Path:
    """`$XDG_CACHE_HOME/tokenmill`, usually ~/.cache/tokenmill."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "tokenmill" / "shards"
