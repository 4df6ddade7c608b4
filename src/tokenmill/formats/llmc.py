"""llm.c `.bin` shards: also modded-nanogpt's and karpathy's FineWeb-Edu token shards.

256 little-endian int32 of header, then the ids:

  header[0]   20240520 (GPT-2, uint16) or 20240801 (Llama 3, uint32)
  header[1]   version: 1 or 7
  header[2]   number of tokens, below 2^31

The file is exactly 1024 bytes longer than its tokens. Documents begin with the end-of-text id and
may go on in the next shard. The magic states the tokenizer: 50256 for GPT-2, 128000 for Llama 3.
"""

from pathlib import Path

import numpy as np

from tokenmill.errors import FormatError, TruncatedShardError, UnsupportedVersionError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.first_bytes import OTHERS
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.tokenfiles.token_file import TokenFile

NAME = "llmc"
HEADER_BYTES = 1024
# magic -> (version, dtype, vocabulary, end-of-text id, bundled tokenizer)
KINDS = {
    20240520: (1, "<u2", 50257, 50256, "gpt2"),
    20240801: (7, "<u4", 128256, 128000, None),
}


def claims(path: Path, first_bytes: bytes) -> bool:
    """Whether these are the first bytes of such a file."""
    return int.from_bytes(first_bytes[:4], "little") in KINDS


def read(path: Path, ask: Ask) -> Found:
    """One file as a shard."""
    first_bytes, size = untrusted.head(path, HEADER_BYTES)
    kind = KINDS.get(int.from_bytes(first_bytes[:4], "little"))
    if kind is None:
        raise _not_llmc(path, first_bytes)
    version, dtype_code, vocab_size, end_of_text_id, tokenizer = kind
    if size < HEADER_BYTES:
        raise TruncatedShardError(
            f"{path} is {size:,} bytes; the header of llm.c alone has {HEADER_BYTES:,}",
            hint="the file was cut short; fetch this file again",
        )
    header = np.frombuffer(first_bytes, "<i4")
    if header[1] != version:
        raise UnsupportedVersionError(
            f"{path} is of llm.c version {header[1]}; known is {version}",
            hint="the file is damaged, or llm.c has a new format",
        )
    num_tokens = int(header[2])
    if num_tokens < 0:
        raise FormatError(
            f"{path} claims {num_tokens:,} tokens in its header",
            hint="the count has overflowed 2^31 or is damaged; write or fetch the shard again",
        )
    dtype = ask.agreed(np.dtype(dtype_code), path)
    untrusted.expect_size(
        path,
        size,
        HEADER_BYTES + num_tokens * dtype.itemsize,
        f"its header ({num_tokens:,} tokens)",
    )
    file = TokenFile(str(path), path.name, dtype, num_tokens, size, HEADER_BYTES)
    return Found(
        NAME,
        (file,),
        vocab_size=vocab_size,
        end_of_text_id=end_of_text_id,
        end_of_text_comes="before",
        tokenizer=tokenizer,
    )


def _not_llmc(path: Path, first_bytes: bytes) -> FormatError:
    what, remedy = OTHERS.get(first_bytes[:4], ("", ""))
    if what:
        return FormatError(f"{path} is {what}", hint=remedy)
    magic = int.from_bytes(first_bytes[:4], "little")
    return FormatError(
        f"{path} starts with {magic}, not with the magic of llm.c ({', '.join(map(str, KINDS))})",
        hint="the file is damaged, or has no header: then pass format='nanogpt' and its dtype",
    )
