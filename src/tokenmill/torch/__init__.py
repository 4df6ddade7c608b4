"""The loader as tensors, and as the datasets and loaders of the PyTorch world.

ranks.py      which share of the data is mine, and who said so
loader.py     TorchLoader: batches as tensors on a device; the one to use in a loop of your own
batch.py      TorchBatch: inputs, targets, and with documents=True their boundaries
windows.py    WindowsDataset: map style; for Hugging Face Trainer, Accelerate, any DataLoader
iterable.py   WindowsIterable: whole batches; for DataLoader(batch_size=None), StatefulDataLoader
stateful.py   StatefulTokenLoader: worker processes with an exact position; for Lightning
copy.py       blocks of tokens to a GPU, in the width of the file
text_file.py  a text file as tokens, from the .npy beside it
seeds/        loaders under names that scripts already use
"""

from tokenmill.torch.batch import TorchBatch as TorchBatch
from tokenmill.torch.iterable import WindowsIterable as WindowsIterable
from tokenmill.torch.loader import TorchLoader as TorchLoader
from tokenmill.torch.ranks import Ranks as Ranks
from tokenmill.torch.ranks import find_ranks as find_ranks
from tokenmill.torch.seeds import GPTDataLoader as GPTDataLoader
from tokenmill.torch.seeds import LocalTokenizedDataset as LocalTokenizedDataset
from tokenmill.torch.seeds import LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed
from tokenmill.torch.seeds import StreamingDataset as StreamingDataset
from tokenmill.torch.seeds import TokenizedDataset as TokenizedDataset
from tokenmill.torch.seeds import create_dataloaders as create_dataloaders
from tokenmill.torch.stateful import StatefulTokenLoader as StatefulTokenLoader
from tokenmill.torch.windows import WindowsDataset as WindowsDataset
