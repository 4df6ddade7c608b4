"""Many files as one axis of tokens: by position, by slice, by document.

Positions run over all files in order. Nothing here knows where the files came from, or what the
ids mean: `tokenmill.dataset.TokenDataset` adds the format, the split and the tokenizer.
"""

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tokenmill.order.order import Locality
from tokenmill.reading.shard_reader import ShardReader
from tokenmill.reading.span_reader import IdLimit, SpanReader
from tokenmill.reading.token_file import TokenFile, TokenFiles

if TYPE_CHECKING:  # imported when documents are asked for
    from tokenmill.reading.document_index import IndexedDocuments, ScannedDocuments

BLOCK = 1 << 20  # tokens read at a time by an iterator


@dataclass(frozen=True, slots=True)
class Shard:
    """One file (or the part of it in this dataset) and where it is on the axis."""

    file: str
    num_tokens: int
    start: int
    """Position of its first token in the dataset."""


class Shards(Sequence[Shard]):
    """The shards of an axis in order; each is made when it is asked for."""

    def __init__(self, files: TokenFiles, starts: np.ndarray) -> None:
        self._files, self._starts = files, starts

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, at: int) -> Shard: ...
    @overload
    def __getitem__(self, at: slice) -> list[Shard]: ...

    def __getitem__(self, at: int | slice) -> Shard | list[Shard]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        at = range(len(self))[at]
        start, stop = self._starts[at : at + 2].tolist()
        return Shard(self._files.name(at), stop - start, start)


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
        ends = np.cumsum(reader.files.numbers("num_tokens"), dtype=np.int64)
        self.shard_starts: np.ndarray = np.concatenate(([0], ends), dtype=np.int64)
        self.num_tokens = int(self.shard_starts[-1])
        self.shards: Sequence[Shard] = Shards(reader.files, self.shard_starts)
        self._reader = reader
        self._documents: IndexedDocuments | ScannedDocuments | None = None

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
        self._reader.read_into(i, offset, out)

    def span_reader(self, locality: Locality, ids: IdLimit) -> SpanReader:
        """A reader of spans of this axis, chosen for how far apart they will be."""
        return self._reader.span_reader(self.shard_starts, locality, ids)

    def tokens(self, start: int, stop: int) -> np.ndarray:
        """The same as `data[start:stop]`; a range that is not inside the data is an IndexError."""
        self._check_range(start, stop)
        out = np.empty(stop - start, self.dtype)
        i = int(np.searchsorted(self.shard_starts, start, side="right")) - 1
        done = 0
        while done < len(out):
            inside = start + done - int(self.shard_starts[i])  # tokens of this shard before ours
            take = min(len(out) - done, int(self.shard_starts[i + 1]) - start - done)
            self._reader.read_into(i, inside, out[done : done + take])
            done += take
            i += 1
        return out

    def files_between(self, start: int, stop: int) -> list[TokenFile]:
        """The files, or parts of them, that hold the tokens from start to stop; at least one."""
        self._check_range(start, stop)
        edges, found = self.shard_starts, []
        first = int(np.searchsorted(edges, start, side="right")) - 1
        for i in range(first, int(np.searchsorted(edges, stop, side="left"))):
            low, high = max(0, start - int(edges[i])), min(stop, int(edges[i + 1])) - int(edges[i])
            if low < high:
                found.append(self.files[i].part(low, high))
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
        """The same by the index, for rows of start .. start+length-1: numbers of rows, and ends.

        Ends are such that start < e < start + length, row after row.
        """
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
        return all(file.ends is not None for file in self.files.kinds())

    def _index(self) -> "IndexedDocuments | ScannedDocuments":
        if self._documents is None:
            from tokenmill.reading.document_index import (
                IndexedDocuments,
                ScannedDocuments,
                unknown_documents,
            )

            if self.has_index:
                self._documents = IndexedDocuments(self._reader, self.shard_starts)
            elif self.end_of_text_id is None:
                raise unknown_documents(self.path)
            else:
                mark = (self.end_of_text_id, self.end_of_text_comes)
                self._documents = ScannedDocuments(self.tokens, self.num_tokens, *mark)
        return self._documents
