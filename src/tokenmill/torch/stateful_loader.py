"""A DataLoader with workers that can be stopped and resumed anywhere.

The position is kept here, in the process that trains, and counts the batches handed to it. Workers
hold no position: each request says which batch to make. So what they have made ahead does
not matter, and the number of workers, the start method, `persistent_workers` and the prefetch
depth change neither the order nor the state; a state may be loaded under other ones.

Workers are rarely needed: `TorchLoader` with its one thread is faster. This is for code that is
built around DataLoader and its workers.
"""

from collections.abc import Iterator
from typing import Any, Unpack

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.suggest import one_of
from tokenmill.batches.batch import Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.torch.torch_batch import ITEMS_OF_BATCHES, batch_as
from tokenmill.torch.windows_iterable import refuse_inside_accelerate
from tokenmill.torch.world import find_ranks, loader_of, narrow

_Position = tuple[int, int]  # samples consumed before a batch, and the pass it is in


class StatefulTokenLoader:
    """One epoch a pass (or endless, `epochs=None`) over worker processes; resumable exactly.

    `items`: `pair`, `dict`, `hugging_face`, `window` (see `as_items`) or `batch` (a TorchBatch, the
    only one with documents). `batch_size` is the rows of ONE rank. `workers` takes what DataLoader
    does: multiprocessing_context, persistent_workers, prefetch_factor, pin_memory, timeout. With
    `from_start` every pass begins at the first batch, as validation wants it. Further arguments are
    those of `tokenmill.BatchLoader`.

    It is not a DataLoader, on purpose: Lightning and Accelerate replace the samplers of those.
    """

    @takes_keywords_of(BatchLoader)
    def __init__(
        self,
        data: Any,
        *,
        batch_size: int,
        block_size: int,
        num_workers: int = 0,
        items: str = "pair",
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        epochs: int | None = 1,
        from_start: bool = False,
        workers: dict[str, Any] | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        one_of("items", items, ITEMS_OF_BATCHES)
        self.data, self.num_workers, self.from_start = data, num_workers, from_start
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self._loader = loader_of(
            self.ranks,
            data,
            narrow(data, form),
            batch_size=batch_size,
            block_size=block_size,
            epochs=epochs,
            **options,
        )
        self.batch_size = batch_size
        self._step_length = batch_size * self.ranks.world_size  # in samples, as the next
        if epochs is not None and len(self._loader) == 0:
            raise ValueError(
                f"{data.path} has {len(self._loader.windows()):,} windows of {block_size} in a "
                f"pass; a step takes {self._step_length:,} over all ranks, so none\n\n"
                "hint: a smaller batch_size or block_size"
            )
        self._position: _Position = (0, 0)
        self._positions = _Positions()
        self._workers = DataLoader(
            _BatchAt(self._loader, items, form.dtype),
            batch_size=None,
            sampler=self._positions,
            num_workers=num_workers,
            collate_fn=_unchanged,
            # Its own generator: an iterator would otherwise draw from the global one, and move it.
            generator=torch.Generator(),
            **(workers or {}),
        )

    @property
    def dataset(self) -> Any:
        """The data, under the name that trainers look for."""
        return self.data

    def __len__(self) -> int:
        """Batches of a whole pass, equal on all ranks."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:
        """The rest of the present pass; the next call then begins the next one."""
        if self.from_start:
            self._position = (0, 0)
        position = self._position
        self._positions.upcoming = self._remaining(*position)
        for item in self._workers:
            samples, number = position
            position = self._position = self._settled(samples + self._step_length, number)
            yield item

    def _remaining(self, samples: int, number: int) -> Iterator[_Position]:
        """The position of each batch from here to the end of its pass."""
        while self._settled(samples, number) == (samples, number):
            yield samples, number
            samples += self._step_length

    def _settled(self, samples: int, number: int) -> _Position:
        """This position or, where its pass has no whole batch left, the start of the next pass."""
        end = self._loader.passes.stop_of(number)
        if end is None or samples + self._step_length <= end:
            return samples, number
        return end, number + 1

    def state_dict(self) -> dict[str, Any]:
        """How far the trainer is, in a few JSON values; workers and ranks are not among them."""
        samples, number = self._position
        return {**self._loader.state_dict(), "samples": samples, "pass": number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state; one of other data, seed or block size is refused."""
        before = self._loader.order_fingerprint
        self._loader.load_state_dict(state)
        self._refuse_edits_of_others(before)
        loaded = self._loader.state_dict()
        self._position = self._settled(loaded["samples"], loaded["pass"])

    def _refuse_edits_of_others(self, before: str) -> None:
        """Workers that outlive a pass hold the edits with which they began."""
        is_running = self._workers.persistent_workers and self._workers._iterator is not None
        if is_running and self._loader.order_fingerprint != before:
            raise ValueError(
                "the state has other edits than this loader, and its persistent workers have begun "
                "with those; load it into a new loader"
            )

    def set_epoch(self, epoch: int) -> None:
        """Begin this pass, unless it is the present one: then what was read of it stays read."""
        if self._loader.passes.limits and epoch != self._position[1]:
            self._position = self._loader.passes.start_of(epoch), epoch


class TokenDataLoader(DataLoader[Any]):
    """StatefulTokenLoader, with its arguments, as a subclass of torch's DataLoader.

    For `fabric.setup_dataloaders` and LitGPT (`items="window"`), which accept nothing else. No
    framework puts in a sampler of its own, as its dataset is iterable. `loader` has the position.
    """

    @takes_keywords_of(StatefulTokenLoader)
    def __init__(self, data: Any, **options: Any) -> None:
        self.loader = StatefulTokenLoader(data, **options)
        batches, generator = _Batches(self.loader), torch.Generator()
        super().__init__(batches, batch_size=None, generator=generator, collate_fn=_unchanged)
        # Set here, they are also methods of what Fabric wraps around this.
        self.state_dict = self.loader.state_dict
        self.load_state_dict = self.loader.load_state_dict
        self.set_epoch = self.loader.set_epoch


class _Batches(IterableDataset[Any]):
    def __init__(self, loader: StatefulTokenLoader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        refuse_inside_accelerate(self.loader.ranks.world_size)
        return iter(self.loader)


class _Positions:
    """The sampler: hands out what it was last given."""

    upcoming: Iterator[_Position] = iter(())

    def __iter__(self) -> Iterator[_Position]:
        return self.upcoming


class _BatchAt(Dataset[Any]):
    """What the workers hold: a position in the order -> the batch of this rank from there.

    Positions come in order, to each of several workers in turn: while they do, batches are made
    from one run of steps, which costs a fraction of making each alone.
    """

    def __init__(self, loader: BatchLoader, items: str, dtype: Any) -> None:
        self.loader, self.items, self.dtype = loader, items, dtype
        self._coming: tuple[_Position, Iterator[Batch]] | None = None

    def __getitem__(self, position: _Position) -> Any:
        coming, self._coming = self._coming, None
        info = get_worker_info()
        stride = 1 if info is None else info.num_workers
        samples, number = position
        if coming is None or coming[0] != position:
            state = self.loader.state_dict()
            self.loader.load_state_dict({**state, "samples": samples, "pass": number})
            coming = position, self.loader.batches(self.loader.step, stride)
        batch = next(coming[1])
        step_length = self.loader.batch_size * self.loader.world_size
        self._coming = (samples + stride * step_length, number), coming[1]
        return batch_as(batch, self.items, self.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_coming": None}


def _unchanged(item: Any) -> Any:
    return item
