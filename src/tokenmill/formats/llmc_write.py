"""Write llm.c shards: a 1024-byte header, then ids; the end-of-text id comes before a document.

The magic states dtype and tokenizer: uint16 is GPT-2's, uint32 Llama 3's. A shard holds less than
2^31 tokens; documents go on in the next one.
"""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.formats import llmc
from tokenmill.formats.engine.writing import Rolling, Target

DTYPES = ("uint16", "uint32")
TOKENS_PER_SHARD = 100_000_000
MAX_TOKENS_PER_SHARD = 2**31 - 1
MAGIC = {np.dtype(dtype).itemsize: magic for magic, (_, dtype, *_) in llmc.KINDS.items()}


class LlmcWriter(Rolling):
    """One split as shards."""

    whole_documents = False

    def path(self, number: int) -> Path:
        """Named as llm.c names them."""
        return self.folder / f"corpus_{self.target.split or 'train'}_{number:06d}.bin"

    def begin(self, file: IO[bytes]) -> None:
        """Leave room for the header."""
        file.write(bytes(llmc.HEADER_BYTES))

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """Fill in the header."""
        magic = MAGIC[self.target.dtype.itemsize]
        header = np.array([magic, llmc.KINDS[magic][0], num_tokens], "<i4")
        file.seek(0)
        file.write(header.tobytes())


def open_writer(folder: Path, target: Target) -> LlmcWriter:
    """A writer of one split."""
    return LlmcWriter(folder, target)
