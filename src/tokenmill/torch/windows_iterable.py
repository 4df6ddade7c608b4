"""The batches as an iterable dataset, for a plain `DataLoader(..., batch_size=None)`.

It yields whole batches and takes this rank's share by itself. Worker w of W makes batches w,
w + W, ..., and a DataLoader takes workers in turns, so the order is the same with any number of
workers and any start method.

A plain DataLoader has no position (it does not say what its workers have handed over). To resume,
use `StatefulTokenLoader`, or torchdata's StatefulDataLoader around this dataset.
"""

import sys
from collections.abc import Iterator
from typing import Any, Unpack

import torch
from torch.utils.data import IterableDataset, get_worker_info

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import one_of
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.errors import MismatchError, OrderMismatchError
from tokenmill.torch.torch_batch import ITEMS_OF_BATCHES, batch_as
from tokenmill.torch.windows_dataset import shared_number
from tokenmill.torch.world import find_ranks, loader_of, narrow


class WindowsIterable(IterableDataset[Any]):
    """Whole batches of this rank: endless, or one epoch per pass with `epochs=1`.

    `items`: see `as_items`, or `batch` (a TorchBatch, the only one with documents).
    `batch_size` is the rows of ONE rank. With `epochs`, call `set_epoch` before each pass, as with
    a DistributedSampler. `rank_aware=False` serves all ranks' rows in one place, for frameworks
    that divide iterables themselves. Further arguments are those of `tokenmill.BatchLoader`.
    """

    @takes_keywords_of(BatchLoader)
    def __init__(
        self,
        data: Any,
        *,
        batch_size: int,
        block_size: int,
        rank_aware: bool = True,
        items: str = "pair",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        epochs: int | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        one_of("items", items, ITEMS_OF_BATCHES)
        self.items = items
        self._dtype = form.dtype
        self.ranks = find_ranks(*((rank, world_size) if rank_aware else (0, 1)), mesh=mesh)
        self._loader = loader_of(
            self.ranks,
            data,
            narrow(data, form),
            batch_size=batch_size,
            block_size=block_size,
            epochs=epochs,
            **options,
        )
        self._epoch: torch.Tensor = shared_number(-1)
        self._resume: dict[str, Any] | None = None  # a loaded state, used by the next pass
        self._next_step: int | None = None  # None: that of the loader
        self._worker, self._num_workers = 0, 0

    def __len__(self) -> int:
        return len(self._loader)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this one, counted in passes of `epochs`; no effect if endless."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[Any]:
        refuse_inside_accelerate(self.ranks.world_size)
        info, loader = get_worker_info(), self._loader
        worker, num_workers = (0, 0) if info is None else (info.id, info.num_workers)
        first, stride = self._first_step(worker, num_workers), max(1, num_workers)
        self._worker, self._num_workers = worker, num_workers
        for batch in loader.batches(first, stride):
            self._next_step = batch.step + stride
            yield batch_as(batch, self.items, self._dtype)

    def _first_step(self, worker: int, num_workers: int) -> int:
        """Where this worker begins: after a loaded state, or at the start of its epoch."""
        state, self._resume = self._resume, None
        if state is None:
            state, epoch = {**self._loader.state_dict(), "num_workers": 0}, int(self._epoch)
            if self._loader.epochs is not None and epoch >= 0:
                state |= {"samples": self._loader.passes.start_of(epoch), "pass": epoch}
        self._seek(state)
        if state["num_workers"] == 0:
            return self._loader.step + worker
        if (state["worker"], state["num_workers"]) != (worker, num_workers):
            raise OrderMismatchError(
                f"cannot resume: the state is that of worker {state['worker']} of "
                f"{state['num_workers']}, this is worker {worker} of {num_workers}",
                hint="keep num_workers, or use tokenmill.torch.StatefulTokenLoader, whose state "
                "does not depend on it",
            )
        return self._loader.step

    def state_dict(self) -> dict[str, Any]:
        """What comes next in this process; inside a worker, what that worker does next."""
        loader, state = self._loader, self._loader.state_dict()
        if self._next_step is not None:
            ahead = self._next_step - loader.step
            state["samples"] += ahead * loader.batch_size * loader.world_size
        return {**state, "worker": self._worker, "num_workers": self._num_workers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Begin the next pass there; a state of other data or another order is refused."""
        self._resume = state = {"worker": 0, "num_workers": 0, **state}
        self._seek(state)
        self._worker, self._num_workers = state["worker"], state["num_workers"]

    def _seek(self, state: dict[str, Any]) -> None:
        self._loader.load_state_dict(state)
        self._next_step = None

    def __getstate__(self) -> dict[str, Any]:
        refuse_inside_accelerate(self.ranks.world_size)  # on the way to a spawned worker
        return self.__dict__


def refuse_inside_accelerate(world_size: int) -> None:
    """Stop when Accelerate would divide by rank what is divided by rank already.

    Its wrapper lets one process iterate and deals out, or lets each iterate and keeps 1/N: both
    silently lose (N-1)/N of the data of a dataset that gives only the share of this rank.
    """
    if world_size == 1 or "accelerate.data_loader" not in sys.modules:
        return
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "accelerate.data_loader":
            raise MismatchError(
                "a WindowsIterable or TokenDataLoader takes its rank's share, but is inside one "
                "of Accelerate, which shares out by rank once more: most of the data would be lost",
                hint="use tokenmill.torch.WindowsDataset with sequential sampling "
                '(TrainingArguments(train_sampling_strategy="sequential")), or keep the loader out '
                "of accelerator.prepare()",
            )
        frame = frame.f_back  # type: ignore[assignment]
