"""The tokens of files in a store: by range where little is needed at once, else through the cache.

Whoever knows what comes next says so (`expect`). Then the first rows come in blocks of 1 MiB, at
once and in the order of their need, while whole files are brought into the cache in the background:
all of them, where the cache holds the dataset, else those of which more than half was announced.
What is in the cache is mapped, as on a disk. A file of which more than a few ranges were read
without an announcement is fetched whole.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from tokenmill.tokenfiles.range_ahead import BLOCK_BYTES, Block, RangeAhead
from tokenmill.tokenfiles.shard_cache import CachedReader, ShardCache
from tokenmill.tokenfiles.token_file import TokenFile

UNANNOUNCED = 8
"""Ranges of a file that are read without an announcement before it is fetched whole."""
AT_LEAST, BEFORE_ITS_FILE = 16, 64
"""Rows that are asked for by range although their files will be fetched whole."""
EXTRA = 16
"""Their blocks are fetched twice: between these bounds, one in so many bytes of the dataset."""


class StoreReader(CachedReader):
    """A reader of files in a store."""

    def __init__(
        self, files: Sequence[TokenFile], cache: ShardCache, *, backend: str = "mmap"
    ) -> None:
        super().__init__(files, cache, backend=backend)
        self._ranges = RangeAhead(self.files)
        self._unannounced: Counter[int] = Counter()
        self._here: set[int] = set()
        self._comes_whole: set[int] = set()
        total = int(self.files.numbers("file_bytes").sum())
        self._all_fit = total <= cache.max_bytes
        self._early = min(BEFORE_ITS_FILE, max(AT_LEAST, total // (EXTRA * BLOCK_BYTES)))

    def __reduce__(self) -> tuple[object, ...]:
        return partial(StoreReader, self.files, self.cache, backend=self.backend), ()

    def of(self, files: Sequence[TokenFile]) -> "StoreReader":
        return StoreReader(files, self.cache, backend=self.backend)

    def are_here(self, shards: set[int]) -> bool:
        return shards <= self._here or all(self._is_here(i) for i in shards)

    def expect(self, shards: Sequence[int], rows: np.ndarray | None = None) -> None:
        """Begin to fetch what comes next: these files, in this order.

        `rows` are the file, first token and number of tokens of each stretch that is needed.
        """
        if rows is None or not len(rows):
            super().expect(shards)
            return
        missing = {i for i in shards if not self._is_here(i)}
        whole = self._comes_whole = self._to_fetch_whole(missing, rows)
        rows = rows[np.isin(rows[:, 0], list(missing))]
        comes_whole = np.isin(rows[:, 0], list(whole))
        early = comes_whole & (comes_whole.cumsum() <= self._early)
        self._early -= int(early.sum())
        wanted = rows[early | ~comes_whole].tolist()
        blocks = (block for row in wanted if self._is_plain(row[0]) for block in self._blocks(*row))
        self._ranges.expect(blocks)
        super().expect([i for i in shards if i in whole])

    def _to_fetch_whole(self, missing: set[int], rows: np.ndarray) -> set[int]:
        """The files that are worth it."""
        if self._all_fit:
            return missing
        needed = np.bincount(rows[:, 0], weights=rows[:, 2], minlength=len(self.files))
        found = {
            i
            for i in missing
            if not self._is_plain(i)
            or 2 * needed[i] * self.files[i].dtype.itemsize > self.files[i].file_bytes
        }
        # An order that stays in one place continues in the last file.
        return found | ({int(rows[-1, 0])} & missing if found else set())

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        """Copy tokens of file i, from `offset` on, until the 1-D array `out` is full."""
        file = self.files[i]
        is_inside = offset >= 0 and offset + len(out) <= file.num_tokens
        if not len(out) or not is_inside or self._is_here(i) or not self._is_plain(i):
            super().read_into(i, offset, out)
            return
        start, stop = self._bytes(i, offset, len(out))
        if not self._ranges.is_announced(i, start):
            self._unannounced[i] += 1
            is_much = self._unannounced[i] > UNANNOUNCED or 2 * (stop - start) > file.file_bytes
            if is_much or i in self._comes_whole:
                super().read_into(i, offset, out)
                return
        if (data := self._ranges.read(i, start, stop)) is None:
            super().read_into(i, offset, out)  # the hash of the whole file decides
            return
        np.copyto(out, np.frombuffer(data, file.dtype), casting="same_kind")

    def _bytes(self, i: int, offset: int, count: int) -> tuple[int, int]:
        """Where these tokens are in the file."""
        file = self.files[i]
        start = file.offset + (file.first + offset) * file.dtype.itemsize
        return start, start + count * file.dtype.itemsize

    def _blocks(self, i: int, offset: int, count: int) -> list[Block]:
        start, stop = self._bytes(i, offset, count)
        numbers = range(start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES + 1)
        return [Block(i, number) for number in numbers]

    def _is_plain(self, i: int) -> bool:
        """Whether a part of it can be read by itself, and is much less than all of it."""
        file = self.files[i]
        return file.pieces is None and file.packed is None and file.file_bytes > 2 * BLOCK_BYTES

    def _is_here(self, i: int) -> bool:
        if i in self._here or self.cache.has(self._wanted(i)):
            self._here.add(i)  # a file that is evicted later is fetched again, whole
            return True
        return False
