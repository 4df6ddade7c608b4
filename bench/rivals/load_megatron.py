"""Megatron-core's GPTDataset, in a torch DataLoader as its own training scripts have it."""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from load_timing import endless, report

path, batch_size, block_size, seconds = sys.argv[1], *map(int, sys.argv[2:4]), float(sys.argv[4])
num_workers, folder = int(sys.argv[5]), Path(sys.argv[6])

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29531", RANK="0", WORLD_SIZE="1")

from megatron.core.datasets.blended_megatron_dataset_builder import (  # noqa: E402
    BlendedMegatronDatasetBuilder,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig  # noqa: E402
from megatron.core.datasets.indexed_dataset import IndexedDatasetBuilder  # noqa: E402

END_OF_TEXT = 50256


class Tokenizer:
    """Only what the dataset needs of a tokenizer."""

    vocab_size, eod, pad = 50257, END_OF_TEXT, END_OF_TEXT
    unique_identifiers: dict[str, str] = {"class": "none"}  # noqa: RUF012


def write(prefix: Path) -> None:
    """The same tokens as .bin and .idx, document by document."""
    tokens = np.memmap(path, dtype=np.uint16, mode="r")
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=np.uint16)
    ends = np.append(np.flatnonzero(tokens == END_OF_TEXT) + 1, len(tokens))
    start = 0
    for end in np.unique(ends).tolist():
        builder.add_item(torch.from_numpy(tokens[start:end].astype(np.int32)))
        builder.end_document()
        start = end
    builder.finalize(f"{prefix}.idx")


prefix = folder / "megatron"
if not Path(f"{prefix}.idx").exists():
    write(prefix)
config = GPTDatasetConfig(
    random_seed=0,
    sequence_length=block_size,
    blend=([str(prefix)], None),
    split="1,0,0",
    path_to_cache=str(folder / "megatron-cache"),
    tokenizer=Tokenizer(),
    reset_position_ids=False,
    reset_attention_mask=False,
    eod_mask_loss=False,
    create_attention_mask=False,
    mid_level_dataset_surplus=0.005,
)
sizes = [int(os.path.getsize(path) // 2 // block_size) - 10, 0, 0]
dataset = BlendedMegatronDatasetBuilder(GPTDataset, sizes, lambda: True, config).build()[0]
loader = torch.utils.data.DataLoader(
    dataset, batch_size=batch_size, shuffle=False, num_workers=num_workers
)
report(endless(lambda: loader), batch_size * block_size, seconds, workers=num_workers)
