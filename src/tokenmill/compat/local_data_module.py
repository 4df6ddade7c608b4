"""LocalDataModule: train and validation files as a Lightning data module.

It is built on the package that was imported before it, `lightning` or `pytorch_lightning`, whose
classes are not each other's; on `lightning` if both were, or neither. Lightning stores the position
of the training loader in every checkpoint: a run stopped in mid-epoch resumes with the next window.
"""

import functools
import importlib
import sys
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.compat.local_files import create_dataloaders
from tokenmill.errors import MissingExtraError
from tokenmill.torch import TokenDataLoader


def _base_class() -> Any:
    homes = ("lightning.pytorch", "pytorch_lightning")
    for home in sorted(homes, key=lambda home: home not in sys.modules):
        try:
            return importlib.import_module(home).LightningDataModule
        except ImportError:
            continue
    raise MissingExtraError("LocalDataModule", package="lightning", extra="lightning")


_Base: Any = _base_class()


class LocalDataModule(_Base):  # type: ignore[misc]
    """Loaders for `Trainer.fit(model, datamodule=...)`; batches are {"input_ids", "labels"}.

    The arguments are those of `tokenmill.compat.create_dataloaders`, which it calls when Lightning
    has started its processes: each rank finds and reads its own rows.
    """

    @takes_keywords_of(create_dataloaders)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()
        self._open = functools.partial(create_dataloaders, *arguments, **options)

    @functools.cached_property
    def _loaders(self) -> tuple[TokenDataLoader, TokenDataLoader]:
        return self._open()

    def train_dataloader(self) -> TokenDataLoader:
        """The training file: one epoch per pass, each in its own order."""
        return self._loaders[0]

    def val_dataloader(self) -> TokenDataLoader:
        """The validation file in order, from its beginning."""
        return self._loaders[1]
