"""What all writers share: what is written, and how a run of tokens becomes files.

A writer is fed one split in order, in chunks: tokens, and where documents end among them. It holds
at most a shard of small ones in memory; nothing is known beforehand, so headers that count are
filled in at the end. The writers of one format are made by `open_writer(folder, target)` in
formats/<name>_write.py; convert.py feeds them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np

from tokenmill.base.atomic import sync_open_file
from tokenmill.errors import FormatError


@dataclass(frozen=True)
class Target:
    """What is to be written of one split."""

    split: str | None
    """None: the data has no splits."""
    dtype: np.dtype[Any]
    tokens_per_shard: int
    end_of_text_id: int | None = None
    vocab_size: int | None = None
    tokenizer: str | None = None
    """Its name, where the format has a place for it."""
    first_shard: int = 0
    """Shards written for the splits before, for formats that number on."""


class Writer(Protocol):
    """Takes a split, chunk by chunk."""

    def add(self, tokens: np.ndarray, ends: np.ndarray) -> None:
        """Write tokens; `ends` are positions in this chunk where documents end (exclusive)."""

    def close(self) -> int:
        """Finish all files; the number of shards written."""


class Rolling:
    """Tokens into one file after another: `begin` opens the next, `finish` completes it.

    Documents stay whole when `whole_documents`: a file is then closed at the first document end
    after it has `tokens_per_shard` tokens. Else files have exactly that many, the last fewer.
    """

    whole_documents = True

    def __init__(self, folder: Path, target: Target) -> None:
        self.folder = folder
        self.target = target
        self.number = target.first_shard
        self._file: IO[bytes]
        self._is_open = False
        self._filled = 0
        self._ends: list[np.ndarray] = []

    def path(self, number: int) -> Path:
        """The file of this shard."""
        raise NotImplementedError

    def begin(self, file: IO[bytes]) -> None:
        """Write what comes before the tokens."""

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """Write what is known only now: counts, and the documents of this shard."""

    def open_shard(self) -> None:
        """Open the next shard."""
        self._file = self.path(self.number).open("xb")
        self.begin(self._file)

    def write(self, tokens: np.ndarray) -> None:
        """Tokens of the open shard."""
        self._file.write(np.ascontiguousarray(tokens, self.target.dtype).data)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        """Complete the open shard."""
        self.finish(self.path(self.number), self._file, num_tokens, ends)
        close(self._file)

    def add(self, tokens: np.ndarray, ends: np.ndarray) -> None:
        """Write tokens, over as many shards as it takes."""
        done = 0
        while done < len(tokens):
            stop = self._stop(done, len(tokens), ends)
            if not self._is_open:
                self.open_shard()
                self._is_open = True
            self.write(tokens[done:stop])
            inside = ends[(ends > done) & (ends <= stop)]
            self._ends.append(inside + (self._filled - done))
            self._filled += stop - done
            if self._is_full(stop, ends):
                self._next()
            done = stop

    def close(self) -> int:
        """Complete the last shard."""
        if self._is_open:
            self._next()
        return self.number - self.target.first_shard

    def _stop(self, done: int, length: int, ends: np.ndarray) -> int:
        room = self.target.tokens_per_shard - self._filled
        if not self.whole_documents:
            return min(length, done + room)
        i = int(np.searchsorted(ends, max(done + room, done + 1)))
        return int(ends[i]) if i < len(ends) else length

    def _is_full(self, stop: int, ends: np.ndarray) -> bool:
        if self._filled < self.target.tokens_per_shard:
            return False
        return not self.whole_documents or bool(np.isin(stop, ends))

    def _next(self) -> None:
        self.close_shard(self._filled, np.concatenate(self._ends))
        self._is_open = False
        self._filled = 0
        self._ends = []
        self.number += 1


def close(file: IO[bytes]) -> None:
    """Close a file whose bytes are on disk."""
    sync_open_file(file)
    file.close()


def write_file(path: Path, data: bytes) -> None:
    """A whole file, on disk."""
    with path.open("xb") as file:
        file.write(data)
        sync_open_file(file)


def fitting(tokens: np.ndarray, dtype: np.dtype[Any], position: int) -> np.ndarray:
    """The same ids in another type; one that does not fit is refused."""
    if len(tokens) == 0 or np.can_cast(tokens.dtype, dtype, casting="safe"):
        return tokens.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    low, high = int(tokens.min()), int(tokens.max())
    if low < limits.min or high > limits.max:
        bad = high if high > limits.max else low
        at = position + int(np.argmax(tokens == bad))
        raise FormatError(
            f"token id {bad} at position {at:,} does not fit into {dtype.name}",
            hint=f'pass to_dtype="{"uint32" if bad >= 0 else "int32"}"; files will be larger'
            if dtype.itemsize < 4
            else "this is no token id: the source is damaged or was opened with a wrong dtype",
        )
    return tokens.astype(dtype)
