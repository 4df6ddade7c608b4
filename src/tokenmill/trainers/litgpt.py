"""A LitGPT data module: `--data tokenmill.trainers.litgpt.TokenData --data.path data/corpus`."""

from dataclasses import dataclass
from typing import Any

from litgpt.data import DataModule

from tokenmill import dataset
from tokenmill.torch.token_data_loader import TokenDataLoader, validation_loader


@dataclass
class TokenData(DataModule):  # type: ignore[misc]
    """Windows of the split `train`, shuffled, and of `val`, in order.

    LitGPT saves the loader in its checkpoints: a run resumes with the next window.
    """

    path: str
    """A dataset, or token files of any format."""
    val_path: str | None = None
    """Where the split `val` is, if not in `path`."""
    seed: int = 42
    num_workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self._shape: dict[str, Any] = {"items": "window", "num_workers": self.num_workers}

    def connect(
        self, tokenizer: Any = None, batch_size: int = 1, max_seq_length: int = 1024
    ) -> None:
        """Take the rows of a batch, and the length of a row without its last target."""
        self._shape |= {"batch_size": batch_size, "block_size": max_seq_length}

    def train_dataloader(self) -> TokenDataLoader:
        """One epoch per pass, each in its own order."""
        return TokenDataLoader(dataset.open(self.path, "train"), seed=self.seed, **self._shape)

    def val_dataloader(self) -> TokenDataLoader:
        return validation_loader(dataset.open(self.val_path or self.path, "val"), **self._shape)
