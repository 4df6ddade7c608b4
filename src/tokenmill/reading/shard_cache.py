"""A folder of bounded size: blocks and files from a store, and unpacked ones, fetched when needed.

    NAME.block     a block of 1 MiB of a file, then the xxh3-128 of it
    NAME.bin       a whole file; NAME is its hash where a manifest states one
    NAME.digest    the hash of a whole file that nobody states: computed when it was fetched

Each is compared with its hash before it gets its name, and once more by each process before its
first use. Several processes that want the same file wait for the first of them, where `flock`
works; where it does not, each fetches it, and the last rename wins with the same bytes.
"""

import errno
import mmap
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import xxhash

from tokenmill.base.address import is_remote
from tokenmill.base.atomic import temporary_beside, user_cache, write_atomically
from tokenmill.base.descriptors import open_descriptor, read_at, rename_open, unlink_unused
from tokenmill.base.hashing import hash_open
from tokenmill.base.lock import wait_for_others
from tokenmill.errors import CorruptShardError, DownloadError, TokenmillError
from tokenmill.reading.frames import unpacked_blocks
from tokenmill.reading.token_file import Packed, TokenFile

CACHE_BYTES = 16 << 30
ABANDONED = 3600.0
"""Seconds without a write after which a partly fetched file is waste."""
TRIES = 3
_DIGEST_BYTES = 16
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
# By process: another thread may have held that of the parent when it was forked.
_making_room: dict[int, threading.Lock] = defaultdict(threading.Lock)


class CachedFile(NamedTuple):
    """A whole file that the cache is to hold, and where it comes from."""

    address: str
    size: int
    digest: str
    """The hash of its bytes (xxh3-128); empty where nobody states one."""
    etag: str = ""
    """What the store called this version of the object, where there is no hash."""
    packed: Packed | None = None
    """Where it is compressed there. Size and hash are those of its content."""

    @property
    def name(self) -> str:
        """Its name in the cache, without a suffix."""
        return self.digest or xxhash.xxh3_128_hexdigest("\0".join(map(str, self)).encode())


def tokens_of(file: TokenFile) -> CachedFile:
    """Return the tokens of a file as the cache is to hold them."""
    digest = "" if file.packed is None else file.packed.content_xxh3_128
    if file.hashes is not None:
        digest = file.hashes.tokens
    return CachedFile(file.path, file.file_bytes, digest, file.etag, file.packed)


