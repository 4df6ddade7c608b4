"""The batch loader as tensors on a device.

On the CPU the tensors share memory with the loader's arrays: nothing is copied. On a GPU the next
batch is on its way while the present one is used (copy.py). Each process takes its share of every
step (ranks.py says which, and `loader.ranks` who said so).

    loader = TorchLoader(data, batch_size=8, block_size=1024, seed=0)
    for inputs, targets in loader:
        ...
    state = loader.state_dict()     # a few JSON values; counts what this loop has taken
"""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from tokenmill.batches.loader import BatchLoader
from tokenmill.errors import MismatchError
from tokenmill.torch.batch import TorchBatch
from tokenmill.torch.copy import CudaCopier
from tokenmill.torch.ranks import find_ranks


class _Coming(NamedTuple):
    """A batch that is on its way to the device, and the state once it has been used."""

    batch: TorchBatch
    event: Any
    state: dict[str, Any]


class TorchLoader:
    """Endless (or `epochs=n`) batches of one rank as tensors; resumable at any step.

    `data` and all further arguments (`seed`, `order`, `epochs`, `documents`, `prefetch`, ...) are
    those of `tokenmill.BatchLoader`. With `vocab_size` an id beyond it is an error that names the
    value, instead of a device assert. A loader is its own iterator and goes on where it is.
    """

    def __init__(
        self,
        data: Any,
        *,
        batch_size: int,
        block_size: int,
        device: str | torch.device = "cpu",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        vocab_size: int | None = None,
        **options: Any,
    ) -> None:
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self.device = torch.device(device)
        self.vocab_size = vocab_size
        on_gpu = self.device.type == "cuda"
        self.loader = BatchLoader(
            data,
            batch_size=batch_size,
            block_size=block_size,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            dtype=options.pop("dtype", data.dtype if on_gpu else np.int64),
            **options,
        )
        self._copier = CudaCopier(self.device) if on_gpu else None
        self._coming: _Coming | None = None
        self._state = self.loader.state_dict()

    def __iter__(self) -> Iterator[TorchBatch]:
        return self

    def __next__(self) -> TorchBatch:
        if self._copier is None:
            return self._as_tensors(next(self.loader))
        raise NotImplementedError

    def _as_tensors(self, batch: Any) -> TorchBatch:
        mask = batch.loss_mask
        if self.vocab_size is not None:
            largest = int(batch.block.max())
            if largest >= self.vocab_size:
                raise MismatchError(
                    f"token id {largest:,} in the data; the vocabulary has {self.vocab_size:,} ids",
                    hint="another --tokenizer or --vocab_size made these files")
        t = lambda a: None if a is None else torch.from_numpy(a)
        return TorchBatch(t(batch.inputs), t(batch.targets), t(batch.document_ids), t(batch.positions), t(mask), num_targets=batch.targets.size if mask is None else int(mask.sum()))

    def describe(self, step: int) -> list[str]:
        return [str(step)]

    def state_dict(self) -> dict[str, Any]:
        """Where this loop is: what it has taken, not what is on its way."""
        return self.loader.state_dict() if self._copier is None else self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state, also one of other ranks or batch sizes."""
        self._coming = None
        self.loader.load_state_dict(state)
        self._state = self.loader.state_dict()

    def close(self) -> None:
        """End the prefetching thread."""
        self._coming = None
        self.loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
