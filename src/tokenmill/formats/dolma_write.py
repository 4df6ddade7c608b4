"""Write dolma files: headerless `.npy` of ids, and a `.csv.gz` with a line for each document.

The gzip header carries no time, so that equal data gives equal bytes.
"""

import gzip
from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.formats.engine.writing import Rolling, Target, write_file

DTYPES = ("uint16", "uint32", "uint8", "uint64")
TOKENS_PER_SHARD = 500_000_000
MAX_TOKENS_PER_SHARD = 2**62


class DolmaWriter(Rolling):
    """One split as files of whole documents."""

    def __init__(self, folder: Path, target: Target) -> None:
        super().__init__(folder, target)
        self._documents = 0

    def path(self, number: int) -> Path:
        """Named as dolma names them, and so that order by name is order by number."""
        return self.folder / f"part-0-{number:05d}.npy"

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """The table of documents."""
        starts = [0, *ends[:-1].tolist()]
        name = self.target.split or "tokens"
        rows = "".join(
            f"{start},{end},{self._documents + i},{name},{self._documents + i}\r\n"
            for i, (start, end) in enumerate(zip(starts, ends.tolist(), strict=True))
        )
        self._documents += len(ends)
        write_file(path.with_suffix(".csv.gz"), gzip.compress(rows.encode(), mtime=0))


def open_writer(folder: Path, target: Target) -> DolmaWriter:
    """A writer of one split, in a folder of its own."""
    inner = folder / target.split if target.split else folder
    inner.mkdir(exist_ok=True)
    return DolmaWriter(inner, target)
