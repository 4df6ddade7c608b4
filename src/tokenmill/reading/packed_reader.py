"""Compressed shards: unpacked whole into the cache for random reading, or frame by frame in place.

`array` is what shuffled reading asks for: the shard is unpacked once into the cache folder, shared
by all processes, and mapped from there like a plain one. `read_into` unpacks the frames that hold
the tokens and keeps a few: for slices, documents, samples. `span_reader` gives a loader whose order
stays in one place (`sequential`, `blocks`) the frames as runs of tokens, so that it needs no cache
folder; its memory is the frames that it keeps. Orders that may ask for any window next, or that
would need more than `MOST_FRAMES`, are served from the cache folder.

Files that are not compressed, in a dataset that was added to, are mapped where they are.
"""

import logging
from collections.abc import Sequence
from functools import partial

import numpy as np

from tokenmill.order.order import Locality
from tokenmill.reading.cached_file import tokens_of
from tokenmill.reading.frames import FRAME_BYTES, Frames, num_frames, open_frames
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.shard_reader import MAX_OPEN, Descriptor, RecentlyUsed, ShardReader
from tokenmill.reading.span_reader import IdLimit, RunReader, SpanReader
from tokenmill.reading.token_file import FRAMED, TokenFile, TokenFiles

log = logging.getLogger("tokenmill")

FRAMES_KEPT = 16
FRAMES_IN_ORDER = 64
MOST_FRAMES = 1024  # 1 GiB


class PackedReader(ShardReader):
    """The tokens of files on a disk, of which some or all are compressed."""

    def __init__(
        self,
        files: Sequence[TokenFile],
        cache: ShardCache,
        *,
        verify: bool | None = None,
    ) -> None:
        files = TokenFiles.of(files)
        largest = int(files.numbers("file_bytes").max(initial=0)) or 1
        max_open = max(1, min(MAX_OPEN, cache.max_bytes // (2 * largest)))
        # What is in the cache is ours and not rewritten: it is mapped, whatever is asked for.
        super().__init__(files, backend="mmap", max_open=max_open, verify=verify)
        self.cache = cache
        self._open_frames = RecentlyUsed(self._open_packed, MAX_OPEN)
        self._kept = RecentlyUsed(self._unpack, FRAMES_KEPT)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(PackedReader, self.files, self.cache, verify=self.verify), ()

    def of(self, files: Sequence[TokenFile]) -> "PackedReader":
        return PackedReader(files, self.cache, verify=self.verify)

    def sampler(self) -> "PackedReader":
        return self

    @property
    def unpacked_bytes(self) -> int:
        """What all compressed files take in the cache."""
        return int(self.files.numbers("unpacked_bytes").sum())

    @property
    def has_frames(self) -> bool:
        """Whether every compressed file can be read frame by frame."""
        files = self.files.kinds()
        return all(file.packed is None or file.packed.codec == FRAMED for file in files)

    def span_reader(self, edges: np.ndarray, locality: Locality, ids: IdLimit) -> SpanReader:
        dtype = self.files[0].dtype
        count = _frames_in_use(locality, int(edges[-1]) * dtype.itemsize, dtype.itemsize)
        if count is not None and self.has_frames:
            runs = FrameRuns(self, edges)
            return RunReader(runs.edges, dtype, runs.array, count, ids)
        if count is None and self.unpacked_bytes > self.cache.max_bytes:
            log.warning(
                "%s and its neighbours have %d bytes when unpacked, but the cache holds %d: in "
                "this order shards are unpacked again and again. Pass cache_bytes=%d, use "
                'order="blocks", or unpack them once: tokenmill convert SRC DST --decompress',
                self.files[0].path,
                self.unpacked_bytes,
                self.cache.max_bytes,
                self.unpacked_bytes,
            )
        return super().span_reader(edges, locality, ids)

    def frame(self, i: int, number: int) -> np.ndarray:
        """The tokens of a frame of file i, counted from the start of the file."""
        file = self.files[i]
        if file.packed is None:
            first = number * FRAME_BYTES // file.dtype.itemsize
            # Relative to our part of the file, which is what is mapped.
            low, high = first - file.first, first - file.first + FRAME_BYTES // file.dtype.itemsize
            return self._maps[i][max(0, low) : high]
        return np.frombuffer(self._open_frames[i][number], file.dtype)

    def read_into(self, i: int, offset: int, out: np.ndarray) -> None:
        file = self.files[i]
        is_inside = offset >= 0 and offset + len(out) <= file.num_tokens
        if file.packed is None or file.packed.codec != FRAMED or not is_inside:
            super().read_into(i, offset, out)
            return
        in_frame = FRAME_BYTES // file.dtype.itemsize
        done = 0
        while done < len(out):
            number, inside = divmod(file.first + offset + done, in_frame)
            taken = self._kept[i, number][inside : inside + len(out) - done]
            np.copyto(out[done : done + len(taken)], taken, casting="same_kind")
            done += len(taken)

    def _unpack(self, place: tuple[int, int]) -> np.ndarray:
        return self.frame(*place)

    def _open_packed(self, i: int) -> Frames:
        super()._open(i)  # compares size and, if asked to, hash
        file = self.files[i]
        assert file.packed is not None
        return open_frames(file.path, file.file_bytes, file.packed.num_bytes)

    def _open(self, i: int) -> Descriptor:
        file = self.files[i]
        if file.packed is None:
            return super()._open(i)
        return Descriptor(self.cache.open(tokens_of(file)))


def _frames_in_use(locality: Locality, num_bytes: int, item_size: int) -> int | None:
    """Frames that an order needs at a time, of 1 MiB each; None where they are too many."""
    if not locality.num_blocks:
        return None
    # A block may begin and end inside a frame.
    frames_per_block = num_frames(locality.block_tokens * item_size) + 1
    needed = min(locality.num_blocks * frames_per_block, num_bytes // FRAME_BYTES)
    return needed + FRAMES_IN_ORDER if needed + FRAMES_IN_ORDER <= MOST_FRAMES else None


class FrameRuns:
    """The frames of files as runs of tokens of one axis, unpacked when they are asked for."""

    def __init__(self, reader: PackedReader, shard_starts: np.ndarray) -> None:
        self._reader = reader
        firsts = reader.files.numbers("first")
        counts = np.diff(shard_starts)
        in_frame = FRAME_BYTES // reader.files[0].dtype.itemsize
        low = firsts // in_frame
        runs = np.where(counts > 0, (firsts + counts - 1) // in_frame - low + 1, 0)
        self._files = np.arange(len(runs)).repeat(runs)
        self._numbers = np.arange(len(self._files)) + (low - (runs.cumsum() - runs))[self._files]
        # Where each run begins in its file, then on the axis.
        begins = np.maximum(self._numbers * in_frame, firsts[self._files])
        starts = begins - firsts[self._files] + shard_starts[self._files]
        self.edges: np.ndarray = np.append(starts, shard_starts[-1])
        """Where each run begins on the axis, and where the last one ends."""

    def array(self, k: int) -> np.ndarray:
        """The tokens of run k."""
        i, number = int(self._files[k]), int(self._numbers[k])
        file, tokens = self._reader.files[i], self._reader.frame(i, number)
        if file.packed is None or not file.partial:
            return tokens
        first = number * FRAME_BYTES // file.dtype.itemsize
        low, high = file.first - first, file.first + file.num_tokens - first
        return tokens[max(0, low) : high]
