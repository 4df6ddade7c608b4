"""Loaders under the names that scripts already use, each a thin layer on the one core.

shards.py      TokenizedDataset              token shards, `get_batch(batch_size, device)`
local.py       LocalTokenizedDataset(Fixed), create_dataloaders        `.npy` files, DataLoaders
gpt.py         GPTDataLoader                 text in memory or a dataset folder, `get_batch(split)`
streaming.py   StreamingDataset              a text file and the `.npy` beside it

What sketches of these get wrong is right here: headers are not tokens, windows run across shard
edges, every rank gets rows of its own, and a position can be saved.
"""

from tokenmill.torch.compat.gpt_data_loader import GPTDataLoader as GPTDataLoader
from tokenmill.torch.compat.local_files import LocalTokenizedDataset as LocalTokenizedDataset
from tokenmill.torch.compat.local_files import (
    LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed,
)
from tokenmill.torch.compat.local_files import create_dataloaders as create_dataloaders
from tokenmill.torch.compat.streaming_dataset import StreamingDataset as StreamingDataset
from tokenmill.torch.compat.tokenized_dataset import TokenizedDataset as TokenizedDataset
