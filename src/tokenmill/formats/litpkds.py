"""Packed `.bin` files of lit-gpt and TinyLlama.

  7 bytes   "LITPKDS"
  u64       version 1
  u8        dtype code: 1 uint8, 2 int8, 3 int16, 4 int32, 5 int64, 8 uint16
  u64       number of tokens
  then the ids

The writer fills its last file up with separator tokens; nothing marks where they begin, so they are
tokens here as they are there.
"""

from pathlib import Path

import numpy as np

from tokenmill.errors import FormatError, UnsupportedVersionError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.tokenfiles.token_file import TokenFile

NAME = "litpkds"
MAGIC = b"LITPKDS"
HEADER_BYTES = 24
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def claims(path: Path, first_bytes: bytes) -> bool:
    """Whether these are the first bytes of such a file."""
    return first_bytes.startswith(MAGIC)


def read(path: Path, ask: Ask) -> Found:
    """One file as a shard."""
    first_bytes, size = untrusted.head(path, HEADER_BYTES)
    if not first_bytes.startswith(MAGIC):
        raise FormatError(
            f"{path} starts with {first_bytes[:7]!r}, not with {MAGIC!r}",
            hint="the file is damaged, or of another format: leave format out to have it told",
        )
    if size < HEADER_BYTES:
        raise untrusted.too_short(path, size, HEADER_BYTES, "the header")
    version = int.from_bytes(first_bytes[7:15], "little")
    if version != 1:
        raise UnsupportedVersionError(f"{path} is of version {version:,}; known is 1")
    code = first_bytes[15]
    if code not in DTYPES:
        raise FormatError(
            f"{path} has the dtype code {code}; token ids have one of "
            f"{', '.join(map(str, DTYPES))}",
            hint="6 and 7 are floats; anything else is damage",
        )
    num_tokens = int.from_bytes(first_bytes[16:24], "little")
    dtype = ask.agreed(np.dtype(DTYPES[code]), path)
    untrusted.expect_size(
        path,
        size,
        HEADER_BYTES + num_tokens * dtype.itemsize,
        f"its header ({num_tokens:,} tokens)",
    )
    return Found(NAME, (TokenFile(str(path), path.name, dtype, num_tokens, size, HEADER_BYTES),))
