"""Files that are read in blocks of 1 MiB: compressed ones here, those in a store in stores/.

A block of a compressed file is a frame (frames.py), of an object in a store a range of its bytes.
compression.md and storage.md say which blocks are kept, and where. Files that are not in
blocks are read whole: plain ones of a dataset that was added to are mapped where they are, streams
of other projects are unpacked into the cache folder.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from tokenmill.order.order import Locality
from tokenmill.order.spans import runs
from tokenmill.reading.frames import FRAME_BYTES, Frames, num_frames, open_frames
from tokenmill.reading.shard_cache import ShardCache, tokens_of
from tokenmill.reading.shard_reader import (
    MAX_OPEN,
    Descriptor,
    RecentlyUsed,
    ShardReader,
    most_open,
)
from tokenmill.reading.span_reader import IdLimit, RunReader, SpanReader
from tokenmill.reading.token_file import FRAMED, TokenFile

log = logging.getLogger("tokenmill")

BLOCK_BYTES = FRAME_BYTES
BLOCKS_IN_MEMORY = 64
MOST_IN_MEMORY = 1024  # blocks, 1 GiB


class BlockReader(ShardReader):
    """The tokens of files on a disk, of which some or all are compressed."""

    def __init__(
        self,
        files: Sequence[TokenFile],
        cache: ShardCache,
        *,
        backend: str = "mmap",
        verify: bool | None = None,
    ) -> None:
        # A file that was evicted uses the disk while it is open, so what is open is bounded too.
        largest = max((file.file_bytes for file in files), default=0) or 1
        max_open = max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest)))
        super().__init__(files, backend=backend, max_open=max_open, verify=verify)
        self.cache = cache
        self._tables = RecentlyUsed(self._open_frames, MAX_OPEN)
        self._recent = RecentlyUsed(self._load, BLOCKS_IN_MEMORY // 4)

    def _maker(self) -> Callable[[Sequence[TokenFile]], ShardReader]:
        return partial(type(self), cache=self.cache, backend=self.backend, verify=self.verify)

    def has_blocks(self, i: int) -> bool:
        """Return True if a part of file i can be had, and checked, without the rest."""
        packed = self.files[i].packed
        return packed is not None and packed.codec == FRAMED

    def block(self, i: int, number: int, *, in_cache: bool) -> np.ndarray:
        """Return the tokens of a block of file i; it begins at byte `number` * 1 MiB."""
        file = self.files[i]
        size = min(BLOCK_BYTES, file.file_bytes - number * BLOCK_BYTES)
        fetch = partial(self._fetch, i, number)
        if in_cache and size <= self.cache.max_bytes:
            name = f"{tokens_of(file).name}-{number}"
            data = self.cache.block(name, size, file.path, fetch)
        else:
            data = np.frombuffer(fetch(), np.uint8)
        return data[: size - size % file.dtype.itemsize].view(file.dtype)

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        dtype = self.files[0].dtype
        if any(file.packed and file.packed.codec != FRAMED for file in self.files):
            return super().span_reader(edges, locality, ids)
        num_bytes = int(edges[-1]) * dtype.itemsize
        # A block of the order may begin and end inside one of ours.
        per_block = num_frames(locality.block_tokens * dtype.itemsize) + 1
        count = min(locality.num_blocks * per_block, num_bytes // BLOCK_BYTES) + BLOCKS_IN_MEMORY
        if locality.num_blocks and count <= MOST_IN_MEMORY:
            blocks = BlockRuns(self, edges, 0)
            return RunReader(blocks.edges, dtype, blocks.array, count, ids)
        if num_bytes > self.cache.max_bytes:
            log.warning(
                "%s and its neighbours have %d bytes when unpacked, but the cache holds %d: in "
                "this order they are unpacked again and again. Pass cache_bytes=%d, use "
                'order="blocks", or unpack them once: tokenmill convert SRC DST --decompress',
                self.files[0].path,
                num_bytes,
                self.cache.max_bytes,
                num_bytes,
            )
        blocks = BlockRuns(self, edges, self._bytes_that_fit(num_bytes))
        return RunReader(blocks.edges, dtype, blocks.array, blocks.max_open, ids)

    def _bytes_that_fit(self, num_bytes: int) -> int:
        """Return how many of these bytes the cache holds: all, or the first ones.

        An eighth is left for indexes, and for what other processes write meanwhile.
        """
        most = self.cache.max_bytes
        return num_bytes if num_bytes * 1.001 <= most else most * 7 // 8

    def _read(self, i: int, offset: int, count: int) -> np.ndarray:
        if not self.has_blocks(i):
            return super()._read(i, offset, count)
        file = self.files[i]
        in_block = BLOCK_BYTES // file.dtype.itemsize
        first = file.offset // file.dtype.itemsize + file.first + offset
        numbers = range(first // in_block, (first + count - 1) // in_block + 1)
        start = first - numbers[0] * in_block
        blocks = list(self._load_all(i, numbers))
        tokens = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return tokens[start : start + count]

    def _load_all(self, i: int, numbers: Sequence[int]) -> Iterator[np.ndarray]:
        return (self._recent[i, number] for number in numbers)

    def _load(self, key: tuple[int, int]) -> np.ndarray:
        return self.block(*key, in_cache=False)

    def _fetch(self, i: int, number: int) -> bytes:
        return self._tables[i][number]

    def _open_frames(self, i: int) -> Frames:
        super()._open(i)  # compares size and, if asked to, hash
        file = self.files[i]
        assert file.packed is not None
        return open_frames(file.path, file.file_bytes, file.packed.num_bytes)

    def _open(self, i: int) -> Descriptor:
        file = self.files[i]
        if file.packed is None:
            return super()._open(i)
        return Descriptor(self.cache.open(tokens_of(file)))


class BlockRuns:
    """The blocks of files as runs of tokens of one axis, loaded when they are asked for."""

    def __init__(self, reader: BlockReader, shard_starts: np.ndarray, cached_bytes: int) -> None:
        """The first `cached_bytes` of the dataset are kept in the cache folder."""
        self._reader = reader
        self._shard_starts = shard_starts
        item_size = reader.files[0].dtype.itemsize
        self._in_block = BLOCK_BYTES // item_size  # tokens
        # (files,): tokens before our part of each file, from the start of the file.
        self._firsts = np.array([f.offset // item_size + f.first for f in reader.files])
        counts = np.diff(shard_starts)
        low = self._firsts // self._in_block
        high = (self._firsts + counts - 1) // self._in_block
        # (runs,): the file of each run, and the number of its block there.
        num_blocks = np.where(counts > 0, high - low + 1, 0)
        self._files = np.arange(len(counts)).repeat(num_blocks)
        self._numbers = runs(low, num_blocks)
        firsts = self._firsts[self._files]
        begins = np.maximum(self._numbers * self._in_block, firsts)
        starts = begins - firsts + shard_starts[self._files]
        self.edges: np.ndarray = np.append(starts, shard_starts[-1])
        """Where each run begins on the axis, and where the last one ends."""
        num_cached = int(np.searchsorted(self.edges, cached_bytes // item_size, side="right")) - 1
        self.cached_tokens = int(self.edges[num_cached])
        """Runs that begin before this token are kept in the cache folder."""
        self.all_cached = num_cached == len(starts)

    @property
    def max_open(self) -> int:
        """Runs to hold: what is evicted uses the disk as long as it is open."""
        in_half = self._reader.cache.max_bytes // (2 * BLOCK_BYTES)
        most = min(most_open(), in_half) if self.all_cached else 0
        return max(most, BLOCKS_IN_MEMORY)

    def array(self, k: int) -> np.ndarray:
        """Return the tokens of run k."""
        i = int(self._files[k])
        start, stop = (self.edges[k : k + 2] - self._shard_starts[i]).tolist()
        if not self._reader.has_blocks(i):
            return self._reader.array(i)[start:stop]
        number = int(self._numbers[k])
        in_cache = bool(self.edges[k] < self.cached_tokens)
        tokens = self._reader.block(i, number, in_cache=in_cache)
        first = number * self._in_block - int(self._firsts[i])  # of the block, in our part
        return tokens[start - first : stop - first]
