"""datatrove `.ds` files of ids, with `.ds.index`, `.ds.metadata`, perhaps `.ds.loss` beside them.

The index is one u64 for each document: where it ends, in tokens. The metadata are three lines:
"tokenizer|bytes of a token", the number of tokens, and the same for people.
"""

from pathlib import Path
from typing import IO

import numpy as np

from tokenmill.errors import CorruptShardError
from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import unknown_dtype
from tokenmill.formats.writing import Writer, write_file
from tokenmill.reading.token_file import Dtype, Lazy

BUNDLED = {"gpt2": "gpt2", "openai-community/gpt2": "gpt2"}


class DatatroveWriter(Writer):
    """One split as files of whole documents."""

    file_name = "{number:05d}_corpus.ds"  # as by datatrove's merger, with room for more files
    folder_per_split = True

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        write_file(Path(f"{path}.index"), ends.astype("<u8").tobytes())
        width = self.dtype.itemsize
        name = self.tokenizer or "Unknown Tokenizer"
        lines = [f"{name}|{width}", str(num_tokens), f"{num_tokens / 1e9:.2f} GT"]
        write_file(Path(f"{path}.metadata"), "\n".join(lines).encode())

    @staticmethod
    def mask_of(path: Path) -> Path:
        return Path(f"{path}.loss")


class Datatrove(FileFormat):
    """Files that belong together by name; any of them may be named."""

    name = "datatrove"
    writer = DatatroveWriter
    written_suffixes = (".ds", ".index", ".metadata", ".loss")
    dtypes = ("uint16", "uint32")
    tokens_per_shard = 100_000_000
    is_indexed = True
    documents_by_id = False
    stores_tokenizer_name = True
    holds = ("loss",)

    def read(self, path: Path, ask: Ask) -> FoundData:
        tokens = path.with_name(path.name.split(".ds")[0] + ".ds")
        size = untrusted.file_size(tokens, path if path != tokens else None)
        tokenizer, stated, count = _metadata(tokens)
        dtype = ask.dtype if stated is None else ask.agreed(stated, tokens)
        if dtype is None:
            usual = "datatrove writes uint16 up to 65,536 ids, and a .metadata file that says it"
            raise unknown_dtype(tokens, self.name, usual)
        bundled = BUNDLED.get(tokenizer or "")
        return self.found(
            tokens,
            dtype,
            size,
            count,
            mask=DatatroveWriter.mask_of(tokens),
            ends=_index(tokens, size // dtype.itemsize),
            tokenizer=bundled,
            vocab_size=50257 if bundled == "gpt2" else None,
            details={"tokenizer": tokenizer} if tokenizer else {},
        )


def _metadata(tokens: Path) -> tuple[str | None, Dtype | None, int | None]:
    """Tokenizer, dtype and number of tokens, as far as they are known."""
    path = Path(f"{tokens}.metadata")
    if not path.is_file():
        return None, None, None
    text = untrusted.read_whole(path, limit=1 << 16).decode("utf-8", errors="replace")
    lines = text.split("\n")
    name, _, width = lines[0].rpartition("|")
    count = lines[1] if len(lines) > 1 else ""
    if width not in ("1", "2", "4") or not count.isdecimal() or len(count) > 19:
        raise CorruptShardError(
            f"{path} says {text[:80]!r}, not a tokenizer with |2 or |4 and a number of tokens",
            hint="the file is damaged; fetch it again, or remove it and pass dtype=",
        )
    # Without a tokenizer datatrove writes "Unknown Tokenizer|2|2".
    known = None if name.startswith("Unknown Tokenizer") else name
    return known, np.dtype(f"<u{width}"), int(count)


def _index(tokens: Path, num_tokens: int) -> Lazy | None:
    path = Path(f"{tokens}.index")
    if not path.is_file():
        return None
    count = untrusted.whole_tokens(path, untrusted.file_size(path), np.dtype("<u8"))
    last = int(untrusted.map_ends(str(path), count)[-1]) if count else 0
    if last != num_tokens:
        raise untrusted.mixed(
            path, f"ends at {last:,}, but {tokens.name} has {num_tokens:,} tokens"
        )
    return untrusted.ends_file(path, count)
