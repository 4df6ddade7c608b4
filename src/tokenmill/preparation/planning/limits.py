"""What fits: workers and documents into the memory, tokens onto the disk, shards into a manifest.

A row of JSON lines, CSV or parquet is held whole, and so is any document where the tokenizer allows
no cut. For one such document, on one worker at a time, half of the memory is kept free, or all that
one worker leaves of it: never a function of the number of workers. What a byte of it costs was
measured on 40 to 85 MB of English, Cyrillic, emoji and one-letter lines, with every tokenizer: 8 to
14 bytes for JSON lines, 14 to 17 for CSV (the parser keeps four a character), 10 for parquet, and
what the tokenizer says. The limits are next to the plan, not in it: where a larger document ends
the run, more memory resumes it; where it is dropped, the limits of the first run hold to the end.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import orjson

from tokenmill.base.descriptors import lock
from tokenmill.base.human import parse_bytes, plural
from tokenmill.base.system import host_name, num_cores
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import CHUNK_BYTES, Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.preparation.workspace.workspace import Workspace, read_once
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import MAX_DOCUMENT_BYTES

PER_DRIVER = 150 << 20
# Interpreter, NumPy, gigatoken with a full word cache, a partition of hashes:
PER_WORKER = 260 << 20
PER_CHUNK_BYTE = 16  # measured: copies of a chunk alive at once, in its worst stage
PER_DOCUMENT_BYTE = {
    "text": 12, "jsonl": 15, "csv": 20, "parquet": 15, "arrow": 15, "tokens": 24, "unreadable": 1,
}  # fmt: skip
PER_SHARE = 80 << 20  # of what a worker is counted for; the rest is its interpreter and tables
SMALLEST_CHUNK = 256 << 10
FULL_WORKER = PER_WORKER + PER_CHUNK_BYTE * CHUNK_BYTES
_ONE_WORKER = PER_DRIVER + 4 * FULL_WORKER  # up to here, half of it is less than two workers need
LIMITS_FILE = "limits.json"
# Bytes of text per token: where there are fewer tokens than nearly any text makes, so that nothing
# is refused that would have fitted; and where there are more than most text makes.
FEW_TOKENS = {"bytes": 1.0, "chars": 3.0}
FEW_TOKENS_OF_OTHERS = 6.0
MANY_TOKENS_OF_OTHERS = 3
SURELY_ENOUGH = 20  # times the expected size of the shards, whatever the text
BEST_OF_SHARDS = 0.3  # of their plain size, where they are compressed
FAST_TOKENIZERS = ("gpt2", "bytes")
SMALL_JOB = 16 << 20  # bytes that take about half a second
SMALL_JOB_OF_OTHERS = 1 << 20  # the same for other tokenizers
MOST_SHARDS = 10_000
MOST_SHARDS_IN_A_MANIFEST = 300_000  # which is 120 MB


@dataclass(frozen=True)
class Memory:
    """Workers and chunks that fit."""

    workers: int
    chunk_bytes: int
    max_ram: int | None = None
    """Limit that the user gave, in bytes."""
    asked: int = 1
    """Workers that the user asked for."""


def fit_into_memory(workers: int | None, max_ram: int | str | None) -> Memory:
    """Use all cores and full chunks if memory allows; else fewer workers, then smaller chunks."""
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, but at least 1 is needed")
    asked = workers or 1
    workers = workers or num_cores()
    if max_ram is None:
        return Memory(workers, CHUNK_BYTES)
    num_bytes = parse_bytes(max_ram)
    allowed = num_bytes - PER_DRIVER
    if allowed >= FULL_WORKER:
        return Memory(min(workers, allowed // FULL_WORKER), CHUNK_BYTES, num_bytes, asked)
    chunk = (allowed - PER_WORKER) // PER_CHUNK_BYTE
    if chunk < SMALLEST_CHUNK:
        least = PER_DRIVER + PER_WORKER + PER_CHUNK_BYTE * SMALLEST_CHUNK
        raise ValueError(
            f"max_ram is {max_ram}, but a preparation needs at least {least >> 20} MiB; "
            f'pass run=Run(max_ram="{-(-least >> 20)}M") or more'
        )
    return Memory(1, chunk, num_bytes, asked)


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


def decide_limits(plan: Plan, memory: Memory, say: Callable[[str], None]) -> int:
    """Write down the limits of this run, and return the number of workers that fit.

    If they are fewer than the user asked for, `say` is called with a sentence about it.
    """
    is_held_whole = plan.cuts is None
    encoding = plan.tokenizer.memory_per_byte if is_held_whole else 0
    limits = Limits(memory.max_ram, plan.settings.on_bad_input, encoding)
    found = load_limits(plan.workspace)
    if found.on_bad_input == "error" or limits.on_bad_input == "error":
        plan.workspace.keep(LIMITS_FILE, orjson.dumps(limits))
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
    room = left_for_document(memory.max_ram)
    reserved = min(room, largest)
    fitting = (memory.max_ram - PER_DRIVER - reserved) // FULL_WORKER
    workers = max(1, min(memory.workers, fitting))
    if workers < memory.asked:
        document = f", next to {reserved >> 20} MiB for a large document" if reserved else ""
        needed = memory.asked * FULL_WORKER
        if room - reserved < 1 << 10:  # equal but for rounding: it grows with the limit
            reserved = max(_ONE_WORKER - FULL_WORKER, needed)
        say(
            f"{workers} of {memory.asked} workers will run: {memory.max_ram >> 20} MiB leave no "
            f"room for more{document}; pass run=Run(max_ram="
            f'"{-(-(PER_DRIVER + needed + reserved) >> 20)}M") to run all'
        )
    return workers


def load_limits(workspace: Workspace) -> Limits:
    """Return the limits of this run."""
    try:
        return _load(workspace.place)
    except FileNotFoundError:  # killed before they were written
        return Limits(None, "error", 0)


@read_once(LIMITS_FILE)
def _load(_: Workspace, data: bytes) -> Limits:
    return Limits(**orjson.loads(data))


@contextmanager
def one_at_a_time(workspace: Workspace) -> Iterator[Callable[[bool], None]]:
    """Yield a function to call with True before a large document is held, and False after it.

    It waits until no other process of this machine has a large one in memory.
    """
    held: list[IO[bytes]] = []

    def on_large(is_large: bool) -> None:
        if is_large and not held:
            held.append(open(workspace.spool / f"large-{host_name()}", "wb"))  # noqa: SIM115
            lock(held[0].fileno())
        elif held and not is_large:
            held.pop().close()

    try:
        yield on_large
    finally:
        on_large(False)


def text_bytes(sources: Sequence[Source], compression: float) -> int:
    """Estimate the size of the text, where compressed files grow by the factor `compression`."""
    packed = [source for source in sources if source.compression or source.kind == "parquet"]
    plain = sum(source.size for source in sources)
    return plain + int((compression - 1) * sum(source.size for source in packed))


def expected_bytes(plan: Plan) -> int:
    """Estimate the size of the shards, rather too small."""
    per_token = FEW_TOKENS.get(plan.settings.tokenizer, FEW_TOKENS_OF_OTHERS)
    num_tokens = int(text_bytes(plan.sources, 2.5) / per_token)
    return num_tokens * (4 if plan.settings.dtype == "uint32" else 2)


def has_room_for_text(plan: Plan) -> bool:
    """Return True if the cleaned text fits on the disk too, by a wide margin.

    In a bucket it is not kept: to clean it again takes less time than to write and fetch it.
    """
    needed = text_bytes(plan.sources, 6) + 4 * expected_bytes(plan)
    free = plan.workspace.free_bytes()
    return free is not None and free > 2 * needed


def is_small_job(plan: Plan) -> bool:
    """Return True if one process is done before a second one would have started."""
    is_fast = plan.settings.tokenizer in FAST_TOKENIZERS
    return text_bytes(plan.sources, 6) < (SMALL_JOB if is_fast else SMALL_JOB_OF_OTHERS)


def check_space(plan: Plan, *, shards: bool = True) -> None:
    """Refuse to start what cannot end: tokens are on disk twice while shards are assembled."""
    stay_here = shards and plan.destination is None  # uploaded shards are removed here
    copies = 1.0 + stay_here * (1.0 if plan.settings.compress is None else BEST_OF_SHARDS)
    require_space(plan, int(copies * expected_bytes(plan)))


def require_space(plan: Plan, needed: int) -> None:
    """Refuse to start if the disk has no room for `needed` bytes, with what is there already."""
    free = plan.workspace.free_bytes()
    if free is None:
        return
    needed -= plan.workspace.used_bytes(with_dataset=plan.previous is None)
    if needed > free:
        raise PrepareError(
            f"{plan.workspace.title} has {free:,} bytes free, but about {needed:,} are needed "
            "while the dataset is made",
            hint="free some space, or write to another disk; nothing was tokenized yet",
        )


def is_tight(plan: Plan) -> bool:
    """Return True if the disk may be too small: short documents need more than `expected_bytes`."""
    free = plan.workspace.free_bytes()
    return free is not None and free < SURELY_ENOUGH * expected_bytes(plan)


def choose_shard_size(settings: Settings, sources: Sequence[Source], *, is_given: bool) -> int:
    """Return the tokens per shard; a size that the user gave stays, if a manifest can list them.

    Else it is doubled until there are at most `MOST_SHARDS`: a function of the inputs' sizes.
    """
    is_plain = settings.tokenizer in FEW_TOKENS
    num_tokens = text_bytes(sources, 4) // (1 if is_plain else MANY_TOKENS_OF_OTHERS)
    size = settings.tokens_per_shard
    while not is_given and num_tokens > MOST_SHARDS * size:
        size *= 2
    num_shards = num_tokens // size
    if num_shards > MOST_SHARDS_IN_A_MANIFEST:
        raise PrepareError(
            f"tokens_per_shard={size} makes about {plural(num_shards, 'shard')}; a manifest lists "
            f"at most {MOST_SHARDS_IN_A_MANIFEST:,}",
            hint="leave tokens_per_shard out, or give a larger one; nothing was tokenized yet",
        )
    return size
