"""The windows as a map-style dataset: item i is the i-th sample of the order.

Frameworks that shard and fast-forward samplers (Hugging Face Trainer, Accelerate) do so correctly
with it, read in sequence. A DataLoader asks for all items of a batch together, which are gathered
together; its `collate_fn` then copies each.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import torch
from torch.utils.data import Dataset

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.batches.batch import IGNORED
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.torch.torch_batch import ITEMS, form_of

NOT_OF_A_SEQUENCE = ("batch_size", "rank", "world_size", "epochs")
_NO_END = 1 << 62


class WindowsDataset(Dataset[Any]):
    """Map-style windows of a dataset, in the order of a seed: Hugging Face, Accelerate.

    `items` is `pair`, `dict`, `hugging_face`, `window` or `megatron` (see `batch_as`), and
    `ignore_index` the label without a loss; further arguments are those of
    `tokenmill.BatchLoader`. Its length is one epoch, or `num_samples`, which may be more, and which
    a mixture needs. It does not divide itself by rank: that is what the sampler, or the framework,
    does with a map-style dataset.
    """

    @takes_keywords_of(BatchLoader, but=NOT_OF_A_SEQUENCE)
    def __init__(
        self,
        data: Any,
        *,
        block_size: int,
        items: str = "pair",
        ignore_index: int = IGNORED,
        num_samples: int | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        self.data = data
        self.items = items
        self._form = form_of(items, ignore_index, options.get("documents"), forms=ITEMS)
        self.loader = BatchLoader(data, batch_size=1, block_size=block_size, form=form, **options)
        self._length = len(self.loader.windows(num_samples))
        self._windows = self.loader.windows(_NO_END)
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
        return self.__getitems__([i])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items at once, as rows of one batch: one gather instead of many."""
        if indices and not (-self._length <= min(indices) and max(indices) < self._length):
            raise IndexError(f"items {list(indices)} of a dataset of {self._length} windows")
        first = self.epoch * self._length
        batch = self._form(self._windows.batch([first + i % self._length for i in indices]))
        if isinstance(batch, dict):
            return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]
        return list(batch) if self.items == "window" else list(zip(*batch, strict=True))
