"""A LitGPT data module: `--data tokenmill.trainers.litgpt.TokenData --data.path data/corpus`."""

from dataclasses import dataclass, field
from typing import Any

from litgpt.data import DataModule

from tokenmill import dataset
from tokenmill.torch.token_data_loader import TokenDataLoader, validation_loader


@dataclass
class TokenData(DataModule):  # type: ignore[misc]
    """Windows of the split `train` of a dataset, shuffled, and of `val`, in order.

    LitGPT saves the loader in its checkpoints: a run resumes with the next window.
    """

    path: str
    """A dataset, or token files of any format."""
    val_path: str | None = None
    """Where the split `val` is, if not in `path`."""
    seed: int = 42
    order: str = "shuffle"
    num_workers: int = 0
    _shape: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__init__()

    def connect(
        self, tokenizer: Any = None, batch_size: int = 1, max_seq_length: int | None = None
    ) -> None:
        """Take the rows of a batch, and the length of a row without its last target."""
        if max_seq_length is None:
            raise ValueError("max_seq_length is None; windows have a length, for example 1024")
        self._shape = {"batch_size": batch_size, "block_size": max_seq_length}
        self._shape |= {"items": "window", "num_workers": self.num_workers}

    def train_dataloader(self) -> TokenDataLoader:
        """One epoch per pass, each in its own order."""
        data = dataset.open(self.path, "train")
        return TokenDataLoader(data, seed=self.seed, order=self.order, **self._shape)

    def val_dataloader(self) -> TokenDataLoader:
        return validation_loader(dataset.open(self.val_path or self.path, "val"), **self._shape)
