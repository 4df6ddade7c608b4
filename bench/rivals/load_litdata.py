"""litdata: its token chunks, shuffled, in its own loader."""

import sys
from pathlib import Path

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader, optimize
from load_timing import endless, report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
num_workers, folder = int(sys.argv[5]), Path(sys.argv[6]) / "litdata"
PART = 1 << 20


def read(start):
    """One part of the tokens."""
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    return torch.from_numpy(tokens[start : start + PART].astype(np.int32)).to(torch.uint16)


if __name__ == "__main__":
    if not (folder / "index.json").exists():
        num_tokens = len(np.memmap(path, dtype=np.uint16, mode="r"))
        optimize(
            fn=read,
            inputs=list(range(0, num_tokens, PART)),
            output_dir=str(folder),
            num_workers=1,
            chunk_size=PART * 16 // (block_size + 1) * (block_size + 1),
            item_loader=TokensLoader(block_size=block_size + 1),
        )
    dataset = StreamingDataset(
        str(folder), item_loader=TokensLoader(block_size=block_size + 1), shuffle=True
    )
    loader = StreamingDataLoader(dataset, batch_size=batch_size, num_workers=num_workers)

    def batches():
        """Widened, as the others are."""
        for batch in loader:
            yield batch.to(torch.int64)

    report(endless(batches), batch_size * block_size, seconds, workers=num_workers)
