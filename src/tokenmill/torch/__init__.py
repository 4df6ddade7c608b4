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

from tokenmill.torch.compat import GPTDataLoader as GPTDataLoader
from tokenmill.torch.compat import LocalTokenizedDataset as LocalTokenizedDataset
from tokenmill.torch.compat import LocalTokenizedDatasetFixed as LocalTokenizedDatasetFixed
from tokenmill.torch.compat import StreamingDataset as StreamingDataset
from tokenmill.torch.compat import TokenizedDataset as TokenizedDataset
from tokenmill.torch.compat import create_dataloaders as create_dataloaders
from tokenmill.torch.stateful_loader import StatefulTokenLoader as StatefulTokenLoader
from tokenmill.torch.torch_batch import TorchBatch as TorchBatch
from tokenmill.torch.torch_loader import TorchLoader as TorchLoader
from tokenmill.torch.windows_dataset import WindowsDataset as WindowsDataset
from tokenmill.torch.windows_iterable import WindowsIterable as WindowsIterable
from tokenmill.torch.world import Ranks as Ranks
from tokenmill.torch.world import find_ranks as find_ranks
