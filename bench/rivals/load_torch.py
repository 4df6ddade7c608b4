"""A torch DataLoader over a map-style dataset of windows; the best of 0 and 2 workers."""

import sys

import numpy as np
import torch
from load_timing import endless, report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
num_workers = int(sys.argv[5])


class Windows(torch.utils.data.Dataset):
    """Window i of one mapped file."""

    def __init__(self):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return (len(self.data) - 1) // block_size

    def __getitem__(self, i):
        start = i * block_size
        row = torch.from_numpy(self.data[start : start + block_size + 1].astype(np.int64))
        return row[:-1], row[1:]


loader = torch.utils.data.DataLoader(
    Windows(), batch_size=batch_size, shuffle=True, num_workers=num_workers
)
report(endless(lambda: loader), batch_size * block_size, seconds, workers=num_workers)
