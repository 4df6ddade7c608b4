"""nanoGPT's way: draw starts, slice the map and stack, again for each batch.

The loop is written after its train.py: the map is opened again for each batch, each row becomes an
int64 tensor of its own, inputs and targets are sliced and stacked separately.
"""

import sys

import numpy as np
import torch
from load_timing import report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])


def batches():
    """Random windows, with replacement."""
    while True:
        data = np.memmap(path, dtype=np.uint16, mode="r")
        starts = torch.randint(len(data) - block_size, (batch_size,)).tolist()
        rows = [torch.from_numpy(data[s : s + block_size].astype(np.int64)) for s in starts]
        nexts = [
            torch.from_numpy(data[s + 1 : s + 1 + block_size].astype(np.int64)) for s in starts
        ]
        yield torch.stack(rows), torch.stack(nexts)


report(batches(), batch_size * block_size, seconds)
