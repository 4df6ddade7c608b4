"""Workers, sizes of chunks and sizes of documents that fit into the memory allowed.

A worker costs its interpreter and its tokenizer's tables, plus a multiple of the chunk it works
on: the text, its cleaned copy, its lines, its ids. Neither number changes a byte of the result.

A row of JSON lines, CSV or parquet is held whole, and so is any document where the tokenizer allows
no cut. For one such document, on one worker at a time, half of the memory is kept free, or all that
one worker leaves of it. What a byte of such a document costs at its peak was measured on 40 to 85
MB of English, Cyrillic, emoji and one-letter lines, with every tokenizer: 8 to 14 bytes for JSON
lines, 14 to 17 for CSV (the parser keeps four a character), 10 for parquet, and what the tokenizer
says. The limit follows from the memory alone, never from the number of workers.

The limits are next to the plan, not in it: under `--on_bad_input error` a larger document ends the
run, and the same command with more memory resumes it. Where such documents are dropped, the limits
of the first run hold to the end.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import orjson

from tokenmill.base.atomic import keep
from tokenmill.base.human import parse_bytes
from tokenmill.preparation.planning.plan import CHUNK_BYTES, Plan
from tokenmill.preparation.workspace.work_folder import Workspace, read_once
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import MAX_DOCUMENT_BYTES

PER_DRIVER = 150 << 20
# Interpreter, NumPy, gigatoken with a full word cache, a partition of hashes:
PER_WORKER = 260 << 20
PER_CHUNK_BYTE = 16  # measured: copies of a chunk alive at once, in its worst stage
PER_DOCUMENT_BYTE = {
    "text": 12, "jsonl": 15, "csv": 20, "parquet": 15, "tokens": 24, "unreadable": 1,
}  # fmt: skip
PER_SHARE = 80 << 20  # of what a worker is counted for; the rest is its interpreter and tables
SMALLEST_CHUNK = 256 << 10
FULL_WORKER = PER_WORKER + PER_CHUNK_BYTE * CHUNK_BYTES
_ONE_WORKER = PER_DRIVER + 4 * FULL_WORKER  # up to here, half of it is less than two workers need
LIMITS_FILE = "limits.json"


@dataclass(frozen=True)
class Memory:
    """Workers and chunks that fit."""

    workers: int
    chunk_bytes: int
    max_ram: int | None = None
    """Limit that the user gave, in bytes."""


def fit_into_memory(workers: int | None, max_ram: int | str | None) -> Memory:
    """Use all cores and full chunks if memory allows; else fewer workers, then smaller chunks."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, but at least 1 is needed")
    workers = workers or len(os.sched_getaffinity(0))
    if max_ram is None:
        return Memory(workers, CHUNK_BYTES)
    allowed = parse_bytes(max_ram) - PER_DRIVER
    if allowed >= FULL_WORKER:
        return Memory(min(workers, allowed // FULL_WORKER), CHUNK_BYTES, parse_bytes(max_ram))
    chunk = (allowed - PER_WORKER) // PER_CHUNK_BYTE
    if chunk < SMALLEST_CHUNK:
        least = PER_DRIVER + PER_WORKER + PER_CHUNK_BYTE * SMALLEST_CHUNK
        raise ValueError(
            f"max_ram is {max_ram}, but a preparation needs at least {least >> 20} MiB; "
            f'pass run=Run(max_ram="{-(-least >> 20)}M") or more'
        )
    return Memory(1, chunk, parse_bytes(max_ram))


def left_for_document(max_ram: int) -> int:
    """Memory that one large document may take."""
    one_worker = min(max_ram, _ONE_WORKER) - FULL_WORKER  # which then works inside the driver
    return max(one_worker, (max_ram - PER_DRIVER) // 2, PER_CHUNK_BYTE * SMALLEST_CHUNK)


def enough_for_document(size: int) -> int:
    """Return the least memory that leaves `size` bytes for one document."""
    alone = size + FULL_WORKER
    return alone if alone <= _ONE_WORKER else 2 * size + PER_DRIVER


@dataclass(frozen=True)
class Limits:
    """Limits of one run."""

    max_ram: int | None
    on_bad_input: str
    encoding: int
    """Bytes of memory that encoding a byte of text costs."""

    def cost(self, kind: str) -> int:
        """Bytes of memory for each byte of a document in a file of this kind."""
        return PER_DOCUMENT_BYTE[kind] + self.encoding

    def document_bytes(self, kind: str) -> int:
        """Largest size of a document in a file of this kind."""
        if self.max_ram is None:
            return MAX_DOCUMENT_BYTES
        return left_for_document(self.max_ram) // self.cost(kind)

    def share(self, kind: str) -> int:
        """Size up to which all workers may hold a document at the same time."""
        return PER_SHARE // self.cost(kind)

    def explain(self, error: TooLargeError, kind: str) -> None:
        """Add to the error how much memory would be enough."""
        error.hint = "cut it into smaller documents"
        if error.size:
            enough = enough_for_document(error.size * self.cost(kind)) + (1 << 20)
            error.message += f" (it has {error.size:,})"
            error.hint = f'pass run=Run(max_ram="{enough >> 20}M") or more, or {error.hint}'


def decide_limits(plan: Plan, memory: Memory) -> int:
    """Write down the limits of this run, and return the number of workers that fit."""
    is_held_whole = plan.cuts is None
    encoding = plan.tokenizer.memory_per_byte if is_held_whole else 0
    limits = Limits(memory.max_ram, plan.settings.on_bad_input, encoding)
    found = load_limits(plan.workspace)
    if found.on_bad_input == "error" or limits.on_bad_input == "error":
        keep(plan.workspace.root / LIMITS_FILE, orjson.dumps(asdict(limits)))
    else:
        limits = found
    if memory.max_ram is None:
        return memory.workers
    largest = 0  # memory for the largest document that a file can hold
    for source in plan.sources:
        if is_held_whole or source.kind != "text":
            size = limits.document_bytes(source.kind)
            if source.compression is None and source.kind != "parquet":
                size = min(size, source.size)
            largest = max(largest, size * limits.cost(source.kind))
    reserved = min(left_for_document(memory.max_ram), largest)
    fitting = (memory.max_ram - PER_DRIVER - reserved) // FULL_WORKER
    return max(1, min(memory.workers, fitting))


def load_limits(workspace: Workspace) -> Limits:
    """Return the limits of this run."""
    try:
        return _load(workspace.out_dir)
    except FileNotFoundError:  # killed before they were written
        return Limits(None, "error", 0)


@read_once(LIMITS_FILE)
def _load(path: Path) -> Limits:
    return Limits(**orjson.loads(path.read_bytes()))


@contextmanager
def one_at_a_time(workspace: Workspace) -> Iterator[Callable[[bool], None]]:
    """Yield a function to call with True before a large document is held, and False after it.

    It waits until no other process of this machine has a large one in memory.
    """
    held: list[IO[bytes]] = []

    def on_large(is_large: bool) -> None:
        if is_large and not held:
            held.append(open(workspace.root / f"large-{os.uname().nodename}", "wb"))  # noqa: SIM115
            fcntl.flock(held[0], fcntl.LOCK_EX)
        elif held and not is_large:
            held.pop().close()

    try:
        yield on_large
    finally:
        on_large(False)
