"""What all writers share: how a stream of tokens becomes files.

A writer is given one split in order, in chunks: tokens, and where documents end among them. It
holds at most a shard of small ones in memory; nothing is known beforehand, so headers that count
are filled in at the end. conversion/convert.py feeds the writers.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np

from tokenmill.base.atomic import sync_open_file

Values = Mapping[str, Any]
NO_VALUES: Values = {}


@dataclass
class Writer:
    """Takes one split in order, chunk by chunk, and writes one shard after another.

    Documents stay whole when `whole_documents`: a shard is then closed at the first document end
    after it has `tokens_per_shard` tokens. Else shards have exactly that many, the last fewer. How
    a shard is written is up to the format.
    """

    root: Path
    split: str | None
    """None: the data has no splits."""
    dtype: np.dtype[Any]
    tokens_per_shard: int
    end_of_text_id: int | None = None
    vocab_size: int | None = None
    tokenizer: str | None = None
    """Its name, where the format has a place for it."""
    begin_token_id: int | None = None
    """The id that every document begins with; only our own format says so."""
    first_shard: int = 0
    """Shards written for the splits before, for formats that number over all splits."""
    own_folder: bool = False
    """True if the split has its own folder, though the format may do without."""
    compress: str | None = None
    """How shards are compressed, as `zstd:3`; only for formats that `compresses`."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """Bits per token of the columns to write, by name; only those that the format `holds`."""

    folder_per_split = False
    """True if each split has its own folder."""
    names_folders = False
    """True if the names of the files say the folder of their split."""
    file_name = ""
    """Of a shard, with its {split} or its {number}."""
    name_without_split = "train"
    whole_documents = True
    header_bytes = 0
    """Room that is left before the tokens, for `finish` to fill."""

    def write_facts(self, kept: Mapping[str, Any], batches: Iterable[Any]) -> None:
        """Write facts of the documents, once the shards are closed; for formats that keep them.

        `kept` are the types of columns, besides those that all facts have.
        """
        raise NotImplementedError

    def __post_init__(self) -> None:
        apart = self.folder_per_split or (self.own_folder and not self.names_folders)
        self.folder = self.root / self.split if apart and self.split else self.root
        self.folder.mkdir(exist_ok=True)
        self.number = self.first_shard
        self._open = ExitStack()
        self._file: IO[bytes]
        self._mask: IO[bytes] | None = None
        self._filled = 0
        """Tokens of the shard that is written."""
        self._ends: list[np.ndarray] = []
        """Where documents end, chunk by chunk; empty while no shard is open."""

    def path(self) -> Path:
        name = self.split or self.name_without_split
        return self.folder / self.file_name.format(split=name, number=self.number)

    def finish(self, path: Path, file: IO[bytes], num_tokens: int, ends: np.ndarray) -> None:
        """Write what is known only now: counts, and the documents of this shard."""

    def open_shard(self) -> None:
        self._file = self._open.enter_context(self.path().open("xb"))
        self._file.write(bytes(self.header_bytes))
        if self.columns:  # `loss`, a byte per token
            self._mask = self._open.enter_context(self.mask_of(self.path()).open("xb"))

    @staticmethod
    def mask_of(path: Path) -> Path:
        """Return the file that has the column `loss` of the shard at this path."""
        raise NotImplementedError

    def write(self, tokens: np.ndarray, columns: Values) -> None:
        self._file.write(np.ascontiguousarray(tokens, self.dtype).data)
        if self._mask is not None:
            self._mask.write(np.ascontiguousarray(columns["loss"], bool).data)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        self.finish(self.path(), self._file, num_tokens, ends)
        for file in filter(None, (self._file, self._mask)):
            sync_open_file(file)
        self._open.close()

    def add(self, tokens: np.ndarray, ends: np.ndarray, columns: Values = NO_VALUES) -> None:
        """Write tokens; `ends` are positions in this chunk where documents end (exclusive).

        `columns` are values of these tokens by name.
        """
        done = 0
        while done < len(tokens):
            stop, is_full = self._stop(done, len(tokens), ends)
            if not self._ends:
                self.open_shard()
            self.write(tokens[done:stop], {k: v[done:stop] for k, v in columns.items()})
            # From positions in this chunk to positions in this shard.
            inside = ends[(ends > done) & (ends <= stop)]
            self._ends.append(inside + (self._filled - done))
            self._filled += stop - done
            if is_full:
                self._next()
            done = stop

    def discard(self) -> None:
        """Close what is open, after an error; what was written will be removed."""
        with suppress(OSError):  # the disk that is full now was full before
            self._open.close()

    def close(self) -> int:
        """Finish all files; return the number of shards written."""
        if self._ends:
            self._next()
        return self.number - self.first_shard

    @staticmethod
    def complete(folder: Path, writers: Mapping[str, Any], tokenizer: Any) -> None:
        """Write what is known only when the writers of all splits are closed."""

    def _stop(self, done: int, length: int, ends: np.ndarray) -> tuple[int, bool]:
        """Return up to where this chunk goes into the open shard, and whether that fills it."""
        full = done + self.tokens_per_shard - self._filled
        if not self.whole_documents:
            return min(length, full), full <= length
        i = int(np.searchsorted(ends, max(full, done + 1)))
        return (int(ends[i]), True) if i < len(ends) else (length, False)

    def _next(self) -> None:
        self.close_shard(self._filled, np.concatenate(self._ends))
        self._filled = 0
        self._ends = []
        self.number += 1


def write_file(path: Path, data: bytes) -> None:
    """Write a whole file to the disk."""
    with path.open("xb") as file:
        file.write(data)
        sync_open_file(file)
