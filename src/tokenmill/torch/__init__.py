"""The loader as tensors, and as the datasets and loaders of the PyTorch world.

world.py             which share of the data is mine, and where that was found
torch_loader.py      TorchLoader: batches as tensors on a device; for a loop of your own
torch_batch.py       TorchBatch: inputs, targets, documents; the forms of items; loss per source
windows_dataset.py   WindowsDataset: map style; for Hugging Face, Accelerate, any DataLoader
batch_rows.py        the items of a WindowsDataset: rows that know their batch
windows_iterable.py  WindowsIterable: whole batches; for DataLoader(batch_size=None)
stateful_loader.py   StatefulTokenLoader: workers, exact position; TokenDataLoader: it for Fabric
bits_per_byte.py     loss by the bytes of the text, comparable between tokenizers
device_copy.py       blocks of tokens to a GPU, in the width of the file
text_file.py         a text file as tokens, from the .npy beside it
lightning.py         the data module of Lightning
"""

from tokenmill.torch.stateful_loader import StatefulTokenLoader as StatefulTokenLoader
from tokenmill.torch.stateful_loader import TokenDataLoader as TokenDataLoader
from tokenmill.torch.torch_batch import TorchBatch as TorchBatch
from tokenmill.torch.torch_batch import loss_per_source as loss_per_source
from tokenmill.torch.torch_loader import TorchLoader as TorchLoader
from tokenmill.torch.windows_dataset import WindowsDataset as WindowsDataset
from tokenmill.torch.windows_iterable import WindowsIterable as WindowsIterable
from tokenmill.torch.world import Ranks as Ranks
from tokenmill.torch.world import find_ranks as find_ranks
