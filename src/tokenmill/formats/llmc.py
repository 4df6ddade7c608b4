"""llm.c `.bin` shards: also modded-nanogpt's and karpathy's FineWeb-Edu token shards.

A magic number states the dtype and the tokenizer. Documents begin with the end-of-text id and may
continue in the next shard.
"""

from pathlib import Path
from struct import Struct
from typing import IO, Any, NamedTuple

import numpy as np

from tokenmill.formats import untrusted
from tokenmill.formats.format import LLMC_GPT2, LLMC_LLAMA3, Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import read_header
from tokenmill.formats.writing import Writer

HEADER = Struct("<3i1012x")  # magic, version, number of tokens


class Kind(NamedTuple):
    """What a magic number states."""

    magic: int
    version: int
    dtype: str
    vocab_size: int
    end_of_text_id: int
    tokenizer: str | None
    """Its name, if it is bundled."""


KINDS = (
    Kind(LLMC_GPT2, 1, "<u2", 50257, 50256, "gpt2"),
    Kind(LLMC_LLAMA3, 7, "<u4", 128256, 128000, None),
)


def _kind_for(dtype: np.dtype[Any]) -> Kind:
    return next(kind for kind in KINDS if np.dtype(kind.dtype) == dtype)


class LlmcWriter(Writer):
    """One split as shards; documents continue in the next one."""

    file_name = "corpus_{split}_{number:06d}.bin"  # as llm.c names them
    whole_documents = False
    header_bytes = HEADER.size

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        kind = _kind_for(self.dtype)
        file.seek(0)
        file.write(HEADER.pack(kind.magic, kind.version, num_tokens))


class Llmc(FileFormat):
    """llm.c; a magic number states everything but the number of tokens."""

    name = "llmc"
    writer = LlmcWriter
    written_suffixes = (".bin",)
    dtypes = ("uint16", "uint32")
    tokens_per_shard = 100_000_000
    max_tokens_per_shard = 2**31 - 1
    end_of_text_comes = "before"
    numbers_over_splits = True

    def end_of_text_id_of(self, dtype: np.dtype[Any]) -> int | None:
        return _kind_for(dtype).end_of_text_id

    def read(self, path: Path, ask: Ask) -> FoundData:
        magics = [kind.magic.to_bytes(4, "little") for kind in KINDS]
        hint = "the file is damaged, or has no header: pass format='nanogpt' and its dtype"
        (magic, version, num_tokens), size = read_header(path, HEADER, *magics, hint=hint)
        kind = next(kind for kind in KINDS if kind.magic == magic)
        untrusted.expect_version(path, version, kind.version)
        return self.found(
            path,
            ask.agreed(np.dtype(kind.dtype), path),
            size,
            num_tokens,
            HEADER.size,
            vocab_size=kind.vocab_size,
            end_of_text_id=kind.end_of_text_id,
            end_of_text_comes="before",
            tokenizer=kind.tokenizer,
        )
