"""MosaicML Streaming: write windows as MDS, or read an epoch of them from a store.

    stores_mosaic.py write TOKENS FOLDER BLOCK_SIZE SHARD_BYTES
    stores_mosaic.py read ADDRESS CACHE CACHE_BYTES ORDER GROUP_BYTES BATCH_SIZE BLOCK_SIZE SECONDS

Its own prefetching is on (`predownload`), in two workers. `shuffle` shuffles all samples; `blocks`
those of a group of shards that the cache holds.
"""

import sys
from pathlib import Path

import numpy as np
import without_torchvision  # noqa: F401
from stores_timing import report
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.base.util import clean_stale_shared_memory

WORKERS = 2


def write(tokens: str, folder: str, block_size: int, shard_bytes: int) -> None:
    ids = np.memmap(tokens, dtype=np.uint16, mode="r")
    columns = {"tokens": f"ndarray:uint16:{block_size + 1}"}
    with MDSWriter(out=folder, columns=columns, size_limit=shard_bytes) as writer:
        for start in range(0, len(ids) - block_size, block_size):
            writer.write({"tokens": np.array(ids[start : start + block_size + 1])})


class Windows(StreamingDataset):
    """Rows as int64."""

    def __getitem__(self, i):
        return super().__getitem__(i)["tokens"].astype(np.int64)


def read(address, cache, cache_bytes, order, group_bytes, batch_size, block_size, seconds):
    clean_stale_shared_memory()  # of a run that was stopped
    windows = group_bytes // (2 * block_size + 2)
    more = {"shuffle_block_size": windows} if order == "blocks" else {}
    dataset = Windows(
        remote=address,
        local=str(Path(cache) / "mosaic"),
        cache_limit=cache_bytes,
        shuffle=True,
        batch_size=batch_size,
        predownload=64 * batch_size,
        **more,
    )
    return StreamingDataLoader(dataset, batch_size=batch_size, num_workers=WORKERS, drop_last=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(*sys.argv[2:4], *map(int, sys.argv[4:]))
    else:
        address, cache, size, order, group, *rest = sys.argv[2:]
        batch_size, block_size, seconds = map(int, rest)
        report(
            lambda: read(
                address, cache, int(size), order, int(group), batch_size, block_size, seconds
            ),
            seconds,
        )
