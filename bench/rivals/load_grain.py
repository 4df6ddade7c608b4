"""Grain: a source of windows, its global shuffle and batches, read in each way it recommends.

Reading threads suit slow storage, none suits memory, and worker processes suit slow Python. Rows
of a batch are asked for together (`__getitems__`). The fastest way counts, and is named.
"""

import sys

import grain
import numpy as np
from load_timing import report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
number = int(sys.argv[5])  # of worker processes; below 0: reading threads in their place


class Windows:
    """Window i of one mapped file."""

    def __init__(self):
        tokens = np.asarray(np.memmap(path, dtype=np.uint16, mode="r"))
        every_start = np.lib.stride_tricks.sliding_window_view(tokens, block_size + 1)
        self.windows = every_start[::block_size]

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return self.windows[i].astype(np.int64)

    def __getitems__(self, numbers):
        return list(self.windows[numbers].astype(np.int64))


if __name__ == "__main__":
    windows = grain.MapDataset.source(Windows()).seed(0).shuffle().repeat().batch(batch_size)
    dataset = windows.to_iter_dataset(grain.ReadOptions(num_threads=max(0, -number)))
    if number > 0:
        options = grain.MultiprocessingOptions(num_workers=number, per_worker_buffer_size=4)
        dataset = dataset.mp_prefetch(options)
    report(iter(dataset), batch_size * block_size, seconds)
