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
"""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.errors import CorruptShardError, FormatError, UnsupportedVersionError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.first_bytes import OTHERS
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.tokenfiles.token_file import Lazy, TokenFile

NAME = "megatron"
MAGIC = b"MMIDIDX\x00\x00"
HEADER_BYTES = 34
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
MIXED = "the .bin and the .idx are of different builds, or one was cut; fetch or write both again"


def claims(path: Path, first_bytes: bytes) -> bool:
    """Whether this is one of such a pair."""
    if first_bytes.startswith((MAGIC, b"TNTIDX")):
        return True
    index = path.with_suffix(".idx")
    return path.suffix == ".bin" and index.is_file()


def read(path: Path, ask: Ask) -> Found:
    """One pair as a shard; the path may be either of its files."""
    index = path.with_suffix(".idx") if path.suffix == ".bin" else path
    tokens = path.with_suffix(".bin")
    first_bytes, index_size = untrusted.head(index, HEADER_BYTES)
    dtype, sequences, documents = _header(index, first_bytes)
    dtype = ask.agreed(dtype, index)
    expected = HEADER_BYTES + 12 * sequences + 8 * documents
    if index_size != expected + sequences:  # with modes
        untrusted.expect_size(
            index, index_size, expected, f"its header ({sequences:,} sequences, {documents:,} ends)"
        )
    size = untrusted.file_size(tokens, index)
    num_tokens = untrusted.whole_tokens(tokens, size, dtype.itemsize, dtype.name)
    _check_edges(index, sequences, documents, dtype.itemsize, tokens, size)
    ends = Lazy(load_ends, (str(index), sequences, documents, dtype.itemsize, size), documents - 1)
    file = TokenFile(str(tokens), tokens.name, dtype, num_tokens, size, ends=ends)
    return Found(NAME, (file,), details={"sequences": sequences})


def _header(index: Path, first_bytes: bytes) -> tuple[np.dtype[Any], int, int]:
    if not first_bytes.startswith(MAGIC):
        what, remedy = OTHERS.get(first_bytes[:8], ("", ""))
        raise FormatError(
            f"{index} is {what}"
            if what
            else f"{index} starts with {first_bytes[:9]!r}, not with {MAGIC!r}",
            hint=remedy or "the index is damaged, or not one of Megatron; fetch it again",
        )
    if len(first_bytes) < HEADER_BYTES:
        raise untrusted.too_short(index, len(first_bytes), HEADER_BYTES, "the header of an index")
    version = int.from_bytes(first_bytes[9:17], "little")
    if version != 1:
        raise UnsupportedVersionError(f"{index} is of version {version:,}; known is 1")
    code = first_bytes[17]
    if code not in DTYPES:
        raise FormatError(
            f"{index} has the dtype code {code}; token ids have one of "
            f"{', '.join(map(str, DTYPES))}",
            hint="6 and 7 are floats; anything else is damage",
        )
    sequences = int.from_bytes(first_bytes[18:26], "little")
    documents = int.from_bytes(first_bytes[26:34], "little")
    if documents < 1:
        raise CorruptShardError(
            f"{index} has {documents} document bounds; even an empty one has 1",
            hint="the index is damaged; fetch or write it again",
        )
    return np.dtype(DTYPES[code]), sequences, documents


def _check_edges(
    index: Path, sequences: int, documents: int, itemsize: int, tokens: Path, size: int
) -> None:
    """First and last entries of each table, without reading what lies between."""
    lengths = HEADER_BYTES
    pointers = lengths + 4 * sequences
    bounds = pointers + 8 * sequences

    def entry(descriptor: int, width: int, byte: int) -> int:
        return int.from_bytes(os.pread(descriptor, width, byte), "little", signed=True)

    descriptor = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
    try:
        first_bound = entry(descriptor, 8, bounds)
        last_bound = entry(descriptor, 8, bounds + 8 * (documents - 1))
        begin = end = 0
        if sequences:
            begin = entry(descriptor, 8, pointers)
            last_length = entry(descriptor, 4, lengths + 4 * (sequences - 1))
            end = entry(descriptor, 8, pointers + 8 * (sequences - 1)) + last_length * itemsize
    finally:
        os.close(descriptor)
    if (first_bound, last_bound) != (0, sequences):
        raise CorruptShardError(
            f"{index} has bounds {first_bound:,} to {last_bound:,}, not 0 to {sequences:,}",
            hint="the index is damaged; fetch or write it again",
        )
    if begin != 0:
        raise CorruptShardError(
            f"{index} has its first sequence at byte {begin:,} of {tokens.name}, not at 0",
            hint=MIXED,
        )
    untrusted.expect_size(tokens, size, end, f"{index.name} (its last sequence)", hint=MIXED)


def load_ends(index: str, sequences: int, documents: int, itemsize: int, size: int) -> np.ndarray:
    """Where documents end, in tokens, from the tables of the index."""
    descriptor = os.open(index, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor).st_size
        if found < HEADER_BYTES + 12 * sequences + 8 * documents:
            raise untrusted.too_short(
                Path(index), found, HEADER_BYTES + 12 * sequences + 8 * documents, "its header"
            )
        mapped = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    finally:
        os.close(descriptor)
    lengths = np.frombuffer(mapped, "<i4", sequences, HEADER_BYTES)
    bounds = np.frombuffer(mapped, "<i8", documents, HEADER_BYTES + 12 * sequences)
    pointers = np.empty(sequences + 1, np.int64)
    pointers[:-1] = np.frombuffer(mapped, "<i8", sequences, HEADER_BYTES + 4 * sequences)
    pointers[-1] = size
    gaps = np.diff(pointers) != lengths.astype(np.int64) * itemsize
    if gaps.any() or (lengths < 0).any():
        at = int(np.argmax(gaps | (lengths < 0)))
        raise CorruptShardError(
            f"{index} has sequence {at:,} at byte {int(pointers[at]):,} with {int(lengths[at]):,} "
            f"tokens, but the next at byte {int(pointers[at + 1]):,}",
            hint=MIXED,
        )
    if (np.diff(bounds) < 0).any():
        at = int(np.argmax(np.diff(bounds) < 0)) + 1
        raise CorruptShardError(
            f"{index} has documents that go back, at bound {at:,}: {int(bounds[at]):,}", hint=MIXED
        )
    result: np.ndarray = pointers[bounds[1:]] // itemsize
    return result
