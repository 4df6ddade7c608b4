"""LocalDataModule: train and validation files as a Lightning data module."""

import functools
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.compat.local_files import create_dataloaders
from tokenmill.torch.lightning import LoadersModule


class LocalDataModule(LoadersModule):
    """Loaders for `Trainer.fit(model, datamodule=...)`; batches are {"input_ids", "labels"}.

    The arguments are those of `tokenmill.compat.create_dataloaders`, which it calls when Lightning
    has started its processes: each rank finds and reads its own rows.
    """

    @takes_keywords_of(create_dataloaders)
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(functools.partial(create_dataloaders, *arguments, **options))
