"""The batch loader as tensors on a device.

Inputs and targets are contiguous. Ids travel to a GPU in the width of the file, a quarter of the
bytes of int64, from pinned memory so that the CPU does not wait; they are widened and cut there.
"""

from dataclasses import replace
from typing import Any, Self, Unpack

import torch

from tokenmill.base.signatures import takes_keywords_of
from tokenmill.base.stalls import waiting_for
from tokenmill.batches.batch import IGNORED, Batch
from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.loader import BatchLoader
from tokenmill.batches.run import LoaderKeywords
from tokenmill.torch.torch_batch import TorchBatch, cheapest_form, form_of, from_arrays, refuse_rows
from tokenmill.torch.world import find_ranks


def known_device(device: str | torch.device) -> torch.device:
    """Return a device of this machine; one that torch cannot use here is refused."""
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).partition("\n")[0]
        raise ValueError(
            f'device is {str(device)!r}, which torch cannot use here ({why})\n\nhint: device="cpu"'
        ) from None
    return found


class TorchLoader(BatchLoader):
    """Endless (or `epochs=n`) batches of one rank as tensors, for your own loop.

    A `tokenmill.BatchLoader`, with its arguments and methods, whose batches are tensors. Ids are
    int64, whatever `form` says. With `vocab_size` an id beyond it is an error that names the value,
    where a GPU would only report a failed assert. `ignore_index` is the label where there is no
    loss. The share of this process is found by `find_ranks`, and kept as `ranks`; `mesh` is a torch
    DeviceMesh.
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
        ignore_index: int = IGNORED,
        epochs: int | None = None,
        form: BatchForm = BatchForm(),  # noqa: B008 - it is frozen
        **options: Unpack[LoaderKeywords],
    ) -> None:
        self.ranks = find_ranks(rank, world_size, mesh=mesh)
        self.ignore_index = ignore_index
        self._form = form_of("batch", ignore_index, documents=None)
        self.device = known_device(device)
        self._is_cpu = self.device.type == "cpu"
        form = replace(form, dtype="int64", vocab_size=vocab_size or form.vocab_size)
        super().__init__(
            data,
            batch_size=batch_size,
            block_size=block_size,
            rank=self.ranks.rank,
            world_size=self.ranks.world_size,
            epochs=epochs,
            form=cheapest_form(form, data, options, in_halves=self._is_cpu),
            **options,
        )

    def __next__(self) -> TorchBatch:  # type: ignore[override]
        batch = super().__next__()
        if self._is_cpu:
            made: TorchBatch = self._form(batch)
            return made
        with waiting_for(f"a copy to {self.device}", self._maker.times["copy"]):
            return self._as_tensors(batch)

    def batch(self, step: int) -> TorchBatch:  # type: ignore[override]
        """Return the batch of any step (of this pass) as tensors, without moving the loader."""
        return self._as_tensors(super().batch(step))

    def _as_tensors(self, batch: Batch) -> TorchBatch:
        if self.device.type != "cuda":
            made: TorchBatch = self._form(batch)
            return made if self._is_cpu else made.to(self.device)
        ids = torch.from_numpy(batch.tokens).pin_memory()
        ids = ids.to(self.device, non_blocking=True).to(torch.int64)
        return from_arrays(batch, ids, ignore_index=self.ignore_index)

    __getitem__ = refuse_rows

    @property
    def dataset(self) -> None:
        """None of torch's: Accelerate asks for it, to skip batches."""
        raise AttributeError(
            "a TorchLoader is no DataLoader around a dataset\n\nhint: to skip batches, load its "
            "state; or give Accelerate a DataLoader of tokenmill.torch.WindowsDataset"
        )

    def describe(self, step: int) -> list[str]:
        """The file and token that each row of a step's batch comes from, in words."""
        lines = []
        for row in range(self.batch_size):
            place = self.locate(step, row)
            document = "" if place.document is None else f", document {place.document:,}"
            lines.append(
                f"row {row}: sample {place.sample:,}, {place.file} from token "
                f"{place.offset:,}{document}"
            )
        return lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
