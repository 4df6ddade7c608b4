"""A real `DataLoader` that can be stopped and resumed anywhere, with or without workers.

The position is kept in the process that trains, and counts the batches handed to it. Workers begin
where the loader tells them and take turns by whole batches; what they have made ahead does not
matter. So the number of workers, the start method, `persistent_workers` and the prefetch depth
change neither the order nor the state, and a state may be loaded under other ones. Workers are
rarely needed: `TorchLoader` with its one thread is faster.
"""

from collections.abc import Callable, Iterator
from typing import Any, Unpack

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.batches.batch import IGNORED, Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.errors import MismatchError
from tokenmill.torch.torch_batch import cheapest_form, form_of, refuse_rows
from tokenmill.torch.world import find_ranks

_Position = tuple[int, int]  # samples consumed before a batch, and the pass it is in
_NOWHERE = (-1, -1)


class TokenDataLoader(DataLoader[Any]):
    """One epoch per pass (or endless, `epochs=None`) of the batches of this rank.

    Its dataset is iterable, so no framework replaces its sampler; it finds its rank itself.

    `items` is the form of a batch: `pair`, `dict`, `hugging_face`, `window`, `megatron`, `flash`
    (see `batch_as`) or `batch`, a TorchBatch. `ignore_index` is the label without a loss.
    `batch_size` counts the rows of ONE rank. With `from_start` every pass begins at the first
    batch, as validation wants it. `num_workers` and `workers` (prefetch_factor,
    persistent_workers, pin_memory, ...) are for DataLoader. Further arguments are those of
    `tokenmill.BatchLoader`.
    """

    @takes_keywords_of(BatchLoader)
    def __init__(
        self,
        data: Any,
        *,
        batch_size: int,
        block_size: int,
        items: str = "pair",
        ignore_index: int = IGNORED,
        rank: int | None = None,
        world_size: int | None = None,
        mesh: Any = None,
        epochs: int | None = 1,
        from_start: bool = False,
        num_workers: int = 0,
        workers: dict[str, Any] | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        as_items = form_of(items, ignore_index, options.get("documents"), dtype=form.dtype)
        self.data = data
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self.from_start = from_start
        in_halves = items in ("pair", "dict", "megatron", "batch")
        self._loader = BatchLoader(
            data,
            batch_size=batch_size,
            block_size=block_size,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            epochs=epochs,
            form=cheapest_form(form, data, options, in_halves=in_halves),
            **options,
        )
        self._step_length = batch_size * self.ranks.world_size  # in samples
        if epochs is not None and len(self._loader) == 0:
            raise ValueError(
                f"{data.path} has {len(self._loader.windows()):,} windows of {block_size} in a "
                f"pass; a step takes {self._step_length:,} over all ranks, so there is none\n\n"
                "hint: a smaller batch_size or block_size"
            )
        self._position: _Position = (0, 0)
        super().__init__(
            _Batches(self._loader, as_items),
            batch_size=None,
            num_workers=num_workers,
            collate_fn=_unchanged,
            # Its own generator: an iterator would otherwise draw from the global one, and move it.
            generator=torch.Generator(),
            **(workers or {}),
        )
        # Fabric's wrapper copies the attributes of a loader: as such it has these methods too.
        for method in (self.state_dict, self.load_state_dict, self.set_epoch):
            setattr(self, method.__name__, method)

    def __len__(self) -> int:
        """Batches of a whole pass, equal on all ranks."""
        return len(self._loader)

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        """Yield the rest of the present pass; the next call then begins the next one."""
        if self.from_start:
            self._position = (0, 0)
        position = self._position
        dataset: Any = self.dataset
        dataset.begin_at(position)
        try:
            for item in super().__iter__():
                samples, number = position
                position = self._position = self._settled(samples + self._step_length, number)
                yield item
        finally:
            dataset.begin_at(_NOWHERE)

    __getitem__ = refuse_rows

    def _settled(self, samples: int, number: int) -> _Position:
        """This position or, where its pass has no whole batch left, the start of the next pass."""
        end = self._loader.passes.stop_of(number)
        if end is None or samples + self._step_length <= end:
            return samples, number
        return end, number + 1

    def state_dict(self) -> dict[str, Any]:
        """Return the trainer's position in a few JSON values, without workers and ranks."""
        samples, number = self._position
        return {**self._loader.state_dict(), "samples": samples, "pass": number}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state; one of other data, seed or block size is refused."""
        before = self._loader.order_fingerprint
        self._loader.load_state_dict(state)
        has_live_workers = self.persistent_workers and self._iterator is not None
        if has_live_workers and self._loader.order_fingerprint != before:
            raise ValueError(
                "the state has other edits than this loader, and its persistent workers have begun "
                "with those; load it into a new loader"
            )
        loaded = self._loader.state_dict()
        self._position = self._settled(loaded["samples"], loaded["pass"])

    def set_epoch(self, epoch: int) -> None:
        """Begin this pass, unless it is the present one: then what was read of it stays read."""
        self._loader.set_epoch(epoch)  # refuses what is no epoch
        if self._loader.passes.limits and epoch != self._position[1]:
            self._position = (self._loader.passes.start_of(epoch), epoch)


class _Batches(IterableDataset[Any]):
    """The batches of a pass from where its loader says; in a worker, every n-th of them.

    The position is in shared memory, since persistent workers see a later pass of the loader only
    there. Accelerate puts the dataset of a loader into one that divides by rank a second time, and
    would silently lose most of the data. Such a reader never sets a position, and is refused.
    """

    def __init__(self, loader: BatchLoader, form: Callable[[Batch], Any]) -> None:
        self.loader = loader
        self.form = form
        self._start = torch.tensor(_NOWHERE, dtype=torch.int64)
        self._start.share_memory_()  # type: ignore[no-untyped-call]

    def begin_at(self, position: _Position) -> None:
        self._start.copy_(torch.tensor(position))

    def __iter__(self) -> Iterator[Any]:
        samples, number = self._start.tolist()  # read now: a later pass may set another
        return self._batches(samples, number)

    def _batches(self, samples: int, number: int) -> Iterator[Any]:
        if (samples, number) == _NOWHERE:
            raise MismatchError(
                "the dataset of a TokenDataLoader is read by another loader, as Accelerate's "
                "prepare() does; it would be divided by rank twice and most of the data be lost",
                hint="use tokenmill.torch.WindowsDataset with sequential sampling "
                '(TrainingArguments(train_sampling_strategy="sequential")), or keep the loader out '
                "of accelerator.prepare()",
            )
        state = {**self.loader.state_dict(), "samples": samples, "pass": number}
        self.loader.load_state_dict(state)
        worker = get_worker_info()
        first, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        yield from map(self.form, self.loader.batches_ahead(self.loader.step + first, stride))


def _unchanged(item: Any) -> Any:
    return item


@takes_keywords_of(TokenDataLoader, but=("order", "from_start"))
def validation_loader(
    data: Any, *, batch_size: int, block_size: int, **options: Any
) -> TokenDataLoader:
    """Return a loader of the windows in order, from the first one in every pass.

    Of a small dataset it gives one shorter batch, equal on all ranks.
    """
    rank, world_size, mesh = (options.get(name) for name in ("rank", "world_size", "mesh"))
    ranks = find_ranks(rank, world_size, mesh=mesh)
    num_tokens = getattr(data, "num_tokens", 0)  # what has none is refused below
    rows = max(1, (num_tokens - 1) // block_size // ranks.world_size)
    return TokenDataLoader(
        data,
        batch_size=min(batch_size, rows),
        block_size=block_size,
        order="sequential",
        from_start=True,
        **options,
    )
