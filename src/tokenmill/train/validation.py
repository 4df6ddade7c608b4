"""Validation on fixed batches: the same windows in the same batches on any number of ranks.

The first `num_batches` batches of one fixed shuffle of a validation set are read once and kept.
Ranks take turns on whole batches, and the sums are put together in batch order, so the loss has
the same bits on 1, 2 or 512 ranks of one kind of machine. They are windows whatever the rows of
the training are, so that runs with other rows can be compared.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tokenmill.batches.batch import IGNORED
from tokenmill.batches.batch_form import BatchForm
from tokenmill.errors import FormatError
from tokenmill.torch.torch_batch import TorchBatch
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.torch.world import Ranks
from tokenmill.train.collectives import sum_over_ranks
from tokenmill.train.config import TrainConfig
from tokenmill.train.run_data import TrainingData

SEED = 0  # of the fixed shuffle; not the run's seed, so that runs can be compared


class Validation:
    """Fixed batches of one validation set."""

    def __init__(self, name: str, data: TrainingData, config: TrainConfig) -> None:
        held_out = data.held_out[name]
        block_size = config.block_size
        num_tokens = held_out.num_tokens
        num_windows = max(0, num_tokens - 1) // block_size
        if num_windows == 0:
            raise FormatError(
                f"the validation split {name} has {num_tokens:,} tokens; "
                f"one window of block_size {block_size} needs {block_size + 1:,}",
                hint="a smaller block_size=, more held-out data, or eval_interval=0",
            )
        batch_size = min(config.eval_batch_size, num_windows)
        loader = TorchLoader(
            held_out,
            batch_size=batch_size,
            block_size=block_size,
            seed=SEED,
            rank=0,
            world_size=1,
            vocab_size=data.vocab_size,
            documents=data.documents,
            form=BatchForm(prefetch=0),
        )
        num_batches = min(config.eval_batches, num_windows // batch_size)
        self.batches = [next(loader) for _ in range(num_batches)]

    def loss(self, sum_of_losses: Callable[[TorchBatch], torch.Tensor], ranks: Ranks) -> float:
        """Mean loss over all targets of the fixed batches, the same on every rank."""
        sums = torch.zeros(len(self.batches), dtype=torch.float64)
        with torch.no_grad():
            for i in range(ranks.rank, len(self.batches), ranks.world_size):
                sums[i] = sum_of_losses(self.batches[i]).double().cpu()
        sum_over_ranks(sums)  # every other rank adds zero, which is exact
        return float(sums.sum()) / sum(batch.num_targets for batch in self.batches)


class TextBytes:
    """How many bytes of text the targets of batches are; known where the tokenizer is."""

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        self._of_id: torch.Tensor | None = None
        if tokenizer is not None:
            sizes = torch.tensor([len(text) for text in tokenizer.bytes_of_ids()])
            self._of_id = torch.zeros(max(vocab_size, len(sizes)), dtype=torch.int64)
            self._of_id[: len(sizes)] = sizes

    def count(self, batches: Iterable[TorchBatch]) -> tuple[int, int]:
        """Targets that count, and the bytes of text they are."""
        num_targets = num_bytes = 0
        for batch in batches:
            labels = batch.labels.cpu()
            labels = labels[labels != IGNORED]
            num_targets += labels.numel()
            num_bytes += 0 if self._of_id is None else int(self._of_id[labels].sum())
        return num_targets, num_bytes


def bits_per_byte(loss: float, num_targets: float, num_bytes: float) -> float | None:
    """The loss of a target, in nats, as bits for each byte; None where bytes are not known."""
    return loss / math.log(2) * num_targets / num_bytes if num_bytes else None
