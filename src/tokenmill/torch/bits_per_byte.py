"""Loss in bits per byte of text: comparable between tokenizers, where loss per token is not."""

import math
from collections.abc import Iterable
from typing import Any

import torch

from tokenmill.batches.batch import IGNORED
from tokenmill.torch.torch_batch import TorchBatch


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
