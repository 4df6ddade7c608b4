"""Compressed shards: unpacked whole into the cache for random reading, or frame by frame in place.

`array` is what shuffled reading asks for: the shard is unpacked once into the cache folder, shared
by all processes, and mapped from there like a plain one. `read_into` unpacks the frames that hold
the tokens and keeps a few: for slices, documents, samples. `FrameRuns` gives a loader whose order
stays in one place (`sequential`, `blocks`) the frames as runs of tokens, so that it needs no cache
folder at all; its memory is the frames that it keeps.

Files that are not compressed, in a dataset that was added to, are mapped where they are.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from tokenmill.reading.cached_file import tokens_of
from tokenmill.reading.frames import FRAME_BYTES, Frames, open_frames
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.shard_reader import MAX_OPEN, Descriptor, RecentlyUsed, ShardReader
from tokenmill.reading.token_file import FRAMED, TokenFile, TokenFiles

FRAMES_KEPT = 16


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


class FrameRuns:
    """The frames of a dataset as runs of tokens of one axis, unpacked when they are asked for.

    Has what a gather needs of a dataset: where runs begin, and each of them as an array.
    """

    backend = "mmap"

    def __init__(self, reader: PackedReader, shard_starts: np.ndarray, max_open: int) -> None:
        self._reader, self.max_open = reader, max_open
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
        self.shard_starts: np.ndarray = np.append(starts, shard_starts[-1])

    def array(self, k: int) -> np.ndarray:
        """The tokens of run k."""
        i, number = int(self._files[k]), int(self._numbers[k])
        file, tokens = self._reader.files[i], self._reader.frame(i, number)
        if file.packed is None or not file.partial:
            return tokens
        first = number * FRAME_BYTES // file.dtype.itemsize
        low, high = file.first - first, file.first + file.num_tokens - first
        return tokens[max(0, low) : high]
