"""How many workers and how large a chunk fit into the memory that was allowed.

A worker costs its interpreter and its tokenizer's tables, plus a multiple of the chunk it works
on: the text, its cleaned copy, its lines, its ids. Neither number changes a byte of the result.
"""

import os
import re
from dataclasses import dataclass

from tokenmill.preparation.plan import CHUNK_BYTES

PER_DRIVER = 150 << 20
PER_WORKER = (
    260 << 20
)  # interpreter, NumPy, gigatoken with a full word cache, a partition of hashes
PER_CHUNK_BYTE = 16  # measured: copies of a chunk alive at once, in its worst stage
SMALLEST_CHUNK = 256 << 10

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(frozen=True)
class Memory:
    """What was decided."""

    workers: int
    chunk_bytes: int


def fit_into_memory(workers: int | None, max_ram: int | str | None) -> Memory:
    """Use all cores and full chunks where memory allows, else fewer of the first, then smaller."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, but at least 1 is needed")
    workers = workers or len(os.sched_getaffinity(0))
    if max_ram is None:
        return Memory(workers, CHUNK_BYTES)
    allowed = parse_size(max_ram) - PER_DRIVER
    full = PER_WORKER + PER_CHUNK_BYTE * CHUNK_BYTES
    if allowed >= full:
        return Memory(min(workers, allowed // full), CHUNK_BYTES)
    chunk = (allowed - PER_WORKER) // PER_CHUNK_BYTE
    if chunk < SMALLEST_CHUNK:
        least = PER_DRIVER + PER_WORKER + PER_CHUNK_BYTE * SMALLEST_CHUNK
        raise ValueError(
            f"max_ram is {max_ram}, but a preparation needs at least {least >> 20} MiB; "
            f"pass --max_ram {-(-least >> 20)}M or more"
        )
    return Memory(1, chunk)


def parse_size(size: int | str) -> int:
    """`512M`, `16GB`, `1.5g` or a number of bytes.

    >>> parse_size("1.5k"), parse_size("2GiB"), parse_size(7)
    (1536, 2147483648, 7)
    """
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise ValueError(f"{size!r} is not a size; write it like 512M or 16G")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))
