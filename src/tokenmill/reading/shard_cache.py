"""Shards in a bucket, and compressed ones: brought into a folder of bounded size when first needed.

A file in the cache is named by its hash, so datasets and processes can share the folder. It is
written under a temporary name, compared with the hash that the manifest gives, and only then gets
its name: a name in the cache is a whole file. Of an object whose hash nobody states (other
projects' files), `NAME.digest` keeps the one that was computed when it was fetched, where NAME is
made of its address and ETag. When room is needed, the file that was used least
recently is removed. Whoever has it open keeps it until it is closed. Compressed files are unpacked
on the way: what is in the cache can be mapped.

Several processes that want the same file wait for the first of them, where `flock` works; where it
does not, each fetches it, and the last rename wins with the same bytes.
"""

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import temporary_beside, write_atomically
from tokenmill.base.hashing import hash_open
from tokenmill.base.lock import wait_for_others
from tokenmill.base.user_cache import user_cache
from tokenmill.errors import CorruptShardError, DownloadError, TokenmillError
from tokenmill.reading.cached_file import CachedFile
from tokenmill.reading.frames import unpacked_stream

CACHE_BYTES = 16 << 30
ABANDONED = 3600.0
"""Seconds without a write after which a partly fetched file is waste."""
_BLOCK = 4 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)

Content = Callable[[bool], Iterator[bytes]]
"""Gives all bytes of a file, in order. True: what it gave before was wrong."""


