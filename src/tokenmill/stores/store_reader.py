"""The tokens of files in a store: by range where little is needed at once, else through the cache.

Whoever knows what comes next says so (`expect`), again and again. Files that are worth it
(file_choice.py) are brought into the cache whole, in the background, and mapped like files on a
disk. Rows of files that are not here yet, and of those that do not come whole, are fetched by
range in the order of their need: in blocks of 1 MiB, which are compared with their hashes, as long
as most of a block is of use; else the bytes of the row alone. No hash is known for these, so that
is done only where TLS protects them and the caller allowed it (`verify=False`).
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tokenmill.errors import DownloadError
from tokenmill.order.order import Locality, Spread
from tokenmill.reading.cached_file import CachedFile, tokens_of
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.shard_reader import MAX_OPEN, Descriptor, ShardReader
from tokenmill.reading.span_reader import IdLimit, SpanReader
from tokenmill.reading.token_file import TokenFile, TokenFiles
from tokenmill.stores.file_choice import FileChoice
from tokenmill.stores.pieces_ahead import Piece, PiecesAhead
from tokenmill.stores.stored_blocks import BLOCK_BYTES, StoredBlocks

AHEAD = 2
"""Files that are fetched ahead of the one that is opened, when nobody says which come next."""
UNANNOUNCED = 8
"""Ranges of a file that are read without an announcement before it is fetched whole."""
ROWS_LOOKED_AT = 8192
"""Rows of an announcement for which ranges are planned."""
EARLY_BLOCKS = 32
"""Blocks that are fetched before the file that they are a part of."""


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
        largest = int(files.numbers("file_bytes").max(initial=0)) or 1
        max_open = max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest)))
        super().__init__(files, backend=backend, max_open=max_open, verify=verify)
        self.cache = cache
        self._choice = FileChoice(files, cache.max_bytes)
        self._pieces_ahead = PiecesAhead(files)
        self._known: dict[int, CachedFile] = {}
        self._unannounced: Counter[int] = Counter()
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

    def expect(
        self, shards: np.ndarray, rows: np.ndarray | None, spread: Spread = Spread.SOME
    ) -> bool:
        """Begin to fetch what comes next: these files, in this order. Whether all are here.

        `rows` are the file, first token and number of tokens of each stretch that is needed; None
        where files are needed as wholes.
        """
        self._knows_what_comes = True
        soon = shards[:ROWS_LOOKED_AT] if spread is Spread.EVERYWHERE else shards
        needed = list(dict.fromkeys(soon.tolist()))
        self._pieces_ahead.forget_files()  # before we look
        names = self.cache.names()
        here = {i for i in needed if self._wanted(i).digest in names or self._is_unhashed_here(i)}
        self._here = set(here)  # files may have been evicted
        self.cache.keep([self._wanted(i) for i in needed if i in here])
        whole = needed if rows is None else self._choice.whole(needed, here, rows, spread)
        whole = [i for i in whole if i not in here]
        self._comes_whole = set(whole)
        if rows is not None:
            missing = np.isin(rows[:ROWS_LOOKED_AT, 0], list(here), invert=True)
            self._pieces_ahead.expect(self._pieces_of(rows[:ROWS_LOOKED_AT][missing]))
        self._fetch_ahead(whole)
        return len(here) == len(needed) and self.are_here(set(shards.tolist()))

    def _pieces_of(self, rows: np.ndarray) -> Iterator[Piece]:
        """What to fetch by range for these rows, in their order."""
        ahead, early = self._pieces_ahead, set[Piece]()
        places = [(i, *self._bytes(i, offset, count)) for i, offset, count in rows.tolist()]
        used: Counter[Piece] = Counter()
        for i, start, stop in places:
            used[ahead.block(i, start)] += stop - start
        for i, start, stop in places:
            if not self._has_blocks(i):
                continue
            blocks = ahead.blocks(i, start, stop)
            if i in self._comes_whole:
                is_block = early.issuperset(blocks) or ahead.num_blocks + len(early) < EARLY_BLOCKS
                early.update(blocks if is_block else ())
            else:
                is_block = 2 * used[blocks[0]] > BLOCK_BYTES or not self._is_protected(i)
            if is_block:
                yield from blocks
            elif self._is_protected(i):
                yield Piece(i, start, stop, False)

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens of file i, from `offset` on, until the 1-D array `out` is full."""
        file = self.files[i]
        is_inside = offset >= 0 and offset + len(out) <= file.num_tokens
        if not len(out) or not is_inside or self._is_here(i) or not self._has_blocks(i):
            super().read_into(i, offset, out)
            return
        start, stop = self._bytes(i, offset, len(out))
        if not self._pieces_ahead.is_announced(i, start, stop) and self._wants_whole(
            i, stop - start
        ):
            super().read_into(i, offset, out)
            return
        if (data := self._pieces_ahead.read(i, start, stop)) is None:
            super().read_into(i, offset, out)  # the hash of the whole file decides
            return
        np.copyto(out, np.frombuffer(data, file.dtype), casting="same_kind")

    def _wants_whole(self, i: int, num_bytes: int) -> bool:
        """Whether a read that was not announced is better served by the whole file."""
        if self._knows_what_comes:
            return i in self._comes_whole
        self._unannounced[i] += 1
        return self._unannounced[i] > UNANNOUNCED or 2 * num_bytes > self.files[i].file_bytes

    def _bytes(self, i: int, offset: int, count: int) -> tuple[int, int]:
        """Where these tokens are in the file."""
        file = self.files[i]
        start = file.offset + (file.first + offset) * file.dtype.itemsize
        return start, start + count * file.dtype.itemsize

    def _has_blocks(self, i: int) -> bool:
        """Whether a part of it can be read by itself, and is much less than all of it."""
        file = self.files[i]
        is_large = file.file_bytes > 2 * BLOCK_BYTES
        return is_large and file.pieces is None and StoredBlocks.are_in(self._wanted(i))

    def _is_protected(self, i: int) -> bool:
        """Whether the bytes of a row may be taken as they come, without a hash."""
        return self._rows_are_protected and self.files[i].packed is None

    @functools.cached_property
    def _rows_are_protected(self) -> bool:
        from tokenmill.stores.objects import is_encrypted

        return self.verify is False and is_encrypted(self.files[0].path)

    def _is_here(self, i: int) -> bool:
        if i in self._here or self.cache.has(self._wanted(i)):
            self._here.add(i)  # one that is evicted before the next announcement is fetched again
            return True
        return False

    def _is_unhashed_here(self, i: int) -> bool:
        wanted = self._wanted(i)
        return not wanted.digest and self.cache.has(wanted)

    def _wanted(self, i: int) -> CachedFile:
        found = self._known.get(i)
        if found is None:
            found = self._known[i] = tokens_of(self.files[i])
        return found

    def _fetch_ahead(self, shards: Sequence[int]) -> None:
        """Fetch as many of these as there is room for."""
        room, wanted = self.cache.max_bytes, []
        for i in shards:
            room -= self.files[i].file_bytes
            if room < 0:
                break
            wanted.append((self._wanted(i), functools.partial(self._pieces_ahead.lend, i)))
        self.cache.fetch_ahead(wanted)

    def _open(self, i: int) -> Descriptor:
        found = self.cache.open(self._wanted(i), functools.partial(self._pieces_ahead.lend, i))
        if not self._knows_what_comes:
            self._fetch_ahead(range(i + 1, min(i + 1 + AHEAD, len(self.files))))
        return Descriptor(found)


class RangeReader(ShardReader):
    """A reader that asks the store for exactly the bytes it is asked for, and keeps nothing."""

    def _pread(self, i: int, byte: int, out: np.ndarray) -> None:
        from tokenmill.stores import objects

        file = self.files[i]
        known = objects.stat(file.path)
        if (known.size, known.etag) != (file.disk_bytes, file.etag or known.etag):
            raise DownloadError(
                f"{file.path} was replaced since the dataset was opened", hint="open it again"
            )
        data = objects.read(file.path, byte, byte + out.nbytes, known)
        memoryview(out.data).cast("B")[:] = data
