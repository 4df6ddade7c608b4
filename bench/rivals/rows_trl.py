"""TRL: all documents as a Hugging Face dataset, packed by its best-fit decreasing, then read once.

The time is that of packing and of one pass over the rows; making the dataset is not counted. A
document longer than a row is truncated by TRL, so all are cut to pieces before.
"""

import json
import sys
import time

import numpy as np
from datasets import Dataset
from trl import pack_dataset

path, batch_size, block_size = sys.argv[1], *map(int, sys.argv[2:4])
MOST = 20_000_000  # tokens: it works on all of them in memory

data = np.memmap(path, dtype=np.uint16, mode="r")
ends = np.fromfile(f"{path}.index", np.uint64).astype(np.int64)
ends = ends[ends <= MOST]
pieces = []
for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
    for at in range(start, max(start + 1, end - 1), block_size):
        pieces.append(data[at : min(at + block_size + 1, end)].astype(np.int64))
documents = Dataset.from_dict({"input_ids": pieces})

began = time.perf_counter()
packed = pack_dataset(documents, block_size + 1, strategy="bfd").with_format("numpy")
tokens = 0
for batch in packed.iter(batch_size):
    tokens += sum(len(row) for row in batch["input_ids"])
print(json.dumps({"tokens_per_s": tokens / (time.perf_counter() - began)}))
