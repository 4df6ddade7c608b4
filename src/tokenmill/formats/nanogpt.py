"""nanoGPT's and any other raw `.bin`: token ids and nothing else.

A file that begins with the header of another format is refused: its header would become tokens.
"""

from pathlib import Path
from typing import IO

import numpy as np
import orjson

from tokenmill.base.strict_json import COUNT, Maybe, Value
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import INTEGERS, Ask, FileFormat, FoundData, token_dtype
from tokenmill.formats.not_tokens import known_head, known_other, unknown_dtype
from tokenmill.formats.writing import Writer, write_file

META = {
    "dtype": Maybe(Value(INTEGERS.__contains__, f"one of {', '.join(INTEGERS)}")),
    "vocab_size": Maybe(COUNT),
    "end_of_text_id": Maybe(COUNT),
}


class NanogptWriter(Writer):
    """One split as one file; the first split also writes meta.json."""

    file_name = "{split}.bin"
    whole_documents = False

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        beside = path.with_name("meta.json")
        known = zip(META, (self.dtype.name, self.vocab_size, self.end_of_text_id), strict=True)
        meta = {field: value for field, value in known if value is not None}
        if not beside.exists():
            write_file(beside, orjson.dumps(meta, option=orjson.OPT_APPEND_NEWLINE))


class Nanogpt(FileFormat):
    """Raw ids; claimed by name, once no other format claims the file."""

    name = "nanogpt"
    writer = NanogptWriter
    written_suffixes = (".bin", ".json")
    dtypes = ("uint16", "uint32", "uint8", "int32", "int64")

    def read(self, path: Path, ask: Ask) -> FoundData:
        first_bytes, size = untrusted.head(path)
        if other := known_head(first_bytes):
            raise known_other(path, first_bytes) or FormatError(
                f"{path} has a header ({other}), so it is not a raw file; its header is no tokens",
                hint=f'leave format out, and the header is respected: tokenmill.open("{path}")',
            )
        beside = path.with_name("meta.json")
        found = untrusted.read_json(beside, META) if beside.is_file() else {}
        meta = {name: value for name, value in found.items() if name in META}
        stated = meta.pop("dtype", None)
        dtype = ask.agreed(token_dtype(stated), path) if stated else ask.dtype
        if dtype is None:
            raise unknown_dtype(path, self.name, "nanoGPT writes uint16 for gpt2")
        return self.found(path, dtype, size, **meta)
