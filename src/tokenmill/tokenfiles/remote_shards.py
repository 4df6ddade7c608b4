"""Shards in a bucket read like files: each is in the cache before it is touched."""

from collections.abc import Sequence

from tokenmill.tokenfiles.shard_cache import ShardCache
from tokenmill.tokenfiles.token_file import MAX_OPEN, ShardReader, TokenFile, _Descriptor

AHEAD = 2
"""Shards that are fetched ahead of the one that is opened, when nobody says which come next."""


class CachedReader(ShardReader):
    """A reader of files whose paths are addresses and whose digests begin with their hashes."""

    def __init__(
        self, files: Sequence[TokenFile], cache: ShardCache, *, backend: str = "mmap"
    ) -> None:
        # A file that was evicted lasts while it is open, so what is open is bounded as well.
        largest = max((file.file_bytes for file in files), default=1) or 1
        super().__init__(
            files,
            backend=backend,
            max_open=max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest))),
        )
        self.cache = cache
        self._told = False

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.files, self.cache, self.backend)

    def of(self, files: Sequence[TokenFile]) -> "CachedReader":
        """A reader of other files, through the same cache."""
        return CachedReader(files, self.cache, backend=self.backend)

    def expect(self, shards: Sequence[int]) -> None:
        """These will be touched soon, in this order: fetch as many as there is room for."""
        self._told = True
        self._fetch_ahead(shards)

    def _fetch_ahead(self, shards: Sequence[int]) -> None:
        room, wanted = self.cache.max_bytes // 2, []
        for i in shards:
            room -= self.files[i].file_bytes
            if room < 0:
                break
            wanted.append(self._of(i))
        self.cache.fetch_ahead(wanted)

    def _open(self, i: int) -> _Descriptor:
        descriptor = _Descriptor(self.cache.open(*self._of(i)))
        if not self._told:
            self._fetch_ahead(range(i + 1, min(i + 1 + AHEAD, len(self.files))))
        return descriptor

    def _of(self, i: int) -> tuple[str, int, str]:
        file = self.files[i]
        return file.path, file.file_bytes, file.digest[:32]


def _again(files: Sequence[TokenFile], cache: ShardCache, backend: str) -> CachedReader:
    return CachedReader(files, cache, backend=backend)
