"""The batch loader as tensors on a device.

Inputs and targets are contiguous. On a GPU they are cut after the copy, and the next batch is on
its way while the present one is used (device_copy.py). Each process takes its share of every step
(world.py finds which, and `loader.ranks` says where it was found).

    loader = TorchLoader(data, batch_size=8, block_size=1024, seed=0)
    for inputs, targets in loader:
        ...
    state = loader.state_dict()     # a few JSON values; counts what this loop has taken
"""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.batches.batch import Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.errors import MismatchError
from tokenmill.torch.device_copy import CudaCopier
from tokenmill.torch.torch_batch import TorchBatch, from_arrays
from tokenmill.torch.world import find_ranks, loader_of, narrow

if TYPE_CHECKING:
    from tokenmill.edits.edit_values import Edit

# A batch on its way to the device: its tokens there, the event of their copy, and the state of the
# loader once the batch is taken.
_Coming = tuple[Batch, torch.Tensor, torch.cuda.Event, dict[str, Any]]


class TorchLoader:
    """Endless (or `epochs=n`) batches of one rank as tensors; resumable at any step.

    `data`, `batch_size` (rows of ONE rank) and all further arguments are those of
    `tokenmill.BatchLoader`; ids are int64 in the end, whatever `dtype` is. With `vocab_size` an id
    beyond it is an error that names the value, where a GPU would only report a failed assert.
    `mesh` is a torch DeviceMesh (see `find_ranks`). A loader is its own iterator.
    """

    @takes_keywords_of(BatchLoader)
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
        epochs: int | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self.device = torch.device(device)
        self.vocab_size = vocab_size
        is_plain = not (options.get("documents") or options.get("augment"))
        if self.device.type == "cpu" and is_plain and options.get("rows", "windows") == "windows":
            form = replace(form, dtype="int64", halves=True)
        else:  # widened when they are tensors
            form = narrow(data, replace(form, dtype="int64"))
        self.loader = loader_of(
            self.ranks,
            data,
            form,
            batch_size=batch_size,
            block_size=block_size,
            epochs=epochs,
            **options,
        )
        self._copier = CudaCopier(self.device) if self.device.type == "cuda" else None
        self._coming: _Coming | None = None
        self._state = self.loader.state_dict()

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Self:
        if self._coming is None:
            iter(self.loader)
        return self

    def __next__(self) -> TorchBatch:
        if self._copier is None:
            made = from_arrays(self._checked(next(self.loader)))
            return made if self.device.type == "cpu" else made.to(self.device)
        batch, tokens, event, self._state = self._coming or self._start(self._copier)
        tokens, self._coming = self._copier.finish(tokens, event), None
        with suppress(StopIteration):
            self._coming = self._start(self._copier)
        return from_arrays(batch, tokens)

    def _start(self, copier: CudaCopier) -> _Coming:
        """Begin the copy of the next batch to the device."""
        batch = self._checked(next(self.loader))
        return batch, *copier.start(batch.tokens), self.loader.state_dict()

    def _checked(self, batch: Batch) -> Batch:
        if self.vocab_size is None or int(batch.inputs.max()) < self.vocab_size > int(
            batch.rows.targets.max()
        ):
            return batch
        row, column = np.argwhere(batch.tokens >= self.vocab_size)[0].tolist()
        place = self.loader.locate(batch.step, row, column)
        raise MismatchError(
            f"token id {int(batch.tokens[row, column]):,} at token {place.offset:,} of "
            f"{place.file}; the vocabulary has {self.vocab_size:,} ids",
            hint="the files were made with another tokenizer, or read with the wrong dtype: "
            "`tokenmill verify` says which",
        )

    def describe(self, step: int) -> list[str]:
        """Where each row of a step's batch comes from, in words."""
        lines = []
        for row in range(self.loader.batch_size):
            place = self.loader.locate(step, row)
            document = "" if place.document is None else f", document {place.document:,}"
            lines.append(
                f"row {row}: sample {place.sample:,}, {place.file} from token "
                f"{place.offset:,}{document}"
            )
        return lines

    def state_dict(self) -> dict[str, Any]:
        """Where this loop is: what it has taken, not what is on its way."""
        return self.loader.state_dict() if self._copier is None else dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state, also one of other ranks or batch sizes."""
        self._coming = None
        self.loader.load_state_dict(state)
        self._state = self.loader.state_dict()

    def edit(self, *edits: "Edit", at: int | None = None, note: str | None = None) -> None:
        """Change the order from step `at` on, by default the next one, as `BatchLoader.edit`."""
        self.close()  # a batch that is on its way may be another one now
        self.loader.edit(*edits, at=at, note=note)
        self._state = self.loader.state_dict()

    def set_epoch(self, epoch: int) -> None:
        """For trainers that call it; each epoch has an order of its own without it."""
        self.loader.set_epoch(epoch)

    def stats(self) -> dict[str, Any]:
        return self.loader.stats()

    def close(self) -> None:
        """End the prefetching thread; iterating again starts a new one."""
        if self._coming is not None:
            self.load_state_dict(self._state)
        self.loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
