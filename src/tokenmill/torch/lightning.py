"""TokenDataModule: train and validation data as a Lightning data module.

It is built on the package that was imported before it, `lightning` or `pytorch_lightning`, whose
classes are not each other's; on `lightning` if both were, or neither. Lightning stores the position
of the training loader in every checkpoint: a run stopped in mid-epoch resumes with the next window.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import MissingExtraError
from tokenmill.torch.token_data_loader import TokenDataLoader, validation_loader


def _base_class() -> Any:
    homes = ("lightning.pytorch", "pytorch_lightning")
    for home in sorted(homes, key=lambda home: home not in sys.modules):
        try:
            return importlib.import_module(home).LightningDataModule
        except ImportError:
            continue
    raise MissingExtraError("A Lightning data module", package="lightning", extra="lightning")


_Base: Any = _base_class()


class LoadersModule(_Base):  # type: ignore[misc]
    """Two loaders that are opened when Lightning has started its processes."""

    def __init__(self, open_loaders: Callable[[], tuple[Any, Any]]) -> None:
        super().__init__()
        self._loaders = functools.cache(open_loaders)

    def train_dataloader(self) -> Any:
        """The training data: one epoch per pass, each in its own order."""
        return self._loaders()[0]

    def val_dataloader(self) -> Any:
        """The validation data in order, from its beginning; an empty list if there is none."""
        return self._loaders()[1]


class TokenDataModule(LoadersModule):
    """Loaders for `Trainer.fit(model, datamodule=...)`; each rank reads its own rows.

    Batches are {"input_ids", "labels"}, or as `items` says; further arguments are those of
    `TokenDataLoader`. Validation is in order; augmentation and rows of documents are not for it.
    """

    @takes_keywords_of(TokenDataLoader, but=("data", "from_start"))
    def __init__(
        self,
        train: Any,
        val: Any = None,
        *,
        batch_size: int,
        block_size: int,
        items: str = "dict",
        **options: Any,
    ) -> None:
        if options.get("epochs", 1) is None:
            raise ValueError(
                "epochs=None: Lightning fetches one batch ahead of an endless loader, and a resume "
                "would lose it\n\nhint: leave epochs out; after each epoch the next one begins"
            )
        options |= {"batch_size": batch_size, "block_size": block_size, "items": items}
        training = ("order", "phase", "rows", "begin_token", "augment", "seed", "epochs")
        plain = {name: value for name, value in options.items() if name not in training}
        super().__init__(
            lambda: (
                TokenDataLoader(train, **options),
                [] if val is None else validation_loader(val, **plain),
            )
        )
