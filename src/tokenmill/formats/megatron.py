"""Megatron `.bin` + `.idx` pairs, as Megatron-core, gpt-neox and datatrove write them.

The `.bin` is ids and nothing else. The `.idx` is a header and three tables: length of each sequence
in tokens, where it begins in the `.bin` in bytes, and where each document begins, as the number of
a sequence (the first is 0, the last their number). Multimodal data has an i8 per sequence after it.
"""

from pathlib import Path
from struct import Struct
from typing import IO

import numpy as np

from tokenmill.base.atomic import sync_open_file
from tokenmill.errors import FormatError
from tokenmill.formats import untrusted
from tokenmill.formats.format import MEGATRON as MAGIC
from tokenmill.formats.format import Ask, FileFormat, FoundData
from tokenmill.formats.not_tokens import read_header
from tokenmill.formats.writing import Writer
from tokenmill.reading.token_file import Dtype, Lazy

HEADER = Struct("<9sQBQQ")  # magic, version, dtype code, N sequences, documents + 1
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
        code = CODES[self.dtype]
        with path.with_suffix(".idx").open("xb") as index:
            index.write(HEADER.pack(MAGIC, 1, code, len(ends), len(ends) + 1))
            index.write(lengths.astype("<i4").tobytes())
            index.write(((ends - lengths) * self.dtype.itemsize).astype("<i8").tobytes())
            index.write(np.arange(len(ends) + 1, dtype="<i8").tobytes())
            sync_open_file(index)


class Megatron(FileFormat):
    """A pair of files; either of them may be named."""

    name = "megatron"
    writer = MegatronWriter
    written_suffixes = (".bin", ".idx")
    dtypes = ("uint16", "int32", "uint8", "int64")  # there is no uint32 in this format
    is_indexed = True
    documents_by_id = False

    def read(self, path: Path, ask: Ask) -> FoundData:
        index = path.with_suffix(".idx") if path.suffix == ".bin" else path
        tokens = path.with_suffix(".bin")
        fields, index_size = read_header(index, HEADER, MAGIC)
        _, version, code, sequences, bounds = fields
        untrusted.expect_version(index, version, 1)
        dtype = ask.agreed(dtype_of_code(index, code), index)
        if bounds < 1:
            raise untrusted.damaged(index, f"has {bounds} document bounds; an empty one has 1")
        expected = HEADER.size + 12 * sequences + 8 * bounds
        if index_size != expected + sequences:  # with modes
            why = f"its header ({sequences:,} sequences, {bounds:,} ends)"
            untrusted.expect_size(index, index_size, expected, why)
        size = untrusted.file_size(tokens, index)
        tables = (str(index), sequences, bounds, dtype.itemsize, size)
        _check_edges(*tables)
        return self.found(
            tokens,
            dtype,
            size,
            ends=Lazy(load_ends, tables, bounds - 1, str(index)),
            details={"sequences": sequences},
        )


def dtype_of_code(path: Path, code: int) -> Dtype:
    """The type of ids that a code states; fairseq's codes, which lit-gpt took over too."""
    if code not in DTYPES:
        raise FormatError(
            f"{path} has the dtype code {code}; token ids have one of "
            f"{', '.join(map(str, DTYPES))}",
            hint="6 and 7 are floats; anything else is damage",
        )
    return np.dtype(DTYPES[code])


def map_tables(index: str, sequences: int, bounds: int) -> tuple[np.ndarray, ...]:
    """Return lengths, first bytes and documents; mapped, so only what is looked at is read."""
    length = HEADER.size + 12 * sequences + 8 * bounds
    mapped = untrusted.map_file(Path(index), length, "its header")
    return (
        np.frombuffer(mapped, "<i4", sequences, HEADER.size),
        np.frombuffer(mapped, "<i8", sequences, HEADER.size + 4 * sequences),
        np.frombuffer(mapped, "<i8", bounds, length - 8 * bounds),
    )


def load_ends(index: str, sequences: int, bounds: int, itemsize: int, size: int) -> np.ndarray:
    """Return where documents end, in tokens: int64; the sequences must have no gaps."""
    lengths, begins, documents = map_tables(index, sequences, bounds)
    pointers = np.append(begins, size)
    is_bad = (np.diff(pointers) != lengths.astype(np.int64) * itemsize) | (lengths < 0)
    if is_bad.any():
        at = int(np.argmax(is_bad))
        raise untrusted.mixed(
            index,
            f"has sequence {at:,} at byte {int(pointers[at]):,} with {int(lengths[at]):,} "
            f"tokens, but the next at byte {int(pointers[at + 1]):,}",
        )
    if (np.diff(documents) < 0).any():
        at = int(np.argmax(np.diff(documents) < 0)) + 1
        what = f"has documents that go back, at bound {at:,}: {int(documents[at]):,}"
        raise untrusted.mixed(index, what)
    result: np.ndarray = pointers[documents[1:]] // itemsize
    return result


def _check_edges(index: str, sequences: int, bounds: int, itemsize: int, size: int) -> None:
    """Check the first and last entries, without reading what is between."""
    lengths, pointers, documents = map_tables(index, sequences, bounds)
    if (documents[0], documents[-1]) != (0, sequences):
        what = f"has bounds {documents[0]:,} to {documents[-1]:,}, not 0 to {sequences:,}"
        raise untrusted.damaged(index, what)
    first = int(pointers[0]) if sequences else 0
    last = int(pointers[-1]) + int(lengths[-1]) * itemsize if sequences else 0
    if (first, last) != (0, size):
        what = f"has sequences from byte {first:,} to {last:,}"
        raise untrusted.mixed(index, f"{what}, but its .bin {size:,} bytes")
