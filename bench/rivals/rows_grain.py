"""Grain: documents one by one, cut to pieces, packed by its best fit into 64 open rows."""

import sys

import grain
import numpy as np
from grain.experimental import BestFitPackIterDataset
from load_timing import report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])


class Pieces:
    """Piece i of the documents of one mapped file."""

    def __init__(self):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")
        ends = np.fromfile(f"{path}.index", np.uint64).astype(np.int64)
        starts = np.concatenate([[0], ends[:-1]])
        counts = np.maximum(1, -(-(ends - starts - 1) // block_size))
        which = np.arange(len(ends)).repeat(counts)
        nth = np.arange(len(which)) - (np.cumsum(counts) - counts)[which]
        self.starts = starts[which] + nth * block_size
        self.stops = np.minimum(self.starts + block_size + 1, ends[which])

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        return {"tokens": self.data[self.starts[i] : self.stops[i]].astype(np.int64)}


pieces = grain.MapDataset.source(Pieces()).seed(0).shuffle().repeat().to_iter_dataset()
packed = BestFitPackIterDataset(
    pieces, length_struct={"tokens": block_size + 1}, num_packing_bins=64
)
report(iter(packed.batch(batch_size)), batch_size * block_size, seconds)
