"""litdata: write tokens as chunks, or read an epoch of them from a store.

    stores_litdata.py write TOKENS FOLDER BLOCK_SIZE CHUNK_BYTES
    stores_litdata.py read ADDRESS CACHE CACHE_BYTES ORDER GROUP_BYTES BATCH_SIZE BLOCK_SIZE SECONDS

Two workers, with obstore for the requests. Its shuffle puts chunks in another order, and rows
within a chunk: there is no other.
"""

import os
import sys

import numpy as np
import torch
from litdata import StreamingDataLoader, StreamingDataset, TokensLoader, optimize
from stores_timing import report

WORKERS = 2
PART = 1 << 20


def part(place):
    """One part of the tokens."""
    path, start = place
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    return torch.from_numpy(tokens[start : start + PART].astype(np.int32)).to(torch.uint16)


def write(tokens, folder, block_size, chunk_bytes):
    count = len(np.memmap(tokens, dtype=np.uint16, mode="r"))
    optimize(
        fn=part,
        inputs=[(tokens, start) for start in range(0, count, PART)],
        output_dir=folder,
        num_workers=1,
        chunk_size=chunk_bytes // 2 // (block_size + 1) * (block_size + 1),
        item_loader=TokensLoader(block_size=block_size + 1),
    )


def read(address, cache, cache_bytes, batch_size, block_size):
    dataset = StreamingDataset(
        address,
        cache_dir=cache,
        item_loader=TokensLoader(block_size=block_size + 1),
        shuffle=True,
        max_cache_size=cache_bytes,
        storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
    )
    for batch in StreamingDataLoader(dataset, batch_size=batch_size, num_workers=WORKERS):
        yield batch.to(torch.int64)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        address, cache, size, _, _, batch_size, block_size, seconds = sys.argv[2:]
        sizes = int(size), int(batch_size), int(block_size)
        report(lambda: read(address, cache, *sizes), float(seconds))
