"""TokenizedDataset: a folder of token shards, and batches from all of it.

Under it, and under GPTDataLoader, a loader whose batch size and device may differ from call to
call.
"""

import functools
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenmill import dataset
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.torch.torch_loader import TorchLoader


class BatchesOnDemand:
    """Gives the next rows of the order; no row comes twice in an epoch, none is missed.

    `options` are those of a TorchLoader, without the batch size and the device.
    """

    def __init__(self, data: Any, **options: Any) -> None:
        self._open = functools.partial(TorchLoader, data, **options)

    @functools.cached_property
    def _loader(self) -> TorchLoader:
        """Replaced when a batch of another size, or on another device, is asked for."""
        return self._open(batch_size=1)

    def get_batch(
        self, batch_size: int, device: str | torch.device = "auto"
    ) -> tuple[Tensor, Tensor]:
        """The next (inputs, targets) of this rank, each (batch_size, block_size) int64 on `device`.

        `auto` is the GPU if there is one, else the CPU.
        """
        if str(device) == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        device = torch.device(device)
        if (self._loader.loader.batch_size, self._loader.device) != (batch_size, device):
            state = self.state_dict()
            self._loader.close()
            self._loader = self._open(batch_size=batch_size, device=device)
            self._loader.load_state_dict(state)
        inputs, targets = next(self._loader)
        return inputs, targets

    def state_dict(self) -> dict[str, Any]:
        """The state of a BatchLoader: a few JSON values."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state, refused at once if it belongs to other data."""
        self._loader.load_state_dict(state)


class TokenizedDataset(BatchesOnDemand):
    """Shards of a folder as one axis of tokens.

    `split="val"` is what the file names call so, else the last shard; `train` is the rest. Files
    may be of any format `tokenmill.open` reads, so the header of an llm.c shard is a header. Each
    process draws rows of its own (`rank`, `world_size`; found by themselves under torchrun), in a
    shuffled order without replacement that `state_dict` can resume. Further arguments are those of
    `tokenmill.open`.
    """

    @takes_keywords_of(dataset.open, but=["path"])
    def __init__(
        self,
        data_dir: str | Path,
        split: str = "train",
        block_size: int = 1024,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        **open_options: Any,
    ) -> None:
        data = dataset.open(data_dir, split, **open_options)
        super().__init__(data, block_size=block_size, seed=seed, rank=rank, world_size=world_size)
        self.shards = [shard.file for shard in data.shards]
        self.lengths = [shard.num_tokens for shard in data.shards]
        self.total_length = data.num_tokens
