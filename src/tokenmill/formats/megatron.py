"""Megatron `.bin` + `.idx` pairs, as Megatron-core, gpt-neox and datatrove write them.

The `.bin` is ids and nothing else. The `.idx`, little-endian and without padding:

  9 bytes     "MMIDIDX" 00 00
  u64         version 1
  u8          dtype code
  u64, u64    N sequences; D = documents + 1
  i32[N]      length of each sequence, in tokens
  i64[N]      where it begins in the .bin, in bytes
  i64[D]      documents, as numbers of sequences; the first is 0, the last N
  i8[N]       modes, of multimodal data only

Codes 6 and 7 are floats (and mean different ones to Megatron and gpt-neox): no tokens either way.
Opening compares all sizes and both ends of the tables; the tables themselves are read, and checked
to be one run without holes, when documents are first asked for.

There is no uint32 in this format: larger vocabularies are int32, as Megatron writes them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenmill.base.atomic import sync_open_file
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import MEGATRON as MAGIC
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import read_header
from tokenmill.formats.writing import Writer
from tokenmill.reading.token_file import Lazy

HEADER_BYTES = 34
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}


class MegatronWriter(Writer):
    """One split as one pair, named for the split; each document is one sequence."""

    file_name = "{split}.bin"
    name_without_split = "corpus"

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
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
            index.write(MAGIC + (1).to_bytes(8, "little") + bytes([code]))
            index.write(counts.tobytes())
            index.write(lengths.astype("<i4").tobytes())
            index.write(((ends - lengths) * self.target.dtype.itemsize).astype("<i8").tobytes())
            index.write(np.arange(len(ends) + 1, dtype="<i8").tobytes())
            sync_open_file(index)


class Megatron(FileFormat):
    """A pair of files; either of them may be named."""

    name = "megatron"
    writer = MegatronWriter
    written_suffixes = (".bin", ".idx")
    dtypes = ("uint16", "int32", "uint8", "int64")
    is_indexed = True
    documents_by_id = False

    def read(self, path: Path, ask: Ask) -> FoundData:
        index = path.with_suffix(".idx") if path.suffix == ".bin" else path
        tokens = path.with_suffix(".bin")
        first_bytes, index_size = read_header(index, HEADER_BYTES, MAGIC)
        untrusted.expect_version(index, int.from_bytes(first_bytes[9:17], "little"), 1)
        dtype = ask.agreed(dtype_of_code(index, first_bytes[17]), index)
        sequences, bounds = np.frombuffer(first_bytes, "<u8", 2, 18).tolist()
        if bounds < 1:
            raise untrusted.damaged(index, f"has {bounds} document bounds; an empty one has 1")
        expected = HEADER_BYTES + 12 * sequences + 8 * bounds
        if index_size != expected + sequences:  # with modes
            why = f"its header ({sequences:,} sequences, {bounds:,} ends)"
            untrusted.expect_size(index, index_size, expected, why)
        size = untrusted.file_size(tokens, index)
        tables = Tables(str(index), sequences, bounds, dtype.itemsize, size)
        tables.check_edges()
        return self.found(
            tokens,
            dtype,
            size,
            ends=Lazy(tables.ends, (), bounds - 1, str(index)),
            details={"sequences": sequences},
        )


FORMAT = Megatron()


def dtype_of_code(path: Path, code: int) -> np.dtype[Any]:
    """The type of ids that a code states; fairseq's codes, which lit-gpt took over too."""
    if code not in DTYPES:
        raise FormatError(
            f"{path} has the dtype code {code}; token ids have one of "
            f"{', '.join(map(str, DTYPES))}",
            hint="6 and 7 are floats; anything else is damage",
        )
    return np.dtype(DTYPES[code])


@dataclass(frozen=True)
class Tables:
    """The tables of an index; mapped, so only what is looked at is read."""

    index: str
    sequences: int
    bounds: int
    """Documents and one more."""
    itemsize: int
    token_bytes: int

    def load(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return lengths, first bytes and documents (as numbers of sequences)."""
        pointers = HEADER_BYTES + 4 * self.sequences
        bounds = pointers + 8 * self.sequences
        mapped = untrusted.map_file(Path(self.index), bounds + 8 * self.bounds, "its header")
        return (
            np.frombuffer(mapped, "<i4", self.sequences, HEADER_BYTES),
            np.frombuffer(mapped, "<i8", self.sequences, pointers),
            np.frombuffer(mapped, "<i8", self.bounds, bounds),
        )

    def check_edges(self) -> None:
        """Check the first and last entries, without reading what is between."""
        lengths, pointers, bounds = self.load()
        if (bounds[0], bounds[-1]) != (0, self.sequences):
            what = f"has bounds {bounds[0]:,} to {bounds[-1]:,}, not 0 to {self.sequences:,}"
            raise untrusted.damaged(self.index, what)
        first = int(pointers[0]) if self.sequences else 0
        last = int(pointers[-1]) + int(lengths[-1]) * self.itemsize if self.sequences else 0
        if (first, last) != (0, self.token_bytes):
            what = f"has sequences from byte {first:,} to {last:,}"
            raise untrusted.mixed(self.index, f"{what}, but its .bin {self.token_bytes:,} bytes")

    def ends(self) -> np.ndarray:
        """Return where documents end, in tokens: int64; the sequences must have no gaps."""
        lengths, begins, bounds = self.load()
        pointers = np.append(begins, self.token_bytes)
        is_bad = (np.diff(pointers) != lengths.astype(np.int64) * self.itemsize) | (lengths < 0)
        if is_bad.any():
            at = int(np.argmax(is_bad))
            raise untrusted.mixed(
                self.index,
                f"has sequence {at:,} at byte {int(pointers[at]):,} with {int(lengths[at]):,} "
                f"tokens, but the next at byte {int(pointers[at + 1]):,}",
            )
        if (np.diff(bounds) < 0).any():
            at = int(np.argmax(np.diff(bounds) < 0)) + 1
            what = f"has documents that go back, at bound {at:,}: {int(bounds[at]):,}"
            raise untrusted.mixed(self.index, what)
        result: np.ndarray = pointers[bounds[1:]] // self.itemsize
        return result
