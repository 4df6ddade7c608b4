"""TokenizedDataset: a folder of token shards, and batches from all of it."""

from pathlib import Path
from typing import Any

from torch import Tensor

from tokenmill import dataset
from tokenmill.torch.compat.batches_on_demand import Drawn


class TokenizedDataset:
    """Shards of a folder as one axis of tokens.

    `split="val"` is what the file names call so, else the last shard; `train` is the rest. Files
    may be of any format `tokenmill.open` reads, so the header of an llm.c shard is a header. Each
    process draws rows of its own (`rank`, `world_size`; found by themselves under torchrun), in a
    shuffled order without replacement that `state_dict` can resume.
    """

    def __init__(
        self,
        data_dir: str | Path,
        split: str = "train",
        block_size: int = 1024,
        *,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,
    ) -> None:
        self.block_size = block_size
        self.data = dataset.open(data_dir, split, **options)
        self.shards = [shard.file for shard in self.data.shards]
        self.lengths = [shard.num_tokens for shard in self.data.shards]
        self.total_length = self.data.num_tokens
        self._drawn = Drawn(
            self.data, block_size=block_size, seed=seed, rank=rank, world_size=world_size
        )

    def get_batch(self, batch_size: int, device: str = "auto") -> tuple[Tensor, Tensor]:
        """The next (inputs, targets), each (batch_size, block_size) int64 on `device`."""
        return self._drawn.next(batch_size, device)

    def state_dict(self) -> dict[str, Any]:
        """Where the order stands: a few JSON values."""
        return self._drawn.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self._drawn.load_state_dict(state)
