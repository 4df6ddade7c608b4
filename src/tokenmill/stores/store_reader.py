"""The tokens of files in a store: in blocks where little is needed, else through the cache.

The reader is told which rows come next (`expect`, by store_spans.py), again and again. Files that
are worth it are brought into the cache whole, in the background, and mapped like files on a disk:

  NEIGHBOURS, SOME   an order that reads all of a file soon: the files that are needed next, as many
                     as fit into the cache
  EVERYWHERE         an order that may read any row next: always the first files of the dataset, as
                     many as fit, so that processes that share a cache agree and nothing is evicted

Other rows come in blocks of 1 MiB, which are compared with their hashes. Where the caller allowed
it (`verify=False`), TLS protects them and any row may be next, the bytes of a row come alone.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np

from tokenmill.errors import DownloadError
from tokenmill.order.order import Locality, Spread
from tokenmill.reading.cached_file import tokens_of
from tokenmill.reading.shard_cache import Content, ShardCache
from tokenmill.reading.shard_reader import MAX_OPEN, Descriptor, ShardReader
from tokenmill.reading.span_reader import IdLimit, SpanReader
from tokenmill.reading.token_file import TokenFile, TokenFiles
from tokenmill.stores import objects, store_client
from tokenmill.stores.pieces_in_memory import Piece, PiecesInMemory
from tokenmill.stores.stored_blocks import BLOCK_BYTES, Block, StoredBlocks

AHEAD = 2
"""Files that are fetched ahead of the one that is opened, if nobody says which come next."""
UNANNOUNCED = 8
"""Reads of a file that nobody announced before it is fetched whole."""
ROWS_LOOKED_AT = 8192
"""Rows of an announcement for which pieces are planned."""
EARLY_BLOCKS = 32
"""Blocks that are fetched before the whole files that they are in."""


class StoreReader(ShardReader):
    """A reader of files in a store: their paths are addresses."""

    def __init__(
        self,
        files: Sequence[TokenFile],
        cache: ShardCache,
        *,
        backend: str = "mmap",
        verify: bool | None = None,
    ) -> None:
        # A file that was evicted uses the disk while it is open, so what is open is bounded too.
        files = TokenFiles.of(files)
        self._sizes = files.numbers("file_bytes")
        largest = int(self._sizes.max(initial=1))
        max_open = max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest)))
        super().__init__(files, backend=backend, max_open=max_open, verify=verify)
        self.cache = cache
        # An eighth is left for indexes, and for what other processes fetch at the same moment.
        all_fit = int(self._sizes.sum()) <= cache.max_bytes
        self._room = cache.max_bytes if all_fit else cache.max_bytes * 7 // 8
        self._first_that_fit = int(np.searchsorted(self._sizes.cumsum(), self._room, side="right"))
        self._memory = PiecesInMemory(self._begin, self._is_here)
        self._stored_in = functools.cache(lambda process, i: StoredBlocks(self.files[i]))
        self._wanted = functools.cache(lambda i: tokens_of(self.files[i]))
        self._reads: Counter[int] = Counter()
        self._here: set[int] = set()
        self._comes_whole: set[int] = set()
        self._knows_what_comes = False

    def __reduce__(self) -> tuple[object, ...]:
        again = functools.partial(StoreReader, backend=self.backend, verify=self.verify)
        return again, (self.files, self.cache)

    def of(self, files: Sequence[TokenFile]) -> "StoreReader":
        return StoreReader(files, self.cache, backend=self.backend, verify=self.verify)

    def sampler(self) -> ShardReader:
        if any(file.packed for file in self.files.kinds()):
            return self
        return RangeReader(self.files, backend="pread", max_open=1)

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        from tokenmill.stores.store_spans import StoreSpans

        return StoreSpans(self, edges, locality.spread, ids)

    def are_here(self, shards: set[int]) -> bool:
        return shards <= self._here or all(self._is_here(i) for i in shards)

    def expect(self, rows: np.ndarray, spread: Spread = Spread.SOME) -> bool:
        """Fetch what comes next, in this order. Return True if all the files are here.

        `rows`, (n, 3), are file, first token and number of tokens of each stretch that is needed.
        """
        shards = rows[:, 0]
        self._knows_what_comes = True
        is_anywhere = spread is Spread.EVERYWHERE
        needed = list(dict.fromkeys(shards[: ROWS_LOOKED_AT if is_anywhere else None].tolist()))
        names = self.cache.names()
        self._here = {i for i in needed if self._is_in_cache(i, names)}  # some may be evicted
        self.cache.keep([self._wanted(i) for i in needed if i in self._here])
        missing = [i for i in needed if i not in self._here]
        if is_anywhere:
            whole = [i for i in missing if i < self._first_that_fit]
        else:
            used = int(self._sizes[list(self._here)].sum())
            whole = self._that_fit(missing, self._room - used)
        self._comes_whole = set(whole)
        self._memory.expect(self._pieces_of(rows[:ROWS_LOOKED_AT], is_anywhere))
        self._fetch_ahead(whole)
        return not missing and self.are_here(set(shards.tolist()))

    def _that_fit(self, files: list[int], room: int) -> list[int]:
        """The first of these files, as many as there is room for."""
        return files[: int(np.searchsorted(self._sizes[files].cumsum(), room, side="right"))]

    def _pieces_of(self, rows: np.ndarray, is_anywhere: bool) -> Iterator[Piece]:
        """What to fetch for these rows, in their order."""
        early: set[Piece] = set()
        for i, offset, count in rows.tolist():
            if i in self._here or not self._has_blocks(i):
                continue
            start, stop = self._bytes(i, offset, count)
            blocks = self._blocks(i, start, stop)
            if i in self._comes_whole:
                if len(early) < EARLY_BLOCKS:
                    early.update(blocks)
                    yield from blocks
            elif is_anywhere and self._rows_come_alone and self.files[i].packed is None:
                yield Piece(i, start, stop)
            else:
                yield from blocks

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens of file i, from `offset` on, until the 1-D array `out` is full."""
        file = self.files[i]
        is_inside = offset >= 0 and offset + len(out) <= file.num_tokens
        data = None
        if len(out) and is_inside and self._has_blocks(i) and not self._is_here(i):
            data = self._read_pieces(i, *self._bytes(i, offset, len(out)))
        if data is None:
            super().read_into(i, offset, out)  # from the whole file, whose hash decides
        else:
            np.copyto(out, np.frombuffer(data, file.dtype), casting="same_kind")

    def _read_pieces(self, i: int, start: int, stop: int) -> bytes | None:
        """Bytes of a file by range; None where it is better, or necessary, to have all of it."""
        row = Piece(i, start, stop)
        if row in self._memory:
            return self._memory.begin(row).result().data
        blocks = self._blocks(i, start, stop)
        if self._wants_whole(i, stop - start) and blocks[0] not in self._memory:
            return None
        found = [answer.result() for answer in map(self._memory.begin, blocks)]
        if not all(block.is_right for block in found):
            return None
        first = blocks[0].start
        return b"".join(block.data for block in found)[start - first : stop - first]

    def _wants_whole(self, i: int, num_bytes: int) -> bool:
        if self._knows_what_comes:
            return i in self._comes_whole
        self._reads[i] += 1
        return self._reads[i] > UNANNOUNCED or 2 * num_bytes > self.files[i].file_bytes

    def _blocks(self, i: int, start: int, stop: int) -> list[Piece]:
        """The blocks that hold the bytes start..stop."""
        size = self.files[i].file_bytes
        firsts = range(start - start % BLOCK_BYTES, stop, BLOCK_BYTES)
        return [Piece(i, first, min(first + BLOCK_BYTES, size)) for first in firsts]

    def _bytes(self, i: int, offset: int, count: int) -> tuple[int, int]:
        """Where these tokens are in the file."""
        file = self.files[i]
        start = file.offset + (file.first + offset) * file.dtype.itemsize
        return start, start + count * file.dtype.itemsize

    def _stored(self, i: int) -> StoredBlocks:
        return self._stored_in(os.getpid(), i)  # locks do not survive a fork

    def _begin(self, piece: Piece) -> "Future[Block]":
        stored = self._stored(piece.file)
        work: Callable[[], Block]
        if piece in self._blocks(piece.file, piece.start, piece.stop):
            work = functools.partial(stored.block, piece.start // BLOCK_BYTES)
        else:
            work = functools.partial(stored.row, piece.start, piece.stop)
        return store_client.begin(work, "read", self.files[piece.file].path)

    def _has_blocks(self, i: int) -> bool:
        """Return True if a part of the file can be read by itself, and is much less than all."""
        file = self.files[i]
        is_large = file.file_bytes > 2 * BLOCK_BYTES
        return is_large and file.pieces is None and StoredBlocks.are_in(self._wanted(i))

    @functools.cached_property
    def _rows_come_alone(self) -> bool:
        """True if the bytes of a row may be taken as they come, without a hash."""
        return self.verify is False and objects.is_encrypted(self.files[0].path)

    def _is_here(self, i: int) -> bool:
        if i in self._here or self.cache.has(self._wanted(i)):
            self._here.add(i)  # one that is evicted before the next announcement is fetched again
            return True
        return False

    def _is_in_cache(self, i: int, names: set[str]) -> bool:
        wanted = self._wanted(i)
        return wanted.digest in names if wanted.digest else self.cache.has(wanted)

    def _fetch_ahead(self, shards: Sequence[int]) -> None:
        self.cache.fetch_ahead((self._wanted(i), self._content(i)) for i in shards)

    def _content(self, i: int) -> Content | None:
        """All bytes of a file for the cache, by the blocks in memory where it has blocks."""
        if not self._has_blocks(i):
            return None
        begin = lambda number: self._memory.begin(self._block(i, number))  # noqa: E731
        return functools.partial(self._stored(i).content, begin)

    def _block(self, i: int, number: int) -> Piece:
        return self._blocks(i, number * BLOCK_BYTES, number * BLOCK_BYTES + 1)[0]

    def _open(self, i: int) -> Descriptor:
        descriptor = Descriptor(self.cache.open(self._wanted(i), self._content(i)))
        if not self._knows_what_comes:
            self._fetch_ahead(range(i + 1, min(i + 1 + AHEAD, len(self.files))))
        return descriptor


class RangeReader(ShardReader):
    """A reader that asks the store for exactly the bytes it is asked for, and keeps nothing."""

    def _pread(self, i: int, byte: int, out: np.ndarray) -> None:
        file = self.files[i]
        known = objects.stat(file.path)
        if (known.size, known.etag) != (file.disk_bytes, file.etag or known.etag):
            raise DownloadError(
                f"{file.path} was replaced since the dataset was opened", hint="open it again"
            )
        data = objects.read(file.path, byte, byte + out.nbytes, known)
        memoryview(out.data).cast("B")[:] = data
