"""Validation on fixed batches: the same windows in the same batches on any number of ranks.

The first `num_batches` batches of one fixed shuffle of the validation split are read once and
kept. Ranks take turns on whole batches, and the sums are put together in batch order, so the
loss has the same bits on 1, 2 or 512 ranks of one kind of machine.
"""

from collections.abc import Callable

import torch

from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.torch.torch_batch import TorchBatch
from tokenmill.torch.torch_loader import TorchLoader
from tokenmill.train.collectives import sum_over_ranks

SEED = 0  # of the fixed shuffle; not the run's seed, so that runs can be compared


class Validation:
    """Fixed batches of held-out data."""

    def __init__(
        self,
        data: TokenDataset,
        *,
        block_size: int,
        batch_size: int,
        num_batches: int,
        vocab_size: int,
        documents: bool,
    ) -> None:
        num_windows = max(0, data.num_tokens - 1) // block_size
        if num_windows == 0:
            raise FormatError(
                f"the validation split has {data.num_tokens:,} tokens; "
                f"one window of block_size {block_size} needs {block_size + 1:,}",
                hint="a smaller --block_size, more held-out data, or --eval_interval 0",
            )
        batch_size = min(batch_size, num_windows)
        loader = TorchLoader(
            data,
            batch_size=batch_size,
            block_size=block_size,
            seed=SEED,
            device="cpu",
            rank=0,
            world_size=1,
            vocab_size=vocab_size,
            documents=documents,
            prefetch=0,
        )
        self.batches = [next(loader) for _ in range(min(num_batches, num_windows // batch_size))]

    def loss(
        self,
        sum_of_losses: Callable[[TorchBatch], torch.Tensor],
        *,
        rank: int,
        world_size: int,
        device: torch.device,
    ) -> float:
        """Mean loss over all targets of the fixed batches, the same on every rank."""
        sums = torch.zeros(len(self.batches), dtype=torch.float64)
        with torch.no_grad():
            for i in range(rank, len(self.batches), world_size):
                sums[i] = sum_of_losses(self.batches[i].to(device)).double().cpu()
        sum_over_ranks(sums)  # every other rank adds zero, which is exact
        return float(sums.sum()) / sum(batch.num_targets for batch in self.batches)
