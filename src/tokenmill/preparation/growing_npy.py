"""One `.npy` that grows, survives being stopped, and appears under its name only when it is whole.

While it is written it is `.NAME.part`, with a journal beside it that says how much of it is safely
on disk and for which input and settings. A writer with the same key goes on from there; with
another key it starts again. At the end the header gets the true shape and the file its name.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import orjson

from tokenmill.base.atomic import rename_durably, sync_open_file, write_atomically
from tokenmill.errors import LockedError

HEADER_SIZE = 128
"""Room for any length: the header of a one-dimensional array never needs more."""


def npy_header(dtype: np.dtype[Any], length: int) -> bytes:
    """The header NumPy itself writes for a one-dimensional array (version 1.0)."""
    fields = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': ({length},), }}"
    room = HEADER_SIZE - 11
    assert len(fields) <= room, "the header is longer than the room for it"
    size = (HEADER_SIZE - 10).to_bytes(2, "little")
    return b"\x93NUMPY\x01\x00" + size + fields.encode("ascii").ljust(room) + b"\n"


class NpyWriter:
    """Appends ids to a `.npy` in the making; use it through `open_npy`."""

    def __init__(self, path: Path, dtype: np.dtype[Any], key: dict[str, Any]) -> None:
        self.path = path
        self.dtype = dtype
        self._key = key
        self._part = path.with_name(f".{path.name}.part")
        self._journal = path.with_name(f".{path.name}.journal")
        self._file: BinaryIO
        self.is_open = False
        self.length = 0

    def start(self) -> dict[str, Any]:
        """Open, and return the notes of the last `save`; {} when there is nothing to go on from."""
        self._file = _open_alone(self._part)
        self.is_open = True
        saved = self._read_journal()
        self.length = int(saved.get("length", 0))
        size = HEADER_SIZE + self.length * self.dtype.itemsize
        if self.length and os.fstat(self._file.fileno()).st_size < size:
            saved, self.length = {}, 0
        self._file.truncate(HEADER_SIZE + self.length * self.dtype.itemsize)
        self._file.seek(0, os.SEEK_END)
        notes: dict[str, Any] = saved.get("notes", {})
        return notes

    def append(self, ids: npt.NDArray[np.unsignedinteger[Any]]) -> None:
        """Write these ids; one that does not fit into the type is a ValueError, never wrapped."""
        if ids.size and int(ids.max()) > np.iinfo(self.dtype).max:
            raise ValueError(
                f"token id {int(ids.max())} does not fit into {self.dtype.name}; "
                'pass dtype="uint32"'
            )
        self._file.write(ids.astype(self.dtype.newbyteorder("<")).data)
        self.length += ids.size

    def save(self, notes: dict[str, Any]) -> None:
        """Make what was written last, then note it, with what the caller needs to go on."""
        sync_open_file(self._file)
        entry = {"key": self._key, "length": self.length, "notes": notes}
        write_atomically(self._journal, orjson.dumps(entry))

    def finish(self) -> int:
        """Write the header, give the file its name, and return its size."""
        self._file.seek(0)
        self._file.write(npy_header(self.dtype.newbyteorder("<"), self.length))
        sync_open_file(self._file)
        size = os.fstat(self._file.fileno()).st_size
        rename_durably(self._part, self.path)
        self._journal.unlink(missing_ok=True)
        return size

    def discard(self) -> None:
        """Remove what was written."""
        self._journal.unlink(missing_ok=True)
        self._part.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; what was saved stays."""
        self._file.close()

    def _read_journal(self) -> dict[str, Any]:
        try:
            saved = orjson.loads(self._journal.read_bytes())
        except (OSError, ValueError):
            return {}
        same = isinstance(saved, dict) and saved.get("key") == self._key
        return saved if same else {}


@contextlib.contextmanager
def open_npy(path: Path, dtype: np.dtype[Any], key: dict[str, Any]) -> Iterator[NpyWriter]:
    """A writer for `path`. `key` (JSON) is all that the ids depend on.

    What was saved stays after an interrupt or a failing disk, to go on from; after any other error
    it is removed, for it would fail again.
    """
    writer = NpyWriter(path, dtype, key)
    try:
        yield writer
    except (OSError, KeyboardInterrupt):
        raise
    except Exception:
        if writer.is_open:  # else it belongs to another process
            writer.discard()
        raise
    finally:
        if writer.is_open:
            writer.close()


def _open_alone(path: Path) -> BinaryIO:
    """Open for reading and writing, as the only process that does."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    file = os.fdopen(os.open(path, flags, 0o666), "r+b")
    try:
        import fcntl
    except ImportError:  # no locks of this kind on this system; the rename is still whole
        return file
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The other writer may just have finished: then this is its file, under its final name.
        is_ours = path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except OSError:
        is_ours = False
    if not is_ours:
        file.close()
        raise LockedError(
            f"another process is writing {path}", hint="wait for it to end, or stop it first"
        )
    return file
