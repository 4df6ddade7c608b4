"""Loaders under the names that scripts already use, each a thin layer on the one core.

shards.py      TokenizedDataset              token shards, `get_batch(batch_size, device)`
local.py       LocalTokenizedDataset(Fixed), create_dataloaders        `.npy` files, DataLoaders
gpt.py         GPTDataLoader                 text in memory or a dataset folder, `get_batch(split)`
streaming.py   StreamingDataset              a text file and the `.npy` beside it

What sketches of these get wrong is right here: headers are not tokens, windows run across shard
edges, every rank gets rows of its own, and a position can be saved.
"""

from tokenmill.torch.seeds.gpt import GPTDataLoader as GPTDataLoader
from tokenmill.torch.seeds.local import LocalTokenizedDataset as LocalTokenizedDataset
from tokenmill.torch.seeds.local import LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed
from tokenmill.torch.seeds.local import create_dataloaders as create_dataloaders
from tokenmill.torch.seeds.shards import TokenizedDataset as TokenizedDataset
from tokenmill.torch.seeds.streaming import StreamingDataset as StreamingDataset
