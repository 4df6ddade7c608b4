"""LocalDataModule: train and validation files as a Lightning data module.

Lightning exists as two packages, `lightning` and `pytorch_lightning`, whose classes are not each
other's. The module is built on the one that was imported before this one; on `lightning` if both
were imported, or neither.

The training loader keeps its own position, and Lightning stores it in every checkpoint (under
`combined_loader`): a run stopped in mid-epoch resumes with the next window. The position is kept
there and not in the data module as well, where it would be restored twice.
"""

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.compat import create_dataloaders
from tokenmill.errors import MissingExtraError
from tokenmill.torch import StatefulTokenLoader

if TYPE_CHECKING:
    _Base = Any
else:

    def _base_class() -> type:
        homes = ("lightning.pytorch", "pytorch_lightning")
        imported = [home for home in homes if home in sys.modules]
        for home in [*imported, *homes]:
            try:
                return importlib.import_module(home).LightningDataModule
            except ImportError:
                continue
        raise MissingExtraError("tokenmill.torch.lightning", package="lightning", extra="lightning")

    _Base = _base_class()


class LocalDataModule(_Base):  # type: ignore[misc]
    """Loaders for `Trainer.fit(model, datamodule=...)`; batches are {"input_ids", "labels"}.

    labels[t] is the token after input_ids[t]. Each rank reads its own rows, found when Lightning
    has started its processes; `use_distributed_sampler` does not touch these loaders. The arguments
    are those of `tokenmill.compat.create_dataloaders`; `batch_size` is the rows of one rank.
    """

    @takes_keywords_of(create_dataloaders)
    def __init__(
        self,
        train_data_path: str | Path,
        val_data_path: str | Path,
        batch_size: int = 32,
        max_length: int = 1024,
        num_workers: int = 0,
        prefetch_factor: int | None = None,
        seed: int = 42,
        **options: Any,
    ) -> None:
        super().__init__()
        self.settings: dict[str, Any] = {
            "train_data_path": train_data_path,
            "val_data_path": val_data_path,
            "batch_size": batch_size,
            "max_length": max_length,
            "num_workers": num_workers,
            "prefetch_factor": prefetch_factor,
            "seed": seed,
            **options,
        }
        self._loaders: tuple[StatefulTokenLoader, StatefulTokenLoader] | None = None

    def setup(self, stage: str | None = None) -> None:
        """Open both files, on every process."""
        if self._loaders is None:
            self._loaders = create_dataloaders(**self.settings)

    def train_dataloader(self) -> StatefulTokenLoader:
        """One epoch a pass, each in an order of its own."""
        return self._both()[0]

    def val_dataloader(self) -> StatefulTokenLoader:
        """The validation file in order, from its beginning."""
        return self._both()[1]

    def _both(self) -> tuple[StatefulTokenLoader, StatefulTokenLoader]:
        self.setup()
        assert self._loaders is not None
        return self._loaders
