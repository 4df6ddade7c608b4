"""Making batches: from a step number to arrays. Knows no position; a loader or a thread asks it.

Positions are computed for many steps at a time: the arithmetic of the order costs about 70 NumPy
calls however many positions it is given. The first batch is computed alone, so that it comes at
once, then twice as many each time up to `POSITIONS_AT_ONCE`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tokenmill.batches.batch import Batch
from tokenmill.batches.documents import Marks, blank_firsts, find_firsts, mark_documents
from tokenmill.batches.gather import RowReader, check_ids_fit
from tokenmill.batches.spare import Spares
from tokenmill.dataset import TokenDataset
from tokenmill.order.plan import Plan
from tokenmill.order.ranks import Ranks

POSITIONS_AT_ONCE = 1 << 16
_EPOCHS_AT_ONCE = 32  # a tiny dataset has many epochs in few steps, and each has keys of its own


class Maker:
    """Everything a batch is made from."""

    def __init__(
        self,
        datasets: Sequence[TokenDataset],
        plan: Plan,
        ranks: Ranks,
        dtype: np.dtype[Any],
        *,
        documents: bool = False,
        max_documents: int | None = None,
    ) -> None:
        """`documents`: whether batches say where documents lie; see `mark_documents`."""
        self.datasets = datasets
        self.plan = plan
        self.ranks = ranks
        self.dtype = dtype
        self.documents = documents
        self.max_documents = max_documents
        self._readers = [RowReader(data, plan.block_size + 1) for data in datasets]
        self._narrows = [not np.can_cast(data.dtype, dtype, "safe") for data in datasets]
        self._spares = Spares()
        self._spares_of_marks = Spares()

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
            shards, offsets = self._place(sources, starts)
            for i in range(num_steps):
                tokens, marks = self._rows(sources[i], starts[i], shards[i], offsets[i])
                yield Batch(tokens, step + i, samples[i], starts[i], sources[i], marks)
            step += num_steps
            num_steps = min(2 * num_steps, most)

    def rows(self, samples: np.ndarray) -> np.ndarray:
        """The tokens of these samples, (n, block_size + 1)."""
        sources, starts = self.plan.locate(samples)
        return self._rows(sources, starts, *self._place(sources, starts))[0]

    def _place(self, sources: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The shard, and the token within it, of each start."""
        if len(self._readers) == 1:
            return self._readers[0].place(starts)
        shards, offsets = np.empty_like(starts), np.empty_like(starts)
        for s, reader in enumerate(self._readers):
            mine = sources == s
            shards[mine], offsets[mine] = reader.place(starts[mine])
        return shards, offsets

    def _rows(
        self, sources: np.ndarray, starts: np.ndarray, shards: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, Marks | None]:
        """The tokens of each row and, if asked for, where documents lie in them."""
        num_rows, length = len(starts), self.plan.block_size + 1
        firsts = blank_firsts(num_rows, length) if self.documents else None
        if len(self._readers) == 1:
            stored = self._readers[0].take(shards, offsets)
            if firsts is not None:
                find_firsts(self.datasets[0], stored, starts, firsts)
            marks = self._marks(firsts, num_rows)  # before widening drives all from the cache
            return self._converted(stored, 0), marks
        tokens = np.empty((num_rows, length), self.dtype)
        for s, reader in enumerate(self._readers):
            mine = np.flatnonzero(sources == s)
            stored = reader.take(shards[mine], offsets[mine])
            tokens[mine] = self._converted(stored, s)
            if firsts is not None:
                theirs = blank_firsts(len(mine), length)
                find_firsts(self.datasets[s], stored, starts[mine], theirs)
                firsts[:-1].reshape(num_rows, length)[mine] = theirs[:-1].reshape(-1, length)
        return tokens, self._marks(firsts, num_rows)

    def _marks(self, firsts: np.ndarray | None, num_rows: int) -> Marks | None:
        if firsts is None:
            return None
        return mark_documents(firsts, num_rows, self.max_documents, self._spares_of_marks)

    def _converted(self, stored: np.ndarray, source: int) -> np.ndarray:
        """The rows in the dtype of batches."""
        if stored.dtype == self.dtype:
            return stored
        if self._narrows[source]:
            check_ids_fit(self.datasets[source], stored, self.dtype)
        tokens = self._spares.array(stored.shape, self.dtype)
        np.copyto(tokens, stored, casting="unsafe")
        return tokens

    def _most_steps_at_once(self) -> int:
        smallest = min(source.samples_per_epoch for source in self.plan.sources)
        by_epochs = _EPOCHS_AT_ONCE * smallest // self.ranks.samples_per_step
        return max(1, min(POSITIONS_AT_ONCE // self.ranks.batch_size, by_epochs))
