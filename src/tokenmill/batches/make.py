"""Making batches: from a step number to arrays. Knows no position; a loader or a thread asks it.

Positions are computed for many steps at a time: the arithmetic of the order costs about 70 NumPy
calls however many positions it is given. The first batch is computed alone, so that it comes at
once, then twice as many each time up to `POSITIONS_AT_ONCE`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.batches.batch import Batch
from tokenmill.batches.documents import Marks, first_of_document, mark_documents
from tokenmill.batches.gather import stored_rows
from tokenmill.dataset import TokenDataset
from tokenmill.order.plan import Plan
from tokenmill.order.ranks import Ranks

POSITIONS_AT_ONCE = 1 << 16
_EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has keys of its own


@dataclass(frozen=True)
class Maker:
    """Everything a batch is made from."""

    datasets: Sequence[TokenDataset]
    plan: Plan
    ranks: Ranks
    dtype: np.dtype[Any]
    max_documents: int | None
    """Room for documents a row in `cu_seqlens`; None: no fields about documents."""

    def batch(self, step: int) -> Batch:
        """The batch of one step."""
        return next(self.run(step, step + 1))

    def run(self, first_step: int, stop_step: int | None = None) -> Iterator[Batch]:
        """The batches of the steps from `first_step` on, before `stop_step` if there is one."""
        step, num_steps = first_step, 1
        most = self._most_steps_at_once()
        while stop_step is None or step < stop_step:
            if stop_step is not None:
                num_steps = min(num_steps, stop_step - step)
            samples = self.ranks.samples(step, num_steps)
            sources, starts = self.plan.locate(samples)
            for number, data in enumerate(self.datasets):
                data.expect(starts[sources == number])
            for i in range(num_steps):
                yield self._assemble(step + i, samples[i], sources[i], starts[i])
            step += num_steps
            num_steps = min(2 * num_steps, most)

    def rows(self, sources: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The tokens of these windows, (n, block_size + 1), in the dtype of the batches."""
        return self._gather(sources, starts)[0]

    def _assemble(
        self, step: int, samples: np.ndarray, sources: np.ndarray, starts: np.ndarray
    ) -> Batch:
        tokens, marks = self._gather(sources, starts)
        batch = Batch(tokens, step, samples, starts, sources)
        if marks is not None:
            batch.document_ids, batch.positions, batch.loss_mask = marks[:3]
            batch.cu_seqlens, batch.max_seqlen = marks[3:]
        return batch

    def _gather(self, sources: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, Marks | None]:
        length = self.plan.block_size + 1
        with_documents = self.max_documents is not None
        first = np.empty((len(starts), length - 1), bool) if with_documents else None
        if len(self.datasets) == 1:
            stored = stored_rows(self.datasets[0], starts, length)
            tokens = stored.astype(self.dtype, copy=False)
            if with_documents:
                first = first_of_document(self.datasets[0], stored, starts)
        else:
            tokens = np.empty((len(starts), length), self.dtype)
            for s, data in enumerate(self.datasets):
                mine = np.flatnonzero(sources == s)
                if mine.size:
                    stored = stored_rows(data, starts[mine], length)
                    tokens[mine] = stored
                    if first is not None:
                        first[mine] = first_of_document(data, stored, starts[mine])
        if first is None or self.max_documents is None:
            return tokens, None
        return tokens, mark_documents(first, self.max_documents)

    def _most_steps_at_once(self) -> int:
        smallest = min(source.samples_per_epoch for source in self.plan.sources)
        by_epochs = _EPOCHS_AT_ONCE * smallest // self.ranks.samples_per_step
        return max(1, min(POSITIONS_AT_ONCE // self.ranks.batch_size, by_epochs))