class ShardCache:
    """A folder with at most `max_bytes` of blocks and files."""

    def __init__(self, folder: str | os.PathLike[str] | None, max_bytes: int | None) -> None:
        self.folder = Path(folder) if folder is not None else user_cache("shards")
        self.max_bytes = CACHE_BYTES if max_bytes is None else max_bytes
        if self.max_bytes < 1:
            raise ValueError(f"cache_bytes is {max_bytes}, but must be at least 1")
        self._checked: set[tuple[str, int]] = set()  # names and inodes whose hash was right
        self._room = 0  # bytes that may be written before the next look at the folder

    def __reduce__(self) -> tuple[object, ...]:
        return ShardCache, (self.folder, self.max_bytes)

    def open(self, file: CachedFile) -> int:
        """Return a descriptor of a file with the bytes of the object; the caller closes it."""
        if file.size > self.max_bytes:
            raise ValueError(
                f"{file.address} has {file.size:,} bytes, but the cache holds "
                f"{self.max_bytes:,}; pass cache_bytes={4 * file.size} or more"
            )
        path = self.folder / f"{file.name}.bin"
        is_right = partial(self._has_hash, file)
        return self._get(path, file.address, file.size, is_right, partial(self._fetch, file))

    def block(
        self, name: str, num_bytes: int, address: str, fetch: Callable[[], bytes]
    ) -> np.ndarray:
        """Return a block as uint8, mapped; `fetch` returns its bytes, checked."""

        def keep(path: Path) -> int:
            data = fetch()
            descriptor = self._write(path, size, (data, xxhash.xxh3_128_digest(data)))
            assert descriptor is not None
            return descriptor

        size = num_bytes + _DIGEST_BYTES
        path = self.folder / f"{name}.block"
        with open(self._get(path, address, size, _has_own_hash, keep), "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, np.uint8, num_bytes)

    def _get(
        self,
        path: Path,
        address: str,
        size: int,
        is_right: Callable[[int], bool],
        fetch: Callable[[Path], int],
    ) -> int:
        """Return a descriptor of a file of the cache, which is fetched if it is not there."""
        with self._explain_bad_folder(address, size):
            descriptor = self._find(path, size, is_right)
            if descriptor is None:
                with wait_for_others(path):
                    descriptor = self._find(path, size, is_right)
                    if descriptor is None:
                        descriptor = fetch(path)
        return descriptor

    def _find(self, path: Path, size: int, is_right: Callable[[int], bool]) -> int | None:
        """Return a descriptor of a file, if it is in the cache and whole."""
        try:
            descriptor = open_descriptor(path, os.O_RDONLY, follow=False)
        except FileNotFoundError:
            return None
        about = os.fstat(descriptor)
        key = (path.name, about.st_ino)
        if key not in self._checked:
            if about.st_size != size or not is_right(descriptor):
                os.close(descriptor)
                unlink_unused(path)
                return None
            self._checked.add(key)
        with suppress(OSError):
            os.utime(path)  # used just now
        return descriptor

    def _has_hash(self, file: CachedFile, descriptor: int) -> bool:
        """Compare with the hash that is stated, or was computed when the file was fetched."""
        digest = file.digest
        if not digest:
            with suppress(FileNotFoundError):
                digest = (self.folder / f"{file.name}.digest").read_text("ascii")
        return hash_open(descriptor) == digest

    def _fetch(self, file: CachedFile, path: Path) -> int:
        """Fetch or unpack a file; one that arrives damaged is fetched again."""
        for attempt in range(TRIES):
            try:
                content = _read_content(file, is_second=attempt > 0)
                descriptor = self._write(path, file.size, content, file.digest)
            except CorruptShardError:  # a frame; it may have been damaged in transit
                if attempt == TRIES - 1 or not is_remote(file.address):
                    raise
                continue
            if descriptor is not None:
                if not file.digest:
                    digest = hash_open(descriptor).encode()
                    write_atomically(path.with_suffix(".digest"), digest, durable=False)
                return descriptor
        raise CorruptShardError(
            f"{file.address} was brought here three times, "
            f"and is not what its manifest says (xxh3-128 {file.digest})",
            hint="the file was replaced or damaged; bring the right one there again",
        )

    def _write(
        self, path: Path, size: int, content: Iterable[bytes], digest: str = ""
    ) -> int | None:
        """Write a file and return its descriptor; None if its bytes are not the right ones."""
        temporary = temporary_beside(path)
        with ExitStack() as undo:
            undo.callback(temporary.unlink, missing_ok=True)
            descriptor = self._create(temporary, size)
            undo.callback(os.close, descriptor)  # first: Windows removes no open file
            with open(descriptor, "wb", closefd=False) as file:
                file.writelines(content)
            is_whole = os.fstat(descriptor).st_size == size
            if not is_whole or (digest and hash_open(descriptor) != digest):
                return None
            # Who looks at the folder might see a file twice, or not at all.
            with _making_room[os.getpid()]:
                descriptor = rename_open(descriptor, temporary, path)
            undo.pop_all()
        os.lseek(descriptor, 0, os.SEEK_SET)
        self._checked.add((path.name, os.fstat(descriptor).st_ino))
        return descriptor

    def _create(self, temporary: Path, size: int) -> int:
        """Make room for a file, and create it in its full size: others that make room see it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        with _making_room[os.getpid()]:
            self._room -= size
            if self._room < 0:
                self._room = self._make_room(size)
            descriptor = open_descriptor(temporary, flags, 0o600, follow=False)
            os.ftruncate(descriptor, size)
        return descriptor

    def _make_room(self, size: int) -> int:
        """Remove what was used least recently until `size` bytes more fit.

        Returns how many bytes may be written before the next look: few, as others write as well.
        """
        files = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        stat = entry.stat(follow_symlinks=False)
                        files.append((stat.st_mtime_ns, stat.st_size, entry.path))
        left = self.max_bytes - size - sum(length for _, length, _ in files)
        some = self.max_bytes // 16
        least = some if left < 0 else 0  # to be left: a few files at a time make room for many
        for used, length, path in sorted(files):
            if path.endswith(".tmp"):
                removable = time.time() - used / 1e9 > ABANDONED
            else:
                removable = path.endswith((".bin", ".block")) and left < least
            if removable and unlink_unused(path):
                left += length
        return max(0, min(left, some))

    @contextmanager
    def _explain_bad_folder(self, address: str, size: int) -> Iterator[None]:
        """Say what to do about a cache folder that is full, is no folder, or may not be written."""
        try:
            yield
        except OSError as error:
            kind = DownloadError if is_remote(address) else TokenmillError
            if error.errno in _FULL:
                raise kind(
                    f"no room for {size:,} bytes in the cache {self.folder}",
                    hint="free some, pass a smaller cache_bytes, or another cache_dir",
                ) from error
            if error.errno in _UNUSABLE:
                raise kind(
                    f"cannot write to the cache {self.folder}: {error.strerror}",
                    hint="pass a cache_dir that this user may write to (or set XDG_CACHE_HOME)",
                ) from error
            raise


def _has_own_hash(descriptor: int) -> bool:
    data = read_at(descriptor, os.fstat(descriptor).st_size, 0)
    return xxhash.xxh3_128_digest(data[:-_DIGEST_BYTES]) == data[-_DIGEST_BYTES:]


def _read_content(file: CachedFile, *, is_second: bool) -> Iterator[bytes]:
    """Return the bytes of a file in order, unpacked if they are compressed there.

    `is_second`: a first copy was wrong, so each range of an object is checked by itself.
    """
    stream: BinaryIO
    if is_remote(file.address):
        from tokenmill.stores.object_file import ObjectFile

        hashed = bool(file.digest) and not is_second
        size = file.size if file.packed is None else file.packed.num_bytes
        stream = ObjectFile(file.address, file.etag, size, hashed=hashed)  # type: ignore[assignment]
    else:
        stream = open(file.address, "rb")  # noqa: SIM115 - closed after the last block
    codec = None if file.packed is None else file.packed.codec
    return unpacked_blocks(stream, codec, file.address, file.size)
