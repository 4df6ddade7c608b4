"""Packed `.bin` files of lit-gpt and TinyLlama; read only.

  7 bytes   "LITPKDS"
  u64       version 1
  u8        dtype code, as in a Megatron index
  u64       number of tokens
  then the ids

The writer fills its last file up with separator tokens; nothing marks where they begin, so they are
tokens here as they are there.
"""

from pathlib import Path

from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.megatron import dtype_of_code
from tokenmill.formats.not_tokens import read_header

HEADER_BYTES = 24


class Litpkds(FileFormat):
    """lit-gpt's packed dataset."""

    name = "litpkds"

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = read_header(path, HEADER_BYTES, b"LITPKDS")
        untrusted.expect_version(path, int.from_bytes(first_bytes[7:15], "little"), 1)
        dtype = ask.agreed(dtype_of_code(path, first_bytes[15]), path)
        num_tokens = int.from_bytes(first_bytes[16:24], "little")
        return self.found(path, dtype, size, num_tokens, HEADER_BYTES)


FORMAT = Litpkds()
