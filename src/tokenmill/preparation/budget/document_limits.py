"""How large a document may be that must be held whole, given the memory that was allowed.

What a byte of such a document costs at its peak was measured on 40 to 85 MB of English, Cyrillic,
emoji and one-letter lines, with every tokenizer: 8 to 14 bytes for JSON lines, 14 to 17 for CSV
(the parser keeps four a character), 10 for parquet; the package `tokenizers` adds 130 to 160, and
sentencepiece 20. A limit follows from the memory alone, never from the number of workers: only one
of them at a time holds a document that is more than its share.

The limits stand beside the plan, not in it: under `--on_bad_input error` a larger document ends
the run, and the same command with more memory goes on. Where such documents are dropped, those of
the first run hold to the end.
"""

import fcntl
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Self

import orjson

from tokenmill.base.atomic import keep
from tokenmill.preparation.budget.memory_budget import (
    Memory,
    enough_for_document,
    left_for_document,
)
from tokenmill.preparation.plan import Plan
from tokenmill.preparation.workspace.work_folder import Workspace, remember
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import MAX_DOCUMENT_BYTES
from tokenmill.tokens.huggingface import HuggingFaceTokenizer
from tokenmill.tokens.sentencepiece import SentencePieceTokenizer
from tokenmill.tokens.tokenizer import Tokenizer

FILE_NAME = "limits.json"
PER_BYTE = {"text": 12, "jsonl": 15, "csv": 20, "parquet": 15, "unreadable": 1}
PER_BYTE_ENCODING = {HuggingFaceTokenizer: 200, SentencePieceTokenizer: 30}
PER_SHARE = 80 << 20  # of what a worker is counted for; the rest is its interpreter and tables


@dataclass(frozen=True)
class Limits:
    """What was decided for one run."""

    max_ram: int | None
    on_bad_input: str
    encoding: int
    """Bytes of memory that encoding a byte of text costs."""

    def cost(self, kind: str) -> int:
        """Bytes of memory for each byte of a document in a file of this kind."""
        return PER_BYTE[kind] + self.encoding

    def document_bytes(self, kind: str) -> int:
        """How large a document of a file of this kind may be."""
        if self.max_ram is None:
            return MAX_DOCUMENT_BYTES
        return left_for_document(self.max_ram) // self.cost(kind)

    def share(self, kind: str) -> int:
        """Up to which size every worker may hold a document at the same time."""
        return PER_SHARE // self.cost(kind)

    def explain(self, error: TooLargeError, kind: str) -> None:
        """Say how much memory would be enough."""
        error.hint = "cut it into smaller documents"
        if error.size:
            enough = enough_for_document(error.size * self.cost(kind)) + (1 << 20)
            error.message += f" (it has {error.size:,})"
            error.hint = f"pass --max_ram {enough >> 20}M or more, or {error.hint}"


def decide_limits(plan: Plan, memory: Memory, tokenizer: Tokenizer | None) -> int:
    """Write down the limits of this run; how many workers there may be."""
    encoding = 0
    if tokenizer is not None and tokenizer.cuts is None:
        fast = isinstance(tokenizer, HuggingFaceTokenizer) and tokenizer.backend == "gigatoken"
        encoding = 0 if fast else PER_BYTE_ENCODING.get(type(tokenizer), 0)
    limits = Limits(memory.max_ram, plan.settings.on_bad_input, encoding)
    path = plan.workspace.root / FILE_NAME
    found = _load(path) if path.exists() else None
    if found is None or found.on_bad_input == "error" or limits.on_bad_input == "error":
        keep(path, orjson.dumps(asdict(limits)))
    else:
        limits = found
    if memory.max_ram is None:
        return memory.workers
    cut = tokenizer is None or tokenizer.cuts is not None
    reserved = [
        _largest(source, limits) for source in plan.sources if not (cut and source.kind == "text")
    ]
    return memory.beside(min(left_for_document(memory.max_ram), max(reserved, default=0)))


def _largest(source: Source, limits: Limits) -> int:
    """Memory for the largest document there can be in a file."""
    size = limits.document_bytes(source.kind)
    if source.compression is None and source.kind != "parquet":
        size = min(size, source.size)
    return size * limits.cost(source.kind)


def load_limits(workspace: Workspace) -> Limits:
    """The limits of this run."""
    try:
        return _load(workspace.root / FILE_NAME)
    except FileNotFoundError:  # killed before they were written
        return Limits(None, "error", 0)


@remember
def _load(path: Path) -> Limits:
    return Limits(**orjson.loads(path.read_bytes()))


class OneAtATime:
    """Held by whoever has a large document in memory: one process of a machine at a time."""

    def __init__(self, workspace: Workspace) -> None:
        self._path = workspace.root / f"large-{os.uname().nodename}"
        self._file: IO[bytes] | None = None

    def __call__(self, is_large: bool) -> None:
        """Wait for it, or let it go."""
        if is_large and self._file is None:
            self._file = open(self._path, "wb")  # noqa: SIM115 - closed by the next call
            fcntl.flock(self._file, fcntl.LOCK_EX)
        elif not is_large and self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self(False)
