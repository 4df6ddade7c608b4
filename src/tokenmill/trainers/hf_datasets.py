"""`hf_dataset(...)`: rows as a `datasets.IterableDataset`, for TRL and all that takes one.

Its state is the number of the next sample of the epoch, so a resume does not read what was before.
`datasets.distributed.split_dataset_by_node` divides it by rank; the state counts over all ranks.
For the Trainer of transformers a WindowsDataset is better: its sampler skips without reading.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any, Unpack

from datasets import IterableDataset
from datasets.iterable_dataset import _BaseExamplesIterable

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.batches.run import LoaderKeywords
from tokenmill.errors import OrderMismatchError
from tokenmill.torch import WindowsDataset

_ROWS_AT_ONCE = 64  # gathered together, one after the other given away


@takes_keywords_of(WindowsDataset)
def hf_dataset(
    data: Any, *, block_size: int, items: str = "hugging_face", **options: Unpack[LoaderKeywords]
) -> Any:
    """Return the windows as a `datasets.IterableDataset` of one epoch; `set_epoch` gives others.

    Rows are mappings of arrays: `items` is `hugging_face`, `dict` or `megatron`. Further arguments
    are those of `WindowsDataset`.
    """
    if items in ("pair", "window"):
        raise ValueError(
            f"items={items!r}: rows of `datasets` have named columns\n\n"
            'hint: items="hugging_face", "dict" or "megatron"'
        )
    return IterableDataset(
        _Rows(WindowsDataset(data, block_size=block_size, items=items, **options))
    )


class _Rows(_BaseExamplesIterable):  # type: ignore[misc]
    """The samples of an epoch in order. `datasets` may not shuffle them: the order is the seed's."""

    num_shards = 1

    def __init__(self, windows: WindowsDataset) -> None:
        super().__init__()
        self._windows = windows
        self._epoch = 0

    def _init_state_dict(self) -> dict[str, Any]:
        self._state_dict = {"sample": 0, "order": self._windows.order_fingerprint}
        return self._state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        ours = self._init_state_dict()["order"]
        if state_dict.get("order") != ours:
            raise OrderMismatchError(
                f"cannot resume: the state is of the order {state_dict.get('order')!r:.80}, this "
                f"dataset has {ours!r}",
                hint="open the same data, with the same seed, block_size and rows",
            )
        return super().load_state_dict(state_dict)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        state = self._state_dict or self._init_state_dict()
        self._windows.set_epoch(self._epoch)
        stop = len(self._windows)
        while (first := state["sample"]) < stop:
            for row in self._windows.__getitems__(range(first, min(first + _ROWS_AT_ONCE, stop))):
                state["sample"] += 1
                yield state["sample"], {name: tensor.numpy() for name, tensor in row.items()}

    def shift_rngs(self, epoch: int) -> "_Rows":
        """`datasets` says here which epoch it is."""
        other = copy(self)
        other._epoch = epoch
        return other

    def shuffle_data_sources(self, generator: Any) -> "_Rows":
        return self

    def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> "_Rows":
        return self

    def reshard_data_sources(self) -> "_Rows":
        return self
