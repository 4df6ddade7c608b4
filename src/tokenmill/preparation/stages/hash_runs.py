"""Files of sorted hashes: a slice of one is found with three small reads, whatever its size.

    N.runs    for each run: its entries sorted by hash, then where each cell begins in it;
              then the places that the unit itself repeats; then two numbers for each run, its
              length and how many bits of a hash number a cell; then the counts of both

    N.duplicates    sorted places; then, for the first of some units and so on, where theirs begin

A place is a number that grows in input order: the number of a unit, then the ordinal in it. All
numbers are 8 bytes.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np

from tokenmill.text.cleaning.dedup import HASH, Run

ENTRY = np.dtype([("hash", HASH), ("place", "<u8")])
WORD = np.dtype("<u8")
ORDINAL_BITS = 32
ENTRIES_PER_CELL = 512  # on average
WORDS_OF_TRAILER = 64  # read at once: enough for most files


class RunWriter:
    """Writes a file of runs; `finish` writes what belongs to its end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.lengths: list[int] = []
        self._file, self._bits = file, list[int]()

    def add(self, parts: Iterable[Run], most: int) -> None:
        """Write one run of at most so many entries; its parts are ranges of it, in order."""
        bits = (most // ENTRIES_PER_CELL).bit_length()
        in_cells = np.zeros(1 << bits, np.int64)
        for part in parts:
            high = part.hashes["high"]
            entries = np.empty((len(high), 3), WORD)  # as numbers: records are moved slowly
            entries[:, 0], entries[:, 1], entries[:, 2] = high, part.hashes["low"], part.places
            self._file.write(entries.data)
            cells = (high >> np.uint64(63 - bits) >> np.uint64(1)).astype(np.intp)
            in_cells += np.bincount(cells, minlength=len(in_cells))
        self._file.write(np.concatenate(([0], np.cumsum(in_cells))).astype(WORD).data)
        self.lengths.append(int(in_cells.sum()))
        self._bits.append(bits)

    def finish(self, repeated: np.ndarray) -> None:
        self._file.write(repeated.astype(WORD).data)
        runs = [number for run in zip(self.lengths, self._bits, strict=True) for number in run]
        self._file.write(np.array([*runs, len(repeated), len(self.lengths)], WORD).data)


class _RunPlace(NamedTuple):
    offset: int
    length: int
    bits: int

    @property
    def cells_offset(self) -> int:
        return self.offset + self.length * ENTRY.itemsize

    @property
    def stop(self) -> int:
        return self.cells_offset + ((1 << self.bits) + 1) * WORD.itemsize


class _WordFile:
    """A file that is read at a few places; to be used with `with`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        self._descriptor = os.open(self._path, os.O_RDONLY)
        self._num_words = os.fstat(self._descriptor).st_size // WORD.itemsize
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)

    def _trailer(self, words: int) -> list[int]:
        words = min(words, self._num_words)
        found: list[int] = self._read(WORD, (self._num_words - words) * 8, words).tolist()
        return found

    def _read(self, dtype: np.dtype[Any], offset: int, count: int) -> np.ndarray:
        data = bytearray(count * dtype.itemsize)
        done = 0
        while done < len(data):  # a read may be short, and one of 2 GB always is
            more = os.preadv(self._descriptor, [memoryview(data)[done:]], offset + done)
            if not more:
                raise EOFError(f"{self._path} ends at byte {offset + done:,}")
            done += more
        return np.frombuffer(data, dtype)


class RunFile(_WordFile):
    """Reads what a `RunWriter` wrote."""

    def __enter__(self) -> Self:
        super().__enter__()
        *_, num_repeated, num_runs = self._trailer(WORDS_OF_TRAILER)
        numbers = self._trailer(2 * num_runs + 2)[:-2]
        self.runs, offset = list[_RunPlace](), 0
        for length, bits in zip(numbers[::2], numbers[1::2], strict=True):
            self.runs.append(_RunPlace(offset, length, bits))
            offset = self.runs[-1].stop
        self._repeated_at, self._num_repeated = offset, num_repeated
        return self

    @property
    def num_entries(self) -> int:
        return sum(run.length for run in self.runs)

    def repeated(self) -> np.ndarray:
        """Places of what the unit itself had before, in order within each run."""
        return self._read(WORD, self._repeated_at, self._num_repeated)

    def between(self, low: int, high: int) -> list[np.ndarray]:
        """The entries of each run whose hashes begin with `low` up to `high`, without it.

        Each is three numbers: the two halves of the hash, and the place.
        """
        return [self._slice(run, low, high) for run in self.runs]

    def _slice(self, run: _RunPlace, low: int, high: int) -> np.ndarray:
        first, last = low >> (64 - run.bits), (high - 1) >> (64 - run.bits)
        cells = self._read(WORD, run.cells_offset + first * WORD.itemsize, last - first + 2)
        start, stop = int(cells[0]), int(cells[-1])
        offset = run.offset + start * ENTRY.itemsize
        entries = self._read(WORD, offset, 3 * (stop - start)).reshape(-1, 3)
        column = np.ascontiguousarray(entries[:, 0])
        begin = int(np.searchsorted(column, np.uint64(low)))
        return entries[begin : int(np.searchsorted(column, np.uint64(high - 1), "right"))]


def entries_between(paths: Iterable[Path], low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Hashes from `low` up to `high`, and their places, of the runs of all files in order."""
    found = [np.empty((0, 3), WORD)]
    for path in paths:
        with RunFile(path) as file:
            found += file.between(low, high)
    entries = np.concatenate(found)
    hashes = entries.take([0, 1], axis=1).view(HASH).reshape(-1)
    return hashes, np.ascontiguousarray(entries[:, 2])


def write_places(file: IO[bytes], places: Iterable[np.ndarray], firsts: range) -> None:
    """Write sorted places, given in parts, and where the units from each of `firsts` on begin."""
    bounds = np.array(firsts, WORD) << np.uint64(ORDINAL_BITS)
    before = np.zeros(len(bounds), np.int64)
    for part in places:
        file.write(part.data)
        before += np.searchsorted(part, bounds)
    file.write(before.astype(WORD).data)


class PlaceFile(_WordFile):
    """Reads what `write_places` wrote; `num_bounds` is how many `firsts` there were."""

    def __init__(self, path: Path, num_bounds: int) -> None:
        super().__init__(path)
        self._num_bounds = num_bounds

    def between(self, bound: int) -> np.ndarray:
        """The places from one of `firsts` up to the next."""
        at = self._num_words - self._num_bounds + bound
        start, stop = self._read(WORD, at * WORD.itemsize, 2).tolist()
        return self._read(WORD, start * WORD.itemsize, stop - start)
