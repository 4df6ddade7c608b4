"""Write one real `.npy` a split: numpy's header of version 1, always 128 bytes, then the ids."""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.formats import npy
from tokenmill.formats.engine.writing import Rolling, Target

DTYPES = ("uint16", "uint32", "uint8", "int32", "int64", "uint64")
TOKENS_PER_SHARD = MAX_TOKENS_PER_SHARD = 2**62
HEADER_BYTES = 128


class NpyWriter(Rolling):
    """One split as one file."""

    whole_documents = False

    def path(self, number: int) -> Path:
        """Named for the split."""
        return self.folder / f"{self.target.split or 'tokens'}.npy"

    def begin(self, file: IO[bytes]) -> None:
        """Leave room for the header."""
        file.write(bytes(HEADER_BYTES))

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """Fill in the header."""
        file.seek(0)
        file.write(header(self.target.dtype.str, num_tokens))


def header(descr: str, num_tokens: int) -> bytes:
    """The 128 bytes before a 1-D array."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({num_tokens},), }}"
    start = npy.MAGIC + b"\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return start + text.encode().ljust(HEADER_BYTES - 11) + b"\n"


def open_writer(folder: Path, target: Target) -> NpyWriter:
    """A writer of one split."""
    return NpyWriter(folder, target)
