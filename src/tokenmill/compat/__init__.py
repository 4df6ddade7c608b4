"""Loaders under the names and arguments that scripts already use, each a thin layer on the core.

 local_files.py        LocalTokenizedDataset(Fixed), create_dataloaders, StreamingDataset: files
 tokenized_dataset.py  TokenizedDataset: token shards, `get_batch(batch_size, device)`
 gpt_data_loader.py    GPTDataLoader: text in memory or a dataset folder, `get_batch(split)`

What is called `block_size` everywhere else has the names of those scripts here: `max_length`,
`seq_length`. Headers are not tokens, windows run across shard edges, every rank gets rows of its
own, and a position can be saved.
"""

from tokenmill.compat.gpt_data_loader import GPTDataLoader as GPTDataLoader
from tokenmill.compat.local_files import LocalTokenizedDataset as LocalTokenizedDataset
from tokenmill.compat.local_files import LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed
from tokenmill.compat.local_files import StreamingDataset as StreamingDataset
from tokenmill.compat.local_files import create_dataloaders as create_dataloaders
from tokenmill.compat.tokenized_dataset import TokenizedDataset as TokenizedDataset
