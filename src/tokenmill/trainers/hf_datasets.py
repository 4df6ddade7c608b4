"""`hf_dataset(...)`: rows as a `datasets.IterableDataset`, for TRL and all that takes one.

Its state holds that of our loaders: a resume reads nothing of what was before, and the state of a
`BatchLoader` differs only in the steps. `datasets.distributed.split_dataset_by_node` divides the
rows by rank. For the Trainer of transformers a WindowsDataset is better: its sampler skips rows.
"""

from collections.abc import Iterator
from copy import copy
from typing import Any

from datasets import IterableDataset
from datasets.iterable_dataset import _BaseExamplesIterable

from tokenmill.torch import WindowsDataset

_ROWS_PER_READ = 64


def hf_dataset(data: Any, *, block_size: int, items: str = "hugging_face", **options: Any) -> Any:
    """Return the rows of one epoch as a `datasets.IterableDataset`; `set_epoch` gives the others.

    Rows are mappings of arrays: `items` is `hugging_face`, `dict` or `megatron`. `options` are for
    `WindowsDataset`.
    """
    if items in ("pair", "window"):
        raise ValueError(
            f"items={items!r}: rows of `datasets` have named columns\n\n"
            'hint: items="hugging_face", "dict" or "megatron"'
        )
    windows = WindowsDataset(data, block_size=block_size, items=items, **options)
    return IterableDataset(_Rows(windows))


class _Rows(_BaseExamplesIterable):  # type: ignore[misc]
    """The samples of an epoch. They stay in the order of the seed, whatever `datasets` shuffles."""

    num_shards = 1

    def __init__(self, windows: WindowsDataset) -> None:
        super().__init__()
        self._windows = windows
        self._epoch = 0

    def _init_state_dict(self) -> dict[str, Any]:
        first = self._epoch * len(self._windows)
        self._state_dict = {**self._windows.loader.state_dict(), "samples": first}
        return self._state_dict

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        state = self._state_dict or self._init_state_dict()
        self._windows.loader.load_state_dict(state)  # refuses one of another order
        self._windows.set_epoch(self._epoch)
        stop = len(self._windows)
        while (first := state["samples"] - self._epoch * stop) < stop:
            rows = range(first, min(first + _ROWS_PER_READ, stop))
            for row in self._windows.__getitems__(rows):
                state["samples"] += 1
                yield state["samples"], {name: tensor.numpy() for name, tensor in row.items()}

    def shift_rngs(self, value: int) -> "_Rows":
        """Take the epoch, or the number of a worker; only worker 0 has rows."""
        other = copy(self)
        other._epoch = value or self._epoch
        return other

    def _unchanged(self, *_: Any, **__: Any) -> "_Rows":
        return self

    shuffle_data_sources = shard_data_sources = reshard_data_sources = _unchanged
