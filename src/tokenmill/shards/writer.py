"""Write one shard of ours with its index, and give the entry that its manifest will hold.

    with ShardWriter(folder, "train/shard_00000.bin", dtype) as shard:
        shard.write(ids)               # as often as needed, in order
        entry = shard.finish(ends)     # where documents end, in tokens, exclusive

Ids are hashed while they are written. `finish` gives both files their names only when they are
whole, then reads them again and compares: what the disk has is what was meant, or an error.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.base.hashing import hash_file
from tokenmill.errors import CorruptShardError
from tokenmill.shards.manifest import EndsEntry, ShardEntry


class ShardWriter:
    """One new shard; an error before `finish` leaves no file."""

    def __init__(
        self, folder: Path, file: str, dtype: np.dtype[Any], *, durable: bool = False
    ) -> None:
        self.folder = folder
        self.file = file
        self.dtype = dtype.newbyteorder("<")
        self.durable = durable  # synced to the disk here, not later by the caller
        self.num_tokens = 0
        self._hash = xxhash.xxh3_128()
        self._open = ExitStack()
        self._ids = self._open.enter_context(new_file(folder / file, durable=durable))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._open.__exit__(*error)

    def write(self, ids: np.ndarray) -> None:
        """Add ids after those written before; all must fit into the type of the shard."""
        data = np.ascontiguousarray(ids, self.dtype).data
        self._ids.write(data)
        self._hash.update(data)
        self.num_tokens += len(ids)

    def finish(self, ends: np.ndarray) -> ShardEntry:
        """Write the index, name both files, read them back; the entry for the manifest."""
        index = ends.astype("<u8").data
        index_file = self.file.removesuffix(".bin") + ".ends"
        self._open.close()
        with new_file(self.folder / index_file, durable=self.durable) as file:
            file.write(index)
        entry = ShardEntry(
            self.file,
            self.num_tokens,
            self.num_tokens * self.dtype.itemsize,
            self._hash.hexdigest(),
            EndsEntry(index_file, len(ends), 8 * len(ends), xxhash.xxh3_128_hexdigest(index)),
        )
        check_read_back(self.folder / entry.file, entry.xxh3_128)
        check_read_back(self.folder / entry.ends.file, entry.ends.xxh3_128)
        return entry


def check_read_back(path: Path, expected: str) -> None:
    """Read a file that was just written, and compare its hash with what was meant."""
    if (found := hash_file(path)) != expected:
        raise CorruptShardError(
            f"{path} was written with hash {expected} but reads back as {found}",
            hint="the disk or the memory of this machine is failing; check it, then try again",
        )
