"""The batch loader as tensors on a device.

Inputs and targets are contiguous. Ids travel to a GPU in the width of the file, a quarter of the
bytes of int64, from pinned memory so that the CPU does not wait; they are widened and cut there.
Each process takes its share of every step (world.py finds which, and `loader.ranks` says where it
was found).

    loader = TorchLoader(data, batch_size=8, block_size=1024, seed=0)
    for inputs, targets in loader:
        ...
    state = loader.state_dict()     # a few JSON values; counts what this loop has taken
"""

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
from tokenmill.torch.torch_batch import TorchBatch, from_arrays
from tokenmill.torch.world import find_ranks, loader_of

if TYPE_CHECKING:
    from tokenmill.edits.edit_values import Edit


class TorchLoader:
    """Endless (or `epochs=n`) batches of one rank as tensors, for your own loop.

    `data`, `batch_size` (rows of ONE rank) and all further arguments are those of
    `tokenmill.BatchLoader`; ids are int64, whatever `form` says. With `vocab_size` an id beyond it
    is an error that names the value, where a GPU would only report a failed assert.
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
        self.loader = loader_of(
            self.ranks,
            data,
            replace(form, dtype="int64"),
            in_halves=self.device.type == "cpu",
            batch_size=batch_size,
            block_size=block_size,
            epochs=epochs,
            **options,
        )

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Self:
        iter(self.loader)
        return self

    def __next__(self) -> TorchBatch:
        batch = self._checked(next(self.loader))
        if self.device.type != "cuda":
            made = from_arrays(batch)
            return made if self.device.type == "cpu" else made.to(self.device)
        ids = torch.from_numpy(batch.tokens).pin_memory()
        return from_arrays(batch, ids.to(self.device, non_blocking=True).to(torch.int64))

    def _checked(self, batch: Batch) -> Batch:
        if self.vocab_size is None:
            return batch
        if max(int(batch.inputs.max()), int(batch.targets.max())) < self.vocab_size:
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
        """The file and token that each row of a step's batch comes from, in words."""
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
        """The position of this loop: what it has taken, not what is made ahead."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a state, also one of other ranks or batch sizes."""
        self.loader.load_state_dict(state)

    def edit(self, *edits: "Edit", at: int | None = None, note: str | None = None) -> None:
        """Change the order from step `at` on, by default the next one, as `BatchLoader.edit`."""
        self.loader.edit(*edits, at=at, note=note)

    def set_epoch(self, epoch: int) -> None:
        """For trainers that call it; each epoch has an order of its own without it."""
        self.loader.set_epoch(epoch)

    def stats(self) -> dict[str, Any]:
        return self.loader.stats()

    def close(self) -> None:
        """End the prefetching thread; iterating again starts a new one."""
        self.loader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
