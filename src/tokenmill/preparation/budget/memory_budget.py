"""How many workers and how large a chunk fit into the memory that was allowed.

A worker costs its interpreter and its tokenizer's tables, plus a multiple of the chunk it works
on: the text, its cleaned copy, its lines, its ids. Neither number changes a byte of the result.

A row of JSON lines, CSV or parquet is held whole, and so is any document where the tokenizer allows
no cut. For one such document, on one worker at a time, half of the memory is kept free, or all that
one worker leaves of it (`limits.py`).
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
FULL_WORKER = PER_WORKER + PER_CHUNK_BYTE * CHUNK_BYTES
_ONE_WORKER = PER_DRIVER + 4 * FULL_WORKER  # up to here, half of it is less than two workers need

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


@dataclass(frozen=True)
class Memory:
    """What was decided."""

    workers: int
    chunk_bytes: int
    max_ram: int | None = None
    """What was allowed, in bytes."""

    def beside(self, reserved: int) -> int:
        """How many workers there may be while so much is kept free for a large document."""
        if self.max_ram is None:
            return self.workers
        fitting = (self.max_ram - PER_DRIVER - reserved) // FULL_WORKER
        return max(1, min(self.workers, fitting))


def fit_into_memory(workers: int | None, max_ram: int | str | None) -> Memory:
    """Use all cores and full chunks where memory allows, else fewer of the first, then smaller."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, but at least 1 is needed")
    workers = workers or len(os.sched_getaffinity(0))
    if max_ram is None:
        return Memory(workers, CHUNK_BYTES)
    allowed = parse_size(max_ram) - PER_DRIVER
    if allowed >= FULL_WORKER:
        return Memory(min(workers, allowed // FULL_WORKER), CHUNK_BYTES, parse_size(max_ram))
    chunk = (allowed - PER_WORKER) // PER_CHUNK_BYTE
    if chunk < SMALLEST_CHUNK:
        least = PER_DRIVER + PER_WORKER + PER_CHUNK_BYTE * SMALLEST_CHUNK
        raise ValueError(
            f"max_ram is {max_ram}, but a preparation needs at least {least >> 20} MiB; "
            f"pass --max_ram {-(-least >> 20)}M or more"
        )
    return Memory(1, chunk, parse_size(max_ram))


def left_for_document(max_ram: int) -> int:
    """How much of the memory one large document may take."""
    one_worker = min(max_ram, _ONE_WORKER) - FULL_WORKER  # which then works inside the driver
    return max(one_worker, (max_ram - PER_DRIVER) // 2, PER_CHUNK_BYTE * SMALLEST_CHUNK)


def enough_for_document(size: int) -> int:
    """The least memory that leaves so much for one document.

    >>> all(left_for_document(enough_for_document(n)) >= n for n in range(0, 1 << 34, 99999999))
    True
    """
    alone = size + FULL_WORKER
    return alone if alone <= _ONE_WORKER else 2 * size + PER_DRIVER


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
