"""Write one tokenmill shard with its index, and give the entry that its manifest will hold.

    with ShardWriter(folder, "train/shard_00000.bin", dtype) as shard:
        shard.write(ids)               # as often as needed, in order
        entry = shard.finish(ends)     # where documents end, in tokens, exclusive

`finish` gives the files their names only when they are whole, then reads them again and compares
hashes. With a `level` they are compressed (reading/frames.py) and have `.zst` after their names.
Columns (column_files.py) are written with the ids: `shard.write(ids, {"loss": mask})`.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.base.hashing import hash_file
from tokenmill.errors import CorruptShardError
from tokenmill.shards.manifest import PACKED_SUFFIX, EndsEntry, FileEntry, ShardEntry


class NewFile(ExitStack):
    """One new file of a shard: hashed as it is written, named when it is whole."""

    def __init__(self, folder: Path, file: str, *, durable: bool, level: int | None) -> None:
        super().__init__()
        self._folder = folder
        self._name = file if level is None else file + PACKED_SUFFIX
        self._file = self.enter_context(new_file(folder / self._name, durable=durable))
        self._frames = None
        if level is not None:
            from tokenmill.reading.frames import FrameWriter

            self._frames = FrameWriter(self._file, level)
        self._hash = xxhash.xxh3_128()
        self.num_bytes = 0

    def write(self, data: memoryview) -> None:
        (self._frames or self._file).write(data)
        self._hash.update(data)
        self.num_bytes += data.nbytes

    def finish(self) -> tuple[int, str, FileEntry | None]:
        """Name the file and read it back: size and hash of what was written, and as it is there."""
        digest = self._hash.hexdigest()
        packed = None
        if self._frames is not None:
            written = self._frames.finish()
            packed = FileEntry(self._name, self._frames.num_bytes, written)
        self.close()
        check_read_back(self._folder / self._name, packed.xxh3_128 if packed else digest)
        return self.num_bytes, digest, packed


class ShardWriter(ExitStack):
    """One new shard; an error before `finish` leaves no file."""

    def __init__(
        self,
        folder: Path,
        file: str,
        dtype: np.dtype[Any],
        *,
        durable: bool = False,
        level: int | None = None,
        columns: Sequence[Any] = (),
    ) -> None:
        super().__init__()
        self.folder = folder
        self.file = file
        self.dtype = dtype.newbyteorder("<")
        self.durable = durable  # synced to the disk here, not later by the caller
        self.level = level
        self.num_tokens = 0
        self._ids = self.enter_context(NewFile(folder, file, durable=durable, level=level))
        self._columns: Any = None
        if columns:
            from tokenmill.shards.column_files import ColumnWriter

            new_file = partial(NewFile, folder, durable=durable, level=level)
            self._columns = self.enter_context(ColumnWriter(file, columns, new_file))

    def write(self, ids: np.ndarray, columns: Mapping[str, Any] | None = None) -> None:
        """Add ids after those written before; all must fit into the type of the shard.

        `columns` are the values of these tokens, by name.
        """
        assert self._columns is not None or not columns
        if self._columns is not None:
            self._columns.write(columns or {}, len(ids), self.num_tokens)
        self._ids.write(np.ascontiguousarray(ids, self.dtype).data)
        self.num_tokens += len(ids)

    def finish(self, ends: np.ndarray) -> ShardEntry:
        """Write the index, name all files, read them back; the entry for the manifest."""
        num_bytes, digest, packed = self._ids.finish()
        name = self.file.removesuffix(".bin") + ".ends"
        with NewFile(self.folder, name, durable=self.durable, level=self.level) as index:
            index.write(ends.astype("<u8").data)
            stated = EndsEntry(name, len(ends), *index.finish())
        columns = None if self._columns is None else self._columns.finish()
        return ShardEntry(self.file, self.num_tokens, num_bytes, digest, stated, packed, columns)


def check_read_back(path: Path, expected: str) -> None:
    """Read a file that was just written, and compare its hash with what was meant."""
    if (found := hash_file(path)) != expected:
        raise CorruptShardError(
            f"{path} was written with hash {expected} but reads back as {found}",
            hint="the disk or the memory of this machine is failing; check it, then try again",
        )
