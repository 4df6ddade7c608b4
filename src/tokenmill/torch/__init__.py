"""The loader as tensors, through three doors.

torch_loader.py       TorchLoader: batches as tensors on a device; for your own loop
token_data_loader.py  TokenDataLoader: a real DataLoader; for Lightning, Fabric, LitGPT, workers
windows_dataset.py    WindowsDataset: map style; for Hugging Face, Accelerate, any DataLoader
torch_batch.py        TorchBatch: inputs, targets, documents; the forms of items; loss per source
world.py              which share of the data is mine, and where that was found
"""

from tokenmill.torch.token_data_loader import TokenDataLoader as TokenDataLoader
from tokenmill.torch.torch_batch import TorchBatch as TorchBatch
from tokenmill.torch.torch_batch import loss_per_source as loss_per_source
from tokenmill.torch.torch_loader import TorchLoader as TorchLoader
from tokenmill.torch.windows_dataset import WindowsDataset as WindowsDataset
from tokenmill.torch.world import Ranks as Ranks
from tokenmill.torch.world import find_ranks as find_ranks
