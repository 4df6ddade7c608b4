"""An input file (`Source`), and the only place where `text/` opens, sizes or reads one.

Paths are plain strings (with surrogate escapes where a name is not UTF-8), or addresses such as
s3://bucket/key, which the room stores/ reads, and hf://datasets/OWNER/NAME, which hub/ reads.

Decompression never ends early silently. The standard file objects differ at the end of the data:
some ignore what follows the last member, which would turn a damaged archive into a short corpus.
Here every member (gzip), frame (zstd) or stream (xz, bz2) is read, zero bytes may pad the end, and
a member that stops early or anything else after the last one is an error. `read(n)` returns at most
n bytes, so a decompression bomb costs no memory; it is refused after 1 GiB.
"""

import errno
import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, cast

from tokenmill.base.address import is_address, is_hub
from tokenmill.base.atomic import was_written_after
from tokenmill.errors import BadInputError, PrepareError

_FAILING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
TOKENS = "tokens"
TABLES = ("parquet", "arrow")
"""Kinds that pyarrow reads."""
UNREADABLE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP)
BLOCK_BYTES = 1 << 18  # compressed bytes read at a time
REQUESTS_AT_ONCE = 16  # to a store
BOMB_BYTES = 1 << 30
BOMB_RATIO = 1000


@dataclass(frozen=True)
class Source:
    """One input file."""

    path: str
    """Path or address to open; not part of any output."""
    name: str
    """Name in manifests and messages; unique, never absolute."""
    size: int
    mtime_ns: int
    kind: str
    """`text`, `jsonl`, `csv`, `parquet` or `arrow`; `tokens` for a split of a dataset that is
    decoded; or `unreadable`, where that is to be counted."""
    compression: str | None
    """None, `gzip`, `zstd`, `xz` or `bzip2`."""
    split: str | None = None
    """Validation set that the whole file is held out for; None for all other inputs."""

    @property
    def has_groups(self) -> bool:
        """True for a table of which parts can be read: it is not packed, nor far away to map."""
        is_near = self.kind == "parquet" or not is_address(self.path)
        return self.kind in TABLES and self.compression is None and is_near

    def changed_after(self, moment: int) -> bool:
        """Return True if the file was written after this time, in nanoseconds."""
        if self.mtime_ns <= moment or is_address(self.path):
            return self.mtime_ns > moment
        return was_written_after(self.path, moment)


def _store_of(address: str) -> Any:
    """Return the module that reads what is at an address."""
    module = "hub.hub_inputs" if is_hub(address) else "stores.object_file"
    return import_module(f"tokenmill.{module}")


def stat(path: str) -> tuple[int, int]:
    """Return size and time of change, or raise PrepareError (DownloadError) naming the file."""
    if is_address(path):
        about = _store_of(path).stat(path)
        return about.size, about.stamp
    try:
        found = os.stat(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    return found.st_size, found.st_mtime_ns


def open_binary(path: str) -> BinaryIO:
    """Open a file for unbuffered reading; callers ask for large blocks."""
    if is_address(path):
        return cast(BinaryIO, _store_of(path).ObjectFile(path))
    try:
        return open(path, "rb", buffering=0)
    except OSError as error:
        raise cannot_read(path, error) from error


def read_range(path: str, start: int, stop: int) -> bytes:
    """Return the bytes start..stop of a file; fewer only where the file ends."""
    if is_address(path):
        return cast(bytes, _store_of(path).read_range(path, start, stop))
    with open_binary(path) as file:
        file.seek(start)
        return read_full(file, stop - start)


def read_full(file: BinaryIO, size: int) -> bytes:
    """Read `size` bytes from the current position; fewer only at the end of the file."""
    blocks = []
    try:
        while size and (block := file.read(size)):
            blocks.append(block)
            size -= len(block)
    except OSError as error:
        raise cannot_read(file.name, error) from error
    return b"".join(blocks)


def _decompressor(kind: str) -> Any:
    if kind == "gzip":
        from zlib_ng import zlib_ng

        return zlib_ng.decompressobj(wbits=31)
    if kind == "xz":
        import lzma

        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ)
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor()
    from tokenmill.base.zstd import zstd_library

    return zstd_library().ZstdDecompressor()


