"""Two formats that are read and never written: a short header, then the ids.

lit-gpt and TinyLlama fill their last `.bin` up with separators. Nothing marks where they begin, so
they are tokens here as they are there. A `.pbin` of Modalities ends with a pickled list of where
documents are: reading a pickle can run code, so only an end-of-text id says where they end.
"""

from pathlib import Path
from struct import Struct

import numpy as np

from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.megatron import dtype_of_code
from tokenmill.formats.not_tokens import read_header
from tokenmill.reading.token_file import TokenFile

LITPKDS = Struct("<7sQBQ")  # magic, version, dtype code as in a Megatron index, number of tokens
PBIN = Struct("<QI")  # bytes of all tokens, bytes of one


class Litpkds(FileFormat):
    """lit-gpt's packed dataset."""

    name = "litpkds"

    def read(self, path: Path, ask: Ask) -> FoundData:
        (_, version, code, num_tokens), size = read_header(path, LITPKDS, b"LITPKDS")
        untrusted.expect_version(path, version, 1)
        dtype = ask.agreed(dtype_of_code(path, code), path)
        return self.found(path, dtype, size, num_tokens, LITPKDS.size)


class Modalities(FileFormat):
    """Modalities' packed data, known by its name."""

    name = "modalities"

    def read(self, path: Path, ask: Ask) -> FoundData:
        (num_bytes, width), size = read_header(path, PBIN)
        if width not in (1, 2, 4):
            what = f"says that a token has {width:,} bytes; known are 1, 2 and 4"
            raise untrusted.damaged(path, what)
        # After the tokens comes a pickle of unknown length, and at least one byte of it.
        untrusted.expect_at_least(path, size, PBIN.size + num_bytes + 1, "its header")
        dtype = ask.agreed(np.dtype(f"<u{width}"), path)
        count = untrusted.whole_tokens(path, num_bytes, dtype)
        file = TokenFile(str(path), path.name, dtype, count, size, PBIN.size)
        return FoundData(self.name, (file,))
