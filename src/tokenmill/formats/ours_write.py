"""Write shards of ours with their indexes; the manifest is convert.py's, written last."""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.base.hashing import hash_file
from tokenmill.formats.engine.writing import Rolling, Target, write_file
from tokenmill.shards.manifest import Ends, Shard

DTYPES = ("uint16", "uint32")
TOKENS_PER_SHARD = 10_000_000
MAX_TOKENS_PER_SHARD = 2**62


class OursWriter(Rolling):
    """One split as shards."""

    whole_documents = False

    def __init__(self, folder: Path, target: Target) -> None:
        super().__init__(folder, target)
        self.shards: list[Shard] = []
        (folder / (target.split or "train")).mkdir()

    def path(self, number: int) -> Path:
        """Numbers go on from split to split."""
        return self.folder / (self.target.split or "train") / f"shard_{number:05d}.bin"

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """The index of the shard, and its record for the manifest."""
        file.flush()
        index = path.with_suffix(".ends")
        write_file(index, ends.astype("<u8").tobytes())
        names = [p.relative_to(self.folder).as_posix() for p in (path, index)]
        self.shards.append(
            Shard(
                names[0],
                num_tokens,
                num_tokens * self.target.dtype.itemsize,
                hash_file(path),
                Ends(names[1], len(ends), 8 * len(ends), hash_file(index)),
            )
        )


def open_writer(folder: Path, target: Target) -> OursWriter:
    """A writer of one split."""
    return OursWriter(folder, target)
