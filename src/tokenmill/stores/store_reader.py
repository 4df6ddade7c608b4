"""The tokens of files in a store: in blocks of 1 MiB, each checked, through the cache.

storage.md ("Loading") says what is fetched, compared and kept. Files with a hash but without
hashes of their blocks, and those that can only be read from their start, are fetched whole. What an
order needs next is fetched by threads before it is asked for.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import xxhash

from tokenmill.base.daemon_threads import DaemonThreads
from tokenmill.base.histogram import Histogram
from tokenmill.base.stalls import waiting_for
from tokenmill.errors import CorruptShardError
from tokenmill.order.order import Locality
from tokenmill.order.spans import Spans, runs
from tokenmill.reading.block_reader import BLOCK_BYTES, BlockReader, BlockRuns
from tokenmill.reading.frames import Frames
from tokenmill.reading.shard_cache import ShardCache, tokens_of
from tokenmill.reading.shard_reader import Descriptor, RecentlyUsed, ShardReader
from tokenmill.reading.span_reader import (
    Cells,
    FileReader,
    Flags,
    IdLimit,
    MixedReader,
    RunReader,
    SpanReader,
    parts_in_runs,
)
from tokenmill.reading.token_file import FRAMED, TokenFile
from tokenmill.stores import objects
from tokenmill.stores.store_requests import ObjectStat

REQUESTS_AHEAD = 48
FILES_AHEAD = 4
ROWS_PLANNED = 1024
ROWS_LOOKED_AT = 8192
"""Rows to come for which is planned what to fetch."""
ROWS_BETWEEN_LOOKS = 1024

Key = tuple[int, ...]
Value = TypeVar("Value")


class FetchAhead(Generic[Value]):
    """Results of `fetch(*key)`: at most `limit` of them are fetched before they are taken."""

    def __init__(self, fetch: Callable[..., Value], limit: int) -> None:
        self._fetch = fetch
        self._limit = limit
        self.waits = Histogram()  # of the taker
        self._forget()

    def __reduce__(self) -> tuple[object, ...]:
        return FetchAhead, (self._fetch, self._limit)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._begun: dict[Key, Future[Value]] = {}
        self._waiting: deque[Key] = deque()
        self._threads = DaemonThreads(self._limit, "tokenmill-ahead")

    def expect(self, keys: Iterable[Key]) -> None:
        """Fetch these, in this order, instead of what was expected before."""
        with self._locked():
            coming = dict.fromkeys(keys)
            for key in self._begun.keys() - coming.keys():
                self._begun.pop(key).cancel()
            self._waiting = deque(key for key in coming if key not in self._begun)
            self._begin_more()

    def __contains__(self, key: Key) -> bool:
        return key in self._begun

    def take(self, *key: int) -> Value:
        """Return the result for a key: wait for it, or fetch it now."""
        with self._locked():
            result = self._begun.pop(key, None) or self._submit(key)
            self._begin_more()
        with waiting_for("a fetch", self.waits):
            return result.result()

    def _begin_more(self) -> None:
        while self._waiting and len(self._begun) < self._limit:
            key = self._waiting.popleft()
            self._begun[key] = self._submit(key)

    def _submit(self, key: Key) -> "Future[Value]":
        return self._threads.submit(partial(self._fetch, *key))

    def _locked(self) -> threading.Lock:
        if self._process != os.getpid():  # threads do not survive a fork
            self._forget()
        return self._lock


class AheadReader(SpanReader):
    """A reader that asks, from time to time, which spans come next, and has them fetched."""

    def __init__(
        self,
        reader: SpanReader,
        ahead: FetchAhead[Value],
        keys_of: Callable[[Spans], Sequence[Key]],
        most: int,
    ) -> None:
        """`keys_of` returns what `reader` will take from `ahead`, of which `most` are planned."""
        self._reader = reader
        self._ahead = ahead
        self._keys_of = keys_of
        self._most = most
        self._coming: Callable[[], Spans] | None = None
        self._rows_left = 0  # rows to read before the next look at what comes

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:
        self._coming = coming
        self._ahead.waits = fetches

    def with_columns(self, columns: Any) -> SpanReader:
        self._reader = self._reader.with_columns(columns)
        return self

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        if self._rows_left <= 0:
            self._look_ahead(spans if self._coming is None else self._coming())
        self._rows_left -= spans.num_rows
        self._reader.read(spans, out, continues, cells)

    def _look_ahead(self, coming: Spans) -> None:
        num_rows = min(coming.num_rows, ROWS_LOOKED_AT, 8 * self._most)
        keys = self._keys_of(coming.between(0, num_rows))
        planned: dict[Key, None] = {}
        num_seen = 0
        while num_seen < len(keys) and len(planned) < self._most:
            planned[keys[num_seen]] = None
            num_seen += 1
        self._ahead.expect(planned)
        num_covered = num_rows * num_seen // max(1, len(keys))  # about
        self._rows_left = min(num_covered // 2, ROWS_BETWEEN_LOOKS)


class StoreReader(BlockReader):
    """A reader of files in a store: their paths are addresses."""

    def __init__(
        self,
        files: Sequence[TokenFile],
        cache: ShardCache,
        *,
        backend: str = "mmap",
        verify: bool | None = None,
    ) -> None:
        super().__init__(files, cache, backend=backend, verify=verify)
        self._hashes = RecentlyUsed(self._load_hashes, 4096)
        self._by_position = FetchAhead(lambda *key: self._recent[key], REQUESTS_AHEAD // 2)

    def sampler(self) -> ShardReader:
        if any(file.packed for file in self.files):
            return self
        return RangeReader(self.files)

    def has_blocks(self, i: int) -> bool:
        file = self.files[i]
        if not _may_have_blocks(file):
            return False
        is_checked_alone = file.packed is not None or file.hashes is None
        return is_checked_alone or file.file_bytes <= BLOCK_BYTES or len(self._hashes[i]) > 0

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        largest = max(file.file_bytes for file in self.files)
        if not all(map(_may_have_blocks, self.files)):
            files = FetchAhead(self._bring, self._limit(FILES_AHEAD, largest))
            whole = FileReader(edges, partial(self._read_whole, files), ids)
            return AheadReader(whole, files, partial(_runs_of, edges, ()), FILES_AHEAD)
        dtype = self.files[0].dtype
        cached_bytes = int(edges[-1]) * dtype.itemsize
        if not locality.num_blocks:
            cached_bytes = self._bytes_that_fit(cached_bytes)
        blocks = BlockRuns(self, edges, cached_bytes)
        unit = min(BLOCK_BYTES, largest) if self.has_blocks(0) else largest
        ahead = FetchAhead(blocks.array, self._limit(REQUESTS_AHEAD, unit))
        in_runs = RunReader(blocks.edges, dtype, ahead.take, blocks.max_open, ids)
        keys_of = partial(_runs_of, blocks.edges, in_runs)
        reader = AheadReader(in_runs, ahead, keys_of, blocks.max_open // 2)
        is_plain = all(file.packed is None for file in self.files)
        are_hashed = self.verify is not False or not objects.is_encrypted(self.files[0].path)
        if is_plain and not are_hashed and not blocks.all_cached:  # a row is taken as it comes
            rows = FetchAhead(RangeReader(self.files).read, REQUESTS_AHEAD)
            alone = FileReader(edges, rows.take, ids)
            far = AheadReader(alone, rows, partial(_parts_of, edges), ROWS_PLANNED)
            return MixedReader([reader, far], partial(_is_far, blocks.cached_tokens))
        return reader

    def _limit(self, requests: int, num_bytes: int) -> int:
        """Return how much to fetch ahead: these take at most half of the cache."""
        return max(1, min(requests, self.cache.max_bytes // (2 * num_bytes)))

    def _bring(self, i: int) -> None:
        os.close(self.cache.open(tokens_of(self.files[i])))

    def _read_whole(self, files: "FetchAhead[None]", i: int, offset: int, count: int) -> np.ndarray:
        if (i,) in files:
            files.take(i)
        return self.read(i, offset, count)

    def _load_all(self, i: int, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        if len(numbers) > 1:
            self._by_position.expect((i, number) for number in numbers)
        return (self._by_position.take(i, number) for number in numbers)

    def _load(self, key: tuple[int, int]) -> np.ndarray:
        return self.block(*key, in_cache=True)

    def _load_hashes(self, i: int) -> np.ndarray:
        """Return the hashes that the dataset states for the blocks of a file; none: empty."""
        load = self.files[i].blocks
        hashes: np.ndarray | None = None if load is None else load()
        return np.empty(0, np.uint64) if hashes is None else hashes

    def _fetch(self, i: int, number: int) -> bytes:
        with suppress(CorruptShardError):  # it may have been damaged in transit
            return self._fetch_once(i, number, hashed=True)
        self._tables.drop(i)
        return self._fetch_once(i, number, hashed=False)

    def _fetch_once(self, i: int, number: int, *, hashed: bool) -> bytes:
        """`hashed`: what arrives is compared with its hash alone; else each range by itself too."""
        file = self.files[i]
        if file.packed is not None:
            frames = self._tables[i] if hashed else self._open_frames(i, hashed=False)
            return frames[number]
        start = number * BLOCK_BYTES
        data = self._get(i, hashed, start, min(BLOCK_BYTES, file.file_bytes - start))
        if file.hashes is None:
            return data
        if file.file_bytes <= BLOCK_BYTES:
            is_right = xxhash.xxh3_128_hexdigest(data) == file.hashes.tokens
        else:
            is_right = xxhash.xxh3_64_intdigest(data) == int(self._hashes[i][number])
        if not is_right:
            raise CorruptShardError(
                f"{file.path}, bytes {start:,} to {start + len(data):,}, was read twice, "
                "and does not match its dataset",
                hint="the object, or the one with the hashes of blocks, was replaced or damaged; "
                "restore the right one",
            )
        return data

    def _get(self, i: int, hashed: bool, start: int, count: int) -> bytes:
        """Return bytes of an object as it is stored."""
        file = self.files[i]
        hashed = hashed and (file.packed is not None or file.hashes is not None)
        return objects.read(file.path, start, start + count, _known(file), hashed=hashed)

    def _open_frames(self, i: int, hashed: bool = True) -> Frames:
        file = self.files[i]
        return Frames(partial(self._get, i, hashed), file.path, file.file_bytes, file.disk_bytes)

    def _open(self, i: int) -> Descriptor:
        return Descriptor(self.cache.open(tokens_of(self.files[i])))


class RangeReader(ShardReader):
    """A reader that asks the store for exactly the bytes it is asked for, and keeps nothing."""

    def __init__(self, files: Sequence[TokenFile], **_: Any) -> None:
        super().__init__(files, backend="pread")
        self._seen: dict[int, ObjectStat] = {}  # the version of each object that was read first

    def _pread(self, i: int, byte: int, out: np.ndarray) -> None:
        file = self.files[i]
        known = self._seen.get(i) or _known(file)
        part = objects.begin_part(file.path, byte, byte + out.nbytes, known)
        data, self._seen[i] = part.result()
        memoryview(out.data).cast("B")[:] = data


def _is_far(border: int, spans: Spans) -> np.ndarray:
    """Return True for each span that ends after this token of the axis."""
    is_far: np.ndarray = spans.start + spans.length > border
    return is_far


def _known(file: TokenFile) -> ObjectStat:
    return ObjectStat(file.disk_bytes, file.etag)


def _may_have_blocks(file: TokenFile) -> bool:
    """Return True if some bytes of the object are some of the tokens."""
    if file.packed is not None:
        return file.packed.codec == FRAMED
    return file.pieces is None and file.offset % file.dtype.itemsize == 0


def _runs_of(edges: np.ndarray, held: Container[int], spans: Spans) -> list[tuple[int, ...]]:
    """Return the runs that the spans need, in the order of their need, without those held."""
    first = np.searchsorted(edges, spans.start, side="right") - 1
    last = np.searchsorted(edges, spans.start + spans.length, side="left") - 1
    needed = runs(first, last - first + 1).tolist()
    return [(run,) for run in needed if run not in held]


def _parts_of(edges: np.ndarray, spans: Spans) -> list[tuple[int, ...]]:
    """Return file, first token in it, and tokens, of each part of a span in a file."""
    pairs = zip(spans.start.tolist(), spans.length.tolist(), strict=True)
    return [part for start, length in pairs for part in parts_in_runs(edges, start, length)]
