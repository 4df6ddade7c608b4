"""The loader as tensors, through three doors, and which share of the data is mine (world.py).

TorchLoader for your own loop; TokenDataLoader, a real DataLoader, for Lightning, Fabric, LitGPT and
workers; WindowsDataset, map style, for Hugging Face, Accelerate and any DataLoader. The data module
for Lightning, TokenDataModule, is in lightning.py, which imports Lightning.
"""

from tokenmill.torch.token_data_loader import TokenDataLoader as TokenDataLoader
from tokenmill.torch.torch_batch import TorchBatch as TorchBatch
from tokenmill.torch.torch_batch import loss_per_source as loss_per_source
from tokenmill.torch.torch_loader import TorchLoader as TorchLoader
from tokenmill.torch.windows_dataset import WindowsDataset as WindowsDataset
from tokenmill.torch.world import Ranks as Ranks
from tokenmill.torch.world import find_ranks as find_ranks
