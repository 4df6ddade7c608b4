"""LocalDataModule: train and validation files as a Lightning data module.

Lightning exists as two packages, `lightning` and `pytorch_lightning`, whose classes are not each
other's. The module is built on the one that was imported before this one; on `lightning` if both
were imported, or neither.

The training loader keeps its own position, and Lightning stores it in every checkpoint (under
`combined_loader`): a run stopped in mid-epoch resumes with the next window.
"""

import functools
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.compat.local_files import create_dataloaders
from tokenmill.errors import MissingExtraError
from tokenmill.torch import TokenDataLoader

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
        raise MissingExtraError("LocalDataModule", package="lightning", extra="lightning")

    _Base = _base_class()


class LocalDataModule(_Base):  # type: ignore[misc]
    """Loaders for `Trainer.fit(model, datamodule=...)`; batches are {"input_ids", "labels"}.

    The arguments are those of `tokenmill.compat.create_dataloaders`, which it calls when Lightning
    has started its processes: each rank finds and reads its own rows.
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
        self._open = functools.partial(
            create_dataloaders,
            train_data_path,
            val_data_path,
            batch_size,
            max_length,
            num_workers,
            prefetch_factor,
            seed,
            **options,
        )

    @functools.cached_property
    def _loaders(self) -> tuple[TokenDataLoader, TokenDataLoader]:
        return self._open()

    def setup(self, stage: str | None = None) -> None:
        """Open both files, on every process."""
        _ = self._loaders

    def train_dataloader(self) -> TokenDataLoader:
        """The training file: one epoch per pass, each in its own order."""
        return self._loaders[0]

    def val_dataloader(self) -> TokenDataLoader:
        """The validation file in order, from its beginning."""
        return self._loaders[1]