class ShardCache:
    """A folder with at most `max_bytes` of files, fetched when they are first asked for."""

    def __init__(self, folder: str | os.PathLike[str] | None, max_bytes: int | None) -> None:
        self.folder = Path(folder) if folder is not None else user_cache("shards")
        self.max_bytes = CACHE_BYTES if max_bytes is None else max_bytes
        if self.max_bytes < 1:
            raise ValueError(f"cache_bytes is {max_bytes}, but must be at least 1")
        self._forget()

    def __reduce__(self) -> tuple[object, ...]:
        return ShardCache, (self.folder, self.max_bytes)

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._checked: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._being_fetched: set[CachedFile] = set()

    def open(self, file: CachedFile, content: Content | None = None) -> int:
        """A descriptor of a file with the bytes of the object; the caller closes it."""
        if self._pid != os.getpid():
            self._forget()
        if file.size > self.max_bytes:
            raise ValueError(
                f"{file.address} has {file.size:,} bytes, but the cache holds "
                f"{self.max_bytes:,}; pass cache_bytes={4 * file.size} or more"
            )
        content = content or partial(_read_content, file)
        is_fetched = is_remote(file.address)
        with self._explain_bad_folder(file):
            for attempt in range(3):
                if (descriptor := self._find(file)) is not None:
                    return descriptor
                with wait_for_others(self.folder / f"{file.name}.lock"):
                    descriptor = self._find(file)
                    if descriptor is not None:
                        return descriptor
                    try:
                        descriptor = self._fetch(file, content(attempt > 0))
                    except CorruptShardError:  # a frame; it may have been damaged on its way
                        if attempt == 2 or not is_fetched:
                            raise
                if descriptor is not None:
                    return descriptor
        raise CorruptShardError(
            f"{file.address} was brought here three times, "
            f"and is not what its manifest says (xxh3-128 {file.digest})",
            hint="the file was replaced or damaged; bring the right one there again",
        )

    def has(self, file: CachedFile) -> bool:
        """Return True if the file is in the cache."""
        digest = self._digest(file)
        return bool(digest) and (self.folder / f"{digest}.bin").exists()

    def names(self) -> set[str]:
        """The hashes of all files in the cache."""
        try:
            return {name.removesuffix(".bin") for name in os.listdir(self.folder)}
        except FileNotFoundError:
            return set()

    def keep(self, files: Sequence[CachedFile]) -> None:
        """These are needed next, in this order: they are removed last, the first one at the end."""
        now = time.time_ns()
        for number, file in enumerate(files):
            when = now - 1000 * number  # nanoseconds
            with suppress(OSError):
                os.utime(self.folder / f"{self._digest(file)}.bin", ns=(when, when))

    def fetch_ahead(self, files: Iterable[tuple[CachedFile, Content | None]]) -> None:
        """Begin to fetch files that will be asked for, as many as fit; errors are raised then."""
        from tokenmill.stores.request_threads import file_threads

        if self._pid != os.getpid():
            self._forget()
        for file, content in files:
            with self._lock:
                in_progress = sum(each.size for each in self._being_fetched)
                if file in self._being_fetched or self.has(file):
                    continue
                if in_progress + file.size > self.max_bytes:
                    return
                self._being_fetched.add(file)
            file_threads().submit(partial(self._fetch_now, file, content))

    def _fetch_now(self, file: CachedFile, content: Content | None) -> None:
        try:
            with suppress(TokenmillError, OSError, ValueError):
                os.close(self.open(file, content))
        finally:
            with self._lock:
                self._being_fetched.discard(file)

    def _digest(self, file: CachedFile) -> str:
        """The hash of an object: stated, or computed when it was fetched before; else empty."""
        if file.digest:
            return file.digest
        try:
            return (self.folder / f"{file.name}.digest").read_text()
        except FileNotFoundError:
            return ""

    def _find(self, file: CachedFile) -> int | None:
        """The file from the cache, if it is there and whole."""
        digest, size = self._digest(file), file.size
        path = self.folder / f"{digest}.bin"
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
        with suppress(OSError):
            os.utime(descriptor)  # used just now
        return descriptor

    def _fetch(self, wanted: CachedFile, content: Iterator[bytes]) -> int | None:
        """Fetch or unpack the file; None when its bytes are not those of the manifest."""
        size = wanted.size
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = temporary_beside(self.folder / f"{wanted.name}.bin")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with self._lock:
            self._make_room(size)
            descriptor = os.open(temporary, flags, 0o600)
            os.truncate(descriptor, size)  # seen by whoever else makes room
        try:
            with open(descriptor, "wb", closefd=False) as file:
                for block in content:
                    file.write(block)
            digest = hash_open(descriptor)
            if os.fstat(descriptor).st_size != size or digest != (wanted.digest or digest):
                os.close(descriptor)
                temporary.unlink(missing_ok=True)
                return None
            os.replace(temporary, self.folder / f"{digest}.bin")
            if not wanted.digest:
                known = self.folder / f"{wanted.name}.digest"
                write_atomically(known, digest.encode(), durable=False)
        except BaseException:
            os.close(descriptor)
            temporary.unlink(missing_ok=True)
            raise
        self._checked.add((digest, os.fstat(descriptor).st_ino))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    @contextmanager
    def _explain_bad_folder(self, wanted: CachedFile) -> Iterator[None]:
        """Say what to do about a cache folder that is full or may not be written."""
        try:
            yield
        except OSError as error:
            kind = DownloadError if is_remote(wanted.address) else TokenmillError
            if error.errno in _FULL:
                raise kind(
                    f"no room for {wanted.size:,} bytes in the cache {self.folder}",
                    hint="free some, pass a smaller cache_bytes, or another cache_dir",
                ) from error
            if error.errno in _READ_ONLY:
                raise kind(
                    f"cannot write to the cache {self.folder}: {error.strerror}",
                    hint="pass a cache_dir that this user may write to (or set XDG_CACHE_HOME)",
                ) from error
            raise

    def _make_room(self, size: int) -> None:
        """Remove what was used least recently until `size` bytes more fit."""
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        files.append((stat.st_mtime_ns, stat.st_size, entry.path))
        total = sum(length for _, length, _ in files)
        for used, length, path in sorted(files):
            if path.endswith(".tmp"):
                removable = time.time() - used / 1e9 > ABANDONED
            else:
                removable = path.endswith(".bin") and total + size > self.max_bytes
            if not removable:
                continue
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= length


def _read_content(wanted: CachedFile, again: bool) -> Iterator[bytes]:
    """The bytes that are wanted, in order; unpacked if they are compressed there."""
    with _open_stream(wanted) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _open_stream(wanted: CachedFile) -> BinaryIO:
    raw: BinaryIO
    if is_remote(wanted.address):
        from tokenmill.stores.object_file import ObjectFile

        hashed = bool(wanted.digest)
        raw = ObjectFile(wanted.address, wanted.etag, wanted.stored_bytes, hashed=hashed)  # type: ignore[assignment]
    else:
        raw = open(wanted.address, "rb")  # noqa: SIM115 - closed by the caller
    if wanted.packed is None:
        return raw
    return unpacked_stream(raw, wanted.packed.codec, wanted.address, wanted.size)
