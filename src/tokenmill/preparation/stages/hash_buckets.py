"""Rows of numbers on disk, spread over buckets: memory holds one batch or one bucket at a time.

A file has batches one after another. Of each batch, the rows of the first bucket come first; rows
of one bucket keep their order. At the end of the file is a table:

    (batches, buckets + 1)   where each bucket of a batch begins, in rows, and where the last ends
    (1,)                     the number of batches

All numbers are 8 bytes.
"""

import os
from typing import IO

import numpy as np

WORD = np.dtype("<u8")


class BucketWriter:
    """Writes a file of buckets; `finish` writes the table."""

    def __init__(self, file: IO[bytes], num_buckets: int) -> None:
        self._file = file
        self._num_buckets = num_buckets
        self._starts: list[np.ndarray] = []
        self.num_rows = 0

    def add(self, buckets: np.ndarray, rows: np.ndarray) -> None:
        """Write a batch: (n,) the number of a bucket for each row, and (n, width) WORD."""
        self._file.write(rows.take(np.argsort(buckets, kind="stable"), axis=0).data)
        counts = np.bincount(buckets, minlength=self._num_buckets)
        self._starts.append(self.num_rows + np.append(0, np.cumsum(counts)))
        self.num_rows += len(rows)

    def finish(self) -> None:
        write_table(self._file, self._starts)


def write_table(file: IO[bytes], starts: list[np.ndarray]) -> None:
    """Write the end of a file; `starts` are (buckets + 1,) for each batch."""
    for numbers in starts:
        file.write(numbers.astype(WORD).data)
    file.write(np.array([len(starts)], WORD).data)
    file.flush()


def read_bucket(file: IO[bytes], num_buckets: int, width: int, bucket: int) -> np.ndarray:
    """Return the rows of one bucket, (n, width), batch after batch."""
    size = file.seek(-WORD.itemsize, os.SEEK_END)
    num_batches = int(_read(file, 1)[0])
    row_words = (num_buckets + 1) * WORD.itemsize
    rows = [np.empty(0, WORD)]
    for batch in range(num_batches):
        file.seek(size - (num_batches - batch) * row_words + bucket * WORD.itemsize)
        start, stop = _read(file, 2).tolist()
        if start < stop:
            file.seek(start * width * WORD.itemsize)
            rows.append(_read(file, (stop - start) * width))
    return np.concatenate(rows).reshape(-1, width)


def _read(file: IO[bytes], count: int) -> np.ndarray:
    # Not by np.fromfile, which takes a failed read for the end of the file.
    data = file.read(count * WORD.itemsize)
    if len(data) < count * WORD.itemsize:
        raise EOFError(f"{file.name} ends early")
    return np.frombuffer(data, WORD)
