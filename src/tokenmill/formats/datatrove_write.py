"""Write datatrove files: `.ds` of ids, `.ds.index` of document ends, `.ds.metadata`."""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.formats.engine.writing import Rolling, Target, write_file

DTYPES = ("uint16", "uint32")
TOKENS_PER_SHARD = 100_000_000
MAX_TOKENS_PER_SHARD = 2**62


class DatatroveWriter(Rolling):
    """One split as files of whole documents."""

    def path(self, number: int) -> Path:
        """Named as by datatrove's merger, with room for more files."""
        return self.folder / f"{number:05d}_corpus.ds"

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """The index and the metadata."""
        write_file(path.with_name(path.name + ".index"), ends.astype("<u8").tobytes())
        width = self.target.dtype.itemsize
        name = self.target.tokenizer or "Unknown Tokenizer"
        lines = [f"{name}|{width}", str(num_tokens), f"{num_tokens / 1e9:.2f} GT"]
        write_file(path.with_name(path.name + ".metadata"), "\n".join(lines).encode())


def open_writer(folder: Path, target: Target) -> DatatroveWriter:
    """A writer of one split, in a folder of its own."""
    return DatatroveWriter(_folder(folder, target.split), target)


def _folder(folder: Path, split: str | None) -> Path:
    inner = folder / split if split else folder
    inner.mkdir(exist_ok=True)
    return inner
