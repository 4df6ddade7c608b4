"""A DataLoader with workers that can be stopped and resumed anywhere.

The position lives here, in the process that trains, and counts the batches handed to it. Workers
hold no position: each request tells them which batch to make. So what they have made ahead does
not matter, and the number of workers, the start method, `persistent_workers` and the prefetch
depth change neither the order nor the state; a state may be loaded under other ones.

Workers are rarely needed: `TorchLoader` with its one thread is faster. This is for code that is
built around DataLoader and its workers.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from tokenmill.batches.loader import BatchLoader
from tokenmill.torch.torch_batch import TorchBatch, from_arrays
from tokenmill.torch.windows_dataset import check_kind, present
from tokenmill.torch.world import find_ranks

_Place = tuple[int, int]  # samples consumed before a batch, and the pass it is in


class StatefulTokenLoader:
    """One epoch a pass (or endless, `epochs=None`) over worker processes; resumable exactly.

    `items`: `pair`, `dict`, `hugging_face` or `batch` (a TorchBatch, the only one with
    documents). `workers` takes what DataLoader does: multiprocessing_context, persistent_workers,
    prefetch_factor, pin_memory, timeout. With `from_start` every pass begins at the first batch,
    as validation wants it. Further arguments are those of `tokenmill.BatchLoader`.

    It is not a DataLoader, on purpose: Lightning and Accelerate replace the samplers of those.
    """

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
        **options: Any,
    ) -> None:
        if items != "batch":
            check_kind(items)
        self.data, self.num_workers, self.from_start = data, num_workers, from_start
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self._loader = BatchLoader(
            data,
            batch_size=batch_size,
            block_size=block_size,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            epochs=epochs,
            prefetch=options.pop("prefetch", 0),
            **options,
        )
        if epochs is not None and len(self._loader) == 0:
            raise ValueError(
                f"{data.path} has {self._pass_length():,} windows of {block_size} in a pass; "
                f"a step takes {batch_size * self.ranks.world_size:,} over all ranks, so there "
                "would be none\n\nhint: a smaller batch_size or block_size"
            )
        self.batch_size = batch_size
        self._place: _Place = (0, 0)
        self._places = _Places()
        self._workers = DataLoader(
            _BatchAtPlace(self._loader, items),
            batch_size=None,
            sampler=self._places,
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
        """The rest of the present pass; then the next call begins the next one."""
        if self.from_start:
            self._place = (0, 0)
        self._places.upcoming = self._remaining(self._place)
        following = self._remaining(self._place)
        next(following, None)
        for item in self._workers:
            self._place = next(following, None) or self._next_pass()
            yield item

    def _remaining(self, place: _Place) -> Iterator[_Place]:
        """Where each batch begins from a place to the end of its pass."""
        samples, number = place
        size = self._loader.batch_size * self._loader.world_size
        end = None if self._loader.epochs is None else (number + 1) * self._pass_length()
        while end is None or samples + size <= end:
            yield samples, number
            samples += size

    def _pass_length(self) -> int:
        return len(self._loader.windows())

    def _next_pass(self) -> _Place:
        """A pass that was served whole is over: what is saved now is the start of the next."""
        number = self._place[1] + 1
        return number * self._pass_length(), number

    def state_dict(self) -> dict[str, Any]:
        """Where the trainer is: a few JSON values, the same for any number of workers and ranks."""
        samples, number = self._place
        return {**self._loader.state_dict(), "samples": samples, "pass": number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state; one of other data, seed or block size is refused."""
        self._loader.load_state_dict(state)
        loaded = self._loader.state_dict()
        self._place = loaded["samples"], loaded["pass"]
        if self._loader.epochs is not None and next(self._remaining(self._place), None) is None:
            self._place = self._next_pass()

    def set_epoch(self, epoch: int) -> None:
        """Begin this pass, unless it is the present one: then what was read of it stays read."""
        if self._loader.epochs is not None and epoch != self._place[1]:
            self._place = epoch * self._pass_length(), epoch


class _Places:
    """The sampler: hands out what it was last given."""

    upcoming: Iterator[_Place] = iter(())

    def __iter__(self) -> Iterator[_Place]:
        return self.upcoming


class _BatchAtPlace(Dataset[Any]):
    """What lives in the workers: a place in the order -> this rank's batch from there."""

    def __init__(self, loader: BatchLoader, items: str) -> None:
        self.loader, self.items = loader, items
        self.state = loader.state_dict()

    def __getitem__(self, place: _Place) -> Any:
        samples, number = place
        self.loader.load_state_dict({**self.state, "samples": samples, "pass": number})
        batch = self.loader.batch(self.loader.step)
        tokens = torch.from_numpy(batch.tokens)
        made: TorchBatch | Any = from_arrays(batch, tokens)
        return made if self.items == "batch" else present(tokens, self.items)


def _unchanged(item: Any) -> Any:
    return item