def _faults() -> tuple[type[Exception], ...]:
    import lzma

    from zlib_ng import zlib_ng

    from tokenmill.base.zstd import zstd_library

    zstd_error = zstd_library().ZstdError
    gzip_error: Any = zlib_ng.error  # its types say that it is an instance
    return (OSError, EOFError, ValueError, gzip_error, lzma.LZMAError, zstd_error)


class InputStream:
    """The bytes of one file in order, decompressed where `compression` is not None."""

    def __init__(self, path: str, compression: str | None, name: str) -> None:
        self._file: BinaryIO = open_binary(path)
        self._kind = compression
        self._name = name
        self._inner: Any = None  # the decompressor of the member that is being read
        self._pending = b""  # read from the file, for the decompressor
        self._members = 0
        self.raw_position = 0
        """Bytes of the file that were read."""
        self.position = 0
        """Bytes of the text that were returned."""

    def __enter__(self) -> "InputStream":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Abandoned half-way, it was read as far as was wanted: what closing says is of no interest.
        with suppress(OSError) if kind else nullcontext():
            self._file.close()

    def read(self, size: int) -> bytes:
        """Return `size` bytes of the text; fewer only at the end of the data."""
        parts = []
        left = size
        while left and (part := self._some(left)):
            parts.append(part)
            left -= len(part)
        self.position += size - left
        if self._kind and self.position > max(BOMB_BYTES, BOMB_RATIO * self.raw_position):
            raise bad_file(
                self._name,
                f"unpacks to more than {BOMB_RATIO:,} times its size: to {self.position:,} bytes "
                f"so far, from {self.raw_position:,}",
                hint="no text is that repetitive; if it is intended, unpack the file first",
            )
        return b"".join(parts)

    def skip(self, size: int) -> None:
        if self._kind is None:
            self.position = self.raw_position = self.position + size
            self._file.seek(self.position)
            return
        while size > 0 and (data := self.read(min(size, BLOCK_BYTES))):
            size -= len(data)

    def _some(self, size: int) -> bytes:
        """Return at least one byte of the text, or none at the true end of the data."""
        if self._kind is None:
            return self._block(size)
        while True:
            if self._inner is None and not self._next_member():
                return b""
            try:
                out: bytes = self._inner.decompress(self._pending, size)
            except _faults() as error:
                raise self._error(f"is damaged: {error}") from error
            # zlib gives back what there was no room for, the others keep it.
            self._pending = getattr(self._inner, "unconsumed_tail", b"")
            if self._inner.eof:
                self._pending = self._inner.unused_data
                self._inner = None
                self._members += 1
            if out:
                return out
            if self._inner is not None and not self._pending:
                self._pending = self._block()
                if not self._pending:
                    what = f"its {self._kind} data continues after the end of the file"
                    raise self._error(f"is cut short: {what}")

    def _next_member(self) -> bool:
        assert self._kind is not None
        # Padding: tar and tape write zeros after a gzip member, xz allows them by its format.
        padding = b"\0" if self._members else b""
        self._pending = self._pending.lstrip(padding)
        while not self._pending and (block := self._block()):
            self._pending = block.lstrip(padding)
        if self._pending:
            self._inner = _decompressor(self._kind)
        elif not self._members:
            raise self._error(f"is empty: not even an empty {self._kind} file is")
        return bool(self._pending)

    def _block(self, size: int = BLOCK_BYTES) -> bytes:
        block = read_full(self._file, size)
        self.raw_position += len(block)
        return block

    def _error(self, what: str) -> BadInputError:
        return bad_file(
            self._name,
            f"{what} (after {self.position:,} bytes of text)",
            hint="fetch or make this file again; without its end, the corpus would be shorter",
        )


def cannot_read(path: str, error: OSError) -> PrepareError:
    """Return the error for a file that is missing, not readable, or on a failing disk."""
    shown = printable(path)
    hint = "check that the file is there and that you may read it"
    if error.errno in _FAILING:
        hint = "the disk or the network is failing; give the command again when it is repaired"
    return PrepareError(f"cannot read {shown}: {error.strerror or error}", hint=hint, source=shown)


def bad_file(name: str, what: str, *, hint: str = "fetch or make this file again") -> BadInputError:
    """Return the error for a file that is not what it should be: `what` follows its name."""
    return BadInputError(f"{name} {what}", hint=hint, source=name)


def printable(path: str) -> str:
    """Make a path safe for a message: no control characters, no undecodable bytes."""
    return path if path.isprintable() else ascii(path)[1:-1]
