"""Grain: a source of windows, its global shuffle, batches, and its prefetching threads."""

import sys

import grain
import numpy as np
from load_timing import report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])


class Windows:
    """Window i of one mapped file."""

    def __init__(self):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return (len(self.data) - 1) // block_size

    def __getitem__(self, i):
        start = int(i) * block_size
        return self.data[start : start + block_size + 1].astype(np.int64)


dataset = grain.MapDataset.source(Windows()).seed(0).shuffle().repeat().batch(batch_size)
report(iter(dataset.to_iter_dataset()), batch_size * block_size, seconds)
