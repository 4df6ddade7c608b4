"""Write a Megatron pair: `.bin` of ids, `.idx` with one sequence for each document.

There is no uint32 in this format: larger vocabularies are int32, as Megatron writes them.
"""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.formats import megatron
from tokenmill.formats.engine.writing import Rolling, Target, close

DTYPES = ("uint16", "int32", "uint8", "int64")
TOKENS_PER_SHARD = MAX_TOKENS_PER_SHARD = 2**62
CODES = {np.dtype(dtype): code for code, dtype in megatron.DTYPES.items()}


class MegatronWriter(Rolling):
    """One split as one pair."""

    def path(self, number: int) -> Path:
        """Named for the split."""
        return self.folder / f"{self.target.split or 'corpus'}.bin"

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """The index, table by table."""
        lengths = np.diff(ends, prepend=0)
        if len(lengths) and lengths.max() >= 2**31:
            raise FormatError(
                f"document {int(lengths.argmax()):,} has {int(lengths.max()):,} tokens; a Megatron "
                "index holds lengths below 2^31",
                hint="convert to another format, or cut this document",
            )
        code = CODES[self.target.dtype]
        counts = np.array([len(ends), len(ends) + 1], "<u8")
        with path.with_suffix(".idx").open("xb") as index:
            index.write(megatron.MAGIC + (1).to_bytes(8, "little") + bytes([code]))
            index.write(counts.tobytes())
            index.write(lengths.astype("<i4").tobytes())
            index.write(((ends - lengths) * self.target.dtype.itemsize).astype("<i8").tobytes())
            index.write(np.arange(len(ends) + 1, dtype="<i8").tobytes())
            close(index)


def open_writer(folder: Path, target: Target) -> MegatronWriter:
    """A writer of one split."""
    return MegatronWriter(folder, target)
