"""MosaicML Streaming: local MDS shards of windows, shuffled, in its own loader."""

import sys
from pathlib import Path

import numpy as np
import without_torchvision  # noqa: F401
from load_timing import endless, report
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
num_workers, folder = int(sys.argv[5]), Path(sys.argv[6]) / "mds"

if __name__ == "__main__":
    if not (folder / "index.json").exists():
        tokens = np.memmap(path, dtype=np.uint16, mode="r")
        columns = {"tokens": f"ndarray:uint16:{block_size + 1}"}
        with MDSWriter(out=str(folder), columns=columns) as writer:
            for start in range(0, len(tokens) - block_size, block_size):
                writer.write({"tokens": np.array(tokens[start : start + block_size + 1])})

    class Windows(StreamingDataset):
        """Rows as int64."""

        def __getitem__(self, i):
            return super().__getitem__(i)["tokens"].astype(np.int64)

    dataset = Windows(local=str(folder), shuffle=True, batch_size=batch_size)
    loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=num_workers)
    report(endless(lambda: loader), batch_size * block_size, seconds, workers=num_workers)
