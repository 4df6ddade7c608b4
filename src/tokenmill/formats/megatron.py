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

from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenmill.base.atomic import sync_open_file
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.registry import MEGATRON as MAGIC
from tokenmill.formats.writing import RollingWriter
from tokenmill.reading.token_file import Lazy

HEADER_BYTES = 34
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}


class MegatronWriter(RollingWriter):
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
        first_bytes, index_size = untrusted.head(index, HEADER_BYTES)
        dtype, sequences, documents = _header(index, first_bytes)
        dtype = ask.agreed(dtype, index)
        expected = HEADER_BYTES + 12 * sequences + 8 * documents
        if index_size != expected + sequences:  # with modes
            why = f"its header ({sequences:,} sequences, {documents:,} ends)"
            untrusted.expect_size(index, index_size, expected, why)
        size = untrusted.file_size(tokens, index)
        num_tokens = untrusted.whole_tokens(tokens, size, dtype.itemsize, dtype.name)
        _check_edges(index, sequences, documents, dtype.itemsize, tokens, size)
        args = (str(index), sequences, documents, dtype.itemsize, size)
        return self.found(
            tokens,
            dtype,
            num_tokens,
            size,
            ends=Lazy(load_ends, args, documents - 1),
            details={"sequences": sequences},
        )


FORMAT = Megatron()


def _header(index: Path, first_bytes: bytes) -> tuple[np.dtype[Any], int, int]:
    if not first_bytes.startswith(MAGIC):
        from tokenmill.formats.not_tokens import known_other

        raise known_other(index, first_bytes) or FormatError(
            f"{index} starts with {first_bytes[:9]!r}, not with {MAGIC!r}",
            hint="the index is damaged, or not one of Megatron; fetch it again",
        )
    untrusted.expect_at_least(index, len(first_bytes), HEADER_BYTES, "the header of an index")
    untrusted.expect_version(index, int.from_bytes(first_bytes[9:17], "little"), 1)
    dtype = dtype_of_code(index, first_bytes[17])
    sequences, documents = np.frombuffer(first_bytes, "<u8", 2, 18).tolist()
    if documents < 1:
        raise untrusted.damaged(index, f"has {documents} document bounds; an empty one has 1")
    return dtype, sequences, documents


def dtype_of_code(path: Path, code: int) -> np.dtype[Any]:
    """The type of ids that a code states; fairseq's codes, which lit-gpt took over too."""
    if code not in DTYPES:
        raise FormatError(
            f"{path} has the dtype code {code}; token ids have one of "
            f"{', '.join(map(str, DTYPES))}",
            hint="6 and 7 are floats; anything else is damage",
        )
    return np.dtype(DTYPES[code])


def _check_edges(
    index: Path, sequences: int, documents: int, itemsize: int, tokens: Path, size: int
) -> None:
    """First and last entries of each table, without reading what is between."""
    lengths, pointers, bounds = _tables(index, sequences, documents)
    if (bounds[0], bounds[-1]) != (0, sequences):
        what = f"has bounds {bounds[0]:,} to {bounds[-1]:,}, not 0 to {sequences:,}"
        raise untrusted.damaged(index, what)
    if sequences and pointers[0] != 0:
        what = f"has its first sequence at byte {pointers[0]:,} of {tokens.name}, not at 0"
        raise untrusted.mixed(index, what)
    end = int(pointers[-1]) + int(lengths[-1]) * itemsize if sequences else 0
    why = f"{index.name} (its last sequence)"
    untrusted.expect_size(tokens, size, end, why, hint=untrusted.MIXED)


def _tables(index: Path, sequences: int, documents: int) -> tuple[np.ndarray, ...]:
    """Lengths, first bytes and documents; mapped, so only what is looked at is read."""
    pointers = HEADER_BYTES + 4 * sequences
    bounds = pointers + 8 * sequences
    mapped = untrusted.map_file(index, bounds + 8 * documents, "its header")
    return (
        np.frombuffer(mapped, "<i4", sequences, HEADER_BYTES),
        np.frombuffer(mapped, "<i8", sequences, pointers),
        np.frombuffer(mapped, "<i8", documents, bounds),
    )


def load_ends(index: str, sequences: int, documents: int, itemsize: int, size: int) -> np.ndarray:
    """Where documents end, in tokens, from the tables of the index."""
    lengths, begins, bounds = _tables(Path(index), sequences, documents)
    pointers = np.append(begins, size)
    gaps = np.diff(pointers) != lengths.astype(np.int64) * itemsize
    if gaps.any() or (lengths < 0).any():
        at = int(np.argmax(gaps | (lengths < 0)))
        raise untrusted.mixed(
            index,
            f"has sequence {at:,} at byte {int(pointers[at]):,} with {int(lengths[at]):,} tokens, "
            f"but the next at byte {int(pointers[at + 1]):,}",
        )
    if (np.diff(bounds) < 0).any():
        at = int(np.argmax(np.diff(bounds) < 0)) + 1
        what = f"has documents that go back, at bound {at:,}: {int(bounds[at]):,}"
        raise untrusted.mixed(index, what)
    result: np.ndarray = pointers[bounds[1:]] // itemsize
    return result
