"""The windows as a map-style dataset: item i is the i-th sample of the order.

Read with a sequential sampler it gives the shuffled order, on any number of workers and in any
start method; frameworks that shard and fast-forward samplers (Hugging Face Trainer, Accelerate)
shard and fast-forward it correctly. Its length is one epoch; `set_epoch(e)` makes item i the i-th
sample of epoch e, also in workers that are alive already.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch.utils.data import Dataset

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import one_of
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import OrderKeywords
from tokenmill.torch.batch_rows import rows_as
from tokenmill.torch.torch_batch import ITEMS

NOT_OF_A_SEQUENCE = (
    "batch_size", "rank", "world_size", "epochs", "documents",
)  # fmt: skip
_NO_END = 1 << 62


class WindowsDataset(Dataset[Any]):
    """Map-style windows of a dataset, in the order of a seed: Hugging Face, Accelerate.

    `items` is `pair`, `dict`, `hugging_face` or `window` (see `batch_as`); further arguments are
    those of `tokenmill.BatchLoader`. It does not divide itself by rank: that is what the sampler,
    or the framework, does with a map-style dataset.
    """

    @takes_keywords_of(BatchLoader, but=NOT_OF_A_SEQUENCE)
    def __init__(
        self,
        data: Any,
        *,
        block_size: int,
        items: str = "pair",
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[OrderKeywords],
    ) -> None:
        one_of("items", items, ITEMS)
        self.data = data
        self.items = items
        loader = BatchLoader(data, batch_size=1, block_size=block_size, form=form, **options)
        self._length = len(loader.windows())
        self._windows = loader.windows(_NO_END)
        self._epoch = torch.zeros((), dtype=torch.int64)  # shared: workers alive already see it
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def __len__(self) -> int:
        return self._length

    @property
    def epoch(self) -> int:
        return int(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """Item i is from now on sample i of this epoch."""
        if epoch < 0:
            raise ValueError(f"epoch is {epoch}; expected 0 or more")
        self._epoch.fill_(epoch)

    def __getitem__(self, i: int) -> Any:
        row = self.__getitems__([i])[0]
        if self.items == "window":
            return row
        return tuple(row) if self.items == "pair" else dict(row)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items at once, as rows of one batch: one gather instead of many."""
        if indices and not (-self._length <= min(indices) and max(indices) < self._length):
            raise IndexError(f"items {list(indices)} of a dataset of {self._length} windows")
        first = self.epoch * self._length
        samples = [first + i % self._length for i in indices]
        return rows_as(self._windows.batch(samples), self.items)
