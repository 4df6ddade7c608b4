"""An OLMo-core data loader: `TrainerConfig.build(train_module, TokenLoader(...))`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from olmo_core.data import DataCollator, TextDataLoaderBase
from torch.nn.utils.rnn import pad_sequence

from tokenmill.torch import TorchBatch, TorchLoader


class TokenLoader(TextDataLoaderBase):  # type: ignore[misc]
    """One epoch per pass of the batches of this rank, {"input_ids", "labels"}.

    `global_batch_size` is in tokens over all ranks, as everywhere in OLMo-core; `options` are for
    `TorchLoader`. With documents, batches also have "doc_lens" and "max_doc_lens". The state
    resumes on another number of ranks and with another batch size.
    """

    def __init__(
        self,
        data: Any,
        *,
        work_dir: Any,
        global_batch_size: int,
        sequence_length: int,
        dp_world_size: int = 1,
        dp_rank: int = 0,
        **options: Any,
    ) -> None:
        if global_batch_size % (sequence_length * dp_world_size):
            raise ValueError(
                f"global_batch_size is {global_batch_size:,} tokens; it must be a multiple of "
                f"sequence_length {sequence_length:,} times {dp_world_size} ranks"
            )
        super().__init__(
            collator=DataCollator(pad_token_id=0),  # for OLMo-core's evaluators
            work_dir=work_dir,
            global_batch_size=global_batch_size,
            dp_world_size=dp_world_size,
            dp_rank=dp_rank,
        )
        shape: dict[str, Any] = {
            "block_size": sequence_length,
            "rank": dp_rank,
            "world_size": dp_world_size,
        }
        self._open = partial(TorchLoader, data, epochs=1, **shape, **options)
        self._row = sequence_length
        self.loader = self._open(batch_size=self.rank_batch_size // self._row)

    @property
    def total_batches(self) -> int:
        return len(self.loader)

    def reshuffle(self, epoch: int | None = None, **_: Any) -> None:
        """Begin an epoch, counted from 1; every one has its own order."""
        self._epoch: int = epoch or self._epoch or 1
        self.loader.set_epoch(self._epoch - 1)

    def _iter_batches(self) -> Iterator[dict[str, Any]]:
        rows = self.rank_batch_size // self._row
        if rows != self.loader.batch_size:  # the trainer has changed the batch size
            state = self.loader.state_dict()
            self.loader = self._open(batch_size=rows)
            self.loader.load_state_dict(state)
        return map(_named, self.loader)

    def get_mock_batch(self) -> dict[str, Any]:
        return _named(self.loader.batch(0))

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self._epoch, "loader": self.loader.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loader.load_state_dict(state_dict["loader"])
        self._epoch = state_dict["epoch"]
        self.batches_processed = self.loader.step
        self.tokens_processed = self.batches_processed * self.global_batch_size


def _named(batch: TorchBatch) -> dict[str, Any]:
    named: dict[str, Any] = {"input_ids": batch.inputs, "labels": batch.labels}
    if batch.positions is not None:
        begins = [row.nonzero().flatten() for row in batch.positions == 0]
        end = torch.tensor([batch.inputs.shape[1]])
        lengths = [torch.diff(each, append=end).int() for each in begins]
        named["doc_lens"] = pad_sequence(lengths, batch_first=True)
        named["max_doc_lens"] = [int(each.max()) for each in lengths]
    return named
