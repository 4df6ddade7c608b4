"""Modalities `.pbin` files: the tokens only; read only.

  u64         bytes of tokens
  u32         bytes of one token: 1, 2 or 4, unsigned
  the ids, then a pickled list of where documents are

The list is a pickle, and reading a pickle can run code: it is never read. Where documents end is
known only by an end-of-text id.
"""

from pathlib import Path

import numpy as np

from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import read_header
from tokenmill.reading.token_file import TokenFile

HEADER_BYTES = 12
DTYPES = {1: "<u1", 2: "<u2", 4: "<u4"}


class Modalities(FileFormat):
    """Modalities' packed data, known by its name."""

    name = "modalities"

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = read_header(path, HEADER_BYTES)
        num_bytes = int.from_bytes(first_bytes[:8], "little")
        width = int.from_bytes(first_bytes[8:12], "little")
        if width not in DTYPES:
            what = f"says that a token has {width:,} bytes; known are 1, 2 and 4"
            raise untrusted.damaged(path, what)
        # After the tokens comes a pickle of unknown length, and at least one byte of it.
        untrusted.expect_at_least(path, size, HEADER_BYTES + num_bytes + 1, "its header")
        dtype = ask.agreed(np.dtype(DTYPES[width]), path)
        count = untrusted.whole_tokens(path, num_bytes, dtype)
        file = TokenFile(str(path), path.name, dtype, count, size, HEADER_BYTES)
        return FoundData(self.name, (file,))


FORMAT = Modalities()
