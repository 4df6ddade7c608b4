"""Many files as one axis of tokens: by position, by slice, by document.

Positions run over all files in order. Nothing here knows where the files came from, or what the
ids mean: `tokenmill.dataset.TokenDataset` adds the format, the split and the tokenizer.
"""

import functools
import hashlib
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tokenmill.base.suggest import one_of
from tokenmill.errors import FormatError
from tokenmill.order.order import Locality
from tokenmill.reading.shard_reader import ShardReader
from tokenmill.reading.span_reader import IdLimit, SpanReader, parts_in_runs
from tokenmill.reading.token_file import TokenFile

if TYPE_CHECKING:  # imported when they are asked for
    from tokenmill.reading.columns import Columns
    from tokenmill.reading.document_index import IndexedDocuments, ScannedDocuments

BLOCK = 1 << 20  # tokens read at a time by an iterator
READ_AT_ONCE = 1 << 24  # tokens


@dataclass(frozen=True, slots=True)
class Shard:
    """One file (or the part of it in this dataset) and where it is on the axis."""

    file: str
    num_tokens: int
    start: int
    """Position of its first token in the dataset."""


class TokenAxis:
    """The tokens of some files, and where documents end among them."""

    def __init__(
        self,
        reader: ShardReader,
        *,
        path: str,
        end_of_text_id: int | None,
        end_of_text_comes: str | None,
    ) -> None:
        self.path = path
        self.files = reader.files
        self.backend = reader.backend
        self.dtype: np.dtype[Any] = reader.files[0].dtype
        self.end_of_text_id = end_of_text_id
        self.end_of_text_comes = end_of_text_comes
        sizes = [file.num_tokens for file in reader.files]
        self.shard_starts: np.ndarray = np.cumsum([0, *sizes], dtype=np.int64)
        self.num_tokens = int(self.shard_starts[-1])
        self._reader = reader
        self._shards: list[Shard] | None = None
        self._documents: IndexedDocuments | ScannedDocuments | None = None

    @property
    def shards(self) -> list[Shard]:
        """The files, or parts of them, in order."""
        if self._shards is None:
            pairs = zip(self.files, self.shard_starts[:-1].tolist(), strict=True)
            self._shards = [Shard(file.name, file.num_tokens, start) for file, start in pairs]
        return self._shards

    def __len__(self) -> int:
        return self.num_tokens

    def __bool__(self) -> bool:
        return True  # a dataset is a thing, also where a part of it is empty

    def __getitem__(self, key: int | slice) -> Any:
        """`data[i]` is an int; `data[a:b]` and `data[a:b:step]` are copies, as of a NumPy array."""
        if not isinstance(key, slice):
            i = operator.index(key)
            position = i + self.num_tokens if i < 0 else i
            self._check_position(position, i)
            return int(self.tokens(position, position + 1)[0])
        start, stop, step = key.indices(self.num_tokens)
        if step > 0:
            return self.tokens(start, max(start, stop))[::step]
        # From `start` down to the one after `stop`: read forwards, then turned round.
        return self.tokens(min(start, stop) + 1, start + 1)[::-1][::-step]

    def __iter__(self) -> Iterator[int]:
        for start in range(0, self.num_tokens, BLOCK):
            yield from self.tokens(start, min(start + BLOCK, self.num_tokens)).tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All tokens: what `np.asarray(data)` gives. A copy, whatever is asked for."""
        if copy is False:
            raise ValueError("the tokens of a dataset cannot be an array without a copy")
        return self.tokens(0, self.num_tokens).astype(dtype or self.dtype, copy=False)

    def array(self, i: int) -> np.ndarray:
        """Shard i as a read-only 1-D array: a view of its map (a copy with `pread`)."""
        return self._reader.array(i)

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens of shard i, from `offset` on, until the 1-D array `out` is full."""
        np.copyto(out, self._reader.read(i, offset, len(out)), casting="same_kind")

    def span_reader(self, locality: Locality, ids: IdLimit) -> SpanReader:
        """A reader of spans of this axis, chosen for how far apart they will be."""
        reader = self._reader.span_reader(self.shard_starts, locality, ids)
        return reader.with_columns(self._column_values) if self.columns else reader

    @property
    def columns(self) -> dict[str, int]:
        """Bits per token of each column next to the ids, by name."""
        return {column.name: column.bits for column in self.files[0].columns}

    def column(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the values of a column for tokens start .. stop-1, one (or k) for each.

        `loss` is bool, `weights` are float32.
        """
        one_of("column", name, list(self.columns))
        self._check_range(start, stop)
        stored = self._column_values.values(name, start, stop)
        return self._column_values.all[name].meaning(stored)

    @functools.cached_property
    def _column_values(self) -> "Columns":
        columns: Columns = self._reader.columns_of(self.shard_starts)
        return columns

    def tokens(self, start: int, stop: int) -> np.ndarray:
        """The same as `data[start:stop]`; a range that is not inside the data is an IndexError."""
        self._check_range(start, stop)
        out = np.empty(stop - start, self.dtype)
        done = 0
        while done < len(out):
            # In pieces, since a reader may need the memory of a piece once more.
            some = min(READ_AT_ONCE, len(out) - done)
            for i, offset, count in parts_in_runs(self.shard_starts, start + done, some):
                out[done : done + count] = self._reader.read(i, offset, count)
                done += count
        return out

    def files_between(self, start: int, stop: int) -> list[TokenFile]:
        """The files, or parts of them, that hold the tokens from start to stop; at least one."""
        self._check_range(start, stop)
        parts = parts_in_runs(self.shard_starts, start, stop - start)
        found = [self.files[i].part(offset, offset + count) for i, offset, count in parts]
        return found or [self.files[0].part(0, 0)]

    def _check_position(self, position: int, asked: int) -> None:
        if not 0 <= position < self.num_tokens:
            raise IndexError(f"token {asked} of a dataset of {self.num_tokens} tokens")

    def _check_range(self, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= self.num_tokens:
            raise IndexError(f"tokens {start} to {stop} of a dataset of {self.num_tokens} tokens")

    @property
    def num_documents(self) -> int | None:
        """Documents in this data, or None where only a scan of all tokens could count them."""
        return self._index().count if self.has_index else None

    @property
    def num_empty_documents(self) -> int:
        """Documents without a token, which only an index can hold. Reads the whole index."""
        from tokenmill.reading.document_index import IndexedDocuments

        index = self._index() if self.has_index else None
        return index.num_empty() if isinstance(index, IndexedDocuments) else 0

    def document(self, i: int) -> np.ndarray:
        """The tokens of document i, in the stored dtype."""
        return self.tokens(*self.document_range(i))

    def document_range(self, i: int) -> tuple[int, int]:
        """First token of document i, and the one after its last."""
        starts, stops = self.document_ranges(np.array([i]))
        return int(starts[0]), int(stops[0])

    def document_ranges(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same for many documents at once: first tokens, and those after the last ones."""
        count = self.num_documents
        wrong = documents[(documents < 0) | (documents >= (1 << 62 if count is None else count))]
        if len(wrong):
            raise IndexError(f"document {wrong[0]} of a dataset of {count} documents")
        return self._index().ranges(documents)

    def edges_of_documents(self, first: int, stop: int) -> np.ndarray:
        """Return where the documents first .. stop-1 begin, and where the last of them ends."""
        return self._index().edges(first, stop)

    def document_at(self, position: int) -> int:
        """The document that holds the token at this position."""
        self._check_position(position, position)
        return self._index().at(position)

    def document_ends(self, start: int, stop: int) -> np.ndarray:
        """Positions e with start < e <= stop where a document ends: int64, sorted, each once."""
        self._check_range(start, stop)
        return self._index().ends(start, stop)

    def document_edges(self, start: int, stop: int) -> np.ndarray:
        """Where the documents that hold tokens start .. stop-1 begin and end; one token at least.

        The first edge is at or before `start`, the last one at or after `stop`.
        """
        first, _ = self.document_range(self.document_at(start))
        _, last = self.document_range(self.document_at(stop - 1))
        return np.unique(np.concatenate([[first, last], self.document_ends(start, stop)]))

    def document_ends_in_rows(
        self, starts: np.ndarray, length: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends e with start < e < start + length of many rows, by the index: numbers of rows, e."""
        from tokenmill.reading.document_index import IndexedDocuments

        index = self._index()
        assert isinstance(index, IndexedDocuments)
        return index.ends_in_rows(starts, length)

    @property
    def knows_documents(self) -> bool:
        """Whether anything says where documents end."""
        return self.has_index or self.end_of_text_id is not None

    @property
    def has_index(self) -> bool:
        """Whether the files say where documents end, without a scan of the tokens."""
        return all(file.ends is not None for file in self.files)

    def _index(self) -> "IndexedDocuments | ScannedDocuments":
        if self._documents is None:
            from tokenmill.reading.document_index import IndexedDocuments, ScannedDocuments

            if self.has_index:
                self._documents = IndexedDocuments(self._reader, self.shard_starts)
            elif self.end_of_text_id is None:
                raise FormatError(
                    f"nothing in {self.path} says where documents end",
                    hint="name the end-of-text id: "
                    f'tokenmill.open("{self.path}", end_of_text=50256)',
                )
            else:
                mark = (self.end_of_text_id, self.end_of_text_comes)
                self._documents = ScannedDocuments(self.tokens, self.num_tokens, *mark)
        return self._documents


SAMPLED_FILES = 64
SAMPLED_TOKENS = 4096


def fingerprint(format: str, dtype: np.dtype[Any], reader: ShardReader) -> str:
    """Return a hash of the data that a saved state belongs to: equal for a copy elsewhere.

    Of names, sizes and, where a manifest has them, hashes of the files. Files without a hash are
    sampled, at most 64 of them, spread over the dataset: it is no check of every byte.
    """
    files = [
        [f.name, f.file_bytes, f.offset, f.first, f.num_tokens, f.known_contents]
        for f in reader.files
    ]
    unknown = [i for i, f in enumerate(reader.files) if f.num_tokens and not f.known_contents]
    chosen = np.linspace(0, len(unknown) - 1, min(SAMPLED_FILES, len(unknown))).astype(int)
    for k in chosen.tolist():
        files[unknown[k]][-1] = _sample(reader, unknown[k])
    return hashlib.blake2b(orjson.dumps([format, dtype.str, *files]), digest_size=16).hexdigest()


def _sample(reader: ShardReader, i: int) -> str:
    """Return a hash of the first, middle and last tokens of a file; of all, if these are few."""
    count = reader.files[i].num_tokens
    digest = hashlib.blake2b(digest_size=16)
    last = max(0, count - SAMPLED_TOKENS)
    is_long = count > 3 * SAMPLED_TOKENS
    for start in (0, last // 2, last) if is_long else range(0, count, SAMPLED_TOKENS):
        tokens = reader.read(i, start, min(SAMPLED_TOKENS, count - start))
        digest.update(np.ascontiguousarray(tokens).data)
    return digest.hexdigest()
