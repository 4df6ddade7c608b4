"""A batch as tensors.

Inputs and targets are contiguous, each in memory of its own, so that `.view(-1)` works on both.
The core hands over ids in the width of the file, and each half is widened from there: two
copies in all, where widening the window and then copying both halves would be three.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tokenmill.batches.batch import Batch

ITEMS = ("pair", "dict", "hugging_face", "window")
ITEMS_OF_BATCHES = (*ITEMS, "batch")
IGNORED = -100  # the label that cross-entropy leaves out, here and in Hugging Face models


@dataclass(frozen=True)
class TorchBatch:
    """Windows of one step and rank; unpacks as `inputs, targets = batch`."""

    inputs: Tensor
    """(B, T) int64."""
    targets: Tensor
    """(B, T) int64: the token after each input."""
    document_ids: Tensor | None = None
    """(B, T): which document of its window a token is in; None unless `documents=True`."""
    positions: Tensor | None = None
    """(B, T): place in that document, counted from the start of the window."""
    loss_mask: Tensor | None = None
    """(B, T) bool: false where the target is the first token of the next document."""
    cu_seqlens: Tensor | None = None
    """Ends of documents over the whole flattened batch, int32, of fixed length."""
    max_seqlen: int | None = None
    sources: Tensor | None = None
    """(B,): the source of each row, as its place in the mixture (0 without one)."""
    num_targets: int = 0
    """Targets that count: all, or those of the loss mask."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.inputs, self.targets))

    def to(self, device: torch.device | str) -> Self:
        return self._each(lambda tensor: tensor.to(device))

    def split(self, rows: int) -> list[Self]:
        """Micro-batches of at most so many rows. `cu_seqlens` is for the whole, and left out."""
        total = len(self.inputs)
        if rows >= total:
            return [self]
        whole = replace(self, cu_seqlens=None, max_seqlen=None)
        return [
            whole._each(lambda tensor, at=at: tensor[at : at + rows])
            for at in range(0, total, rows)
        ]

    def _each(self, change: Any) -> Self:
        tensors = {name: v for name, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **{name: change(tensor) for name, tensor in tensors.items()})

    def as_dict(self) -> dict[str, Tensor]:
        """`{"input_ids", "labels", ...}` with labels already shifted: labels[t] follows input t.

        For a loss of your own. A Hugging Face model shifts by itself: use `for_hugging_face`.
        """
        labels = self.targets
        if self.loss_mask is not None:
            labels = labels.masked_fill(~self.loss_mask, IGNORED)
        named = {"input_ids": self.inputs, "labels": labels}
        if self.positions is not None:
            named["position_ids"] = self.positions
        return named

    def for_hugging_face(self) -> dict[str, Tensor]:
        """`{"input_ids", "labels"}` for a causal model of transformers, which shifts labels itself.

        Both are the T + 1 tokens of the window, so the model's loss is over exactly our T targets
        and none is lost. The model sees T + 1 tokens: for a context of 1024 use block_size=1023.
        """
        whole = torch.cat((self.inputs, self.targets[:, -1:]), dim=1)
        labels = whole
        if self.loss_mask is not None:
            labels = whole.clone()
            labels[:, 1:].masked_fill_(~self.loss_mask, IGNORED)
        return {"input_ids": whole, "labels": labels}


def check_items(items: str, known: Sequence[str] = ITEMS) -> None:
    """Refuse a form of items that does not exist."""
    if items not in known:
        raise ValueError(f"items of kind {items!r}; known are: {', '.join(known)}")


def as_items(window: Tensor, items: str) -> Any:
    """Windows of T + 1 tokens as items (or, with a leading dimension, as batches) of a form.

    pair           (inputs, targets)
    dict           {"input_ids", "labels"}: labels[t] is the token after input_ids[t]
    hugging_face   {"input_ids", "labels"}: both all T + 1 tokens, since those models shift labels
                   themselves; the model sees T + 1 tokens and none of the T targets is lost
    window         the T + 1 tokens in one tensor, for loops that cut it themselves (LitGPT)
    """
    if items == "window":
        return window
    if items == "hugging_face":
        return {"input_ids": window, "labels": window}
    return _named(items, *_cut(window))


def _cut(window: Tensor) -> tuple[Tensor, Tensor]:
    return window[..., :-1].contiguous(), window[..., 1:].contiguous()


def _named(items: str, inputs: Tensor, targets: Tensor) -> Any:
    return (inputs, targets) if items == "pair" else {"input_ids": inputs, "labels": targets}


def batch_as(batch: Batch, items: str, dtype: npt.DTypeLike | None = None) -> Any:
    """A batch in a form of `as_items`, or with `batch` as a TorchBatch; ids int64 or `dtype`."""
    if items == "batch":
        return from_arrays(batch, dtype=dtype)
    if items in ("hugging_face", "window"):
        return as_items(_widened(batch.tokens, dtype), items)
    return _named(items, *(_widened(half, dtype) for half in batch))


def _widened(ids: np.ndarray, dtype: npt.DTypeLike | None) -> Tensor:
    """Ids in memory of their own, contiguous."""
    return torch.from_numpy(ids.astype(np.int64 if dtype is None else dtype, order="C"))


def from_arrays(
    batch: Batch, tokens: Tensor | None = None, *, dtype: npt.DTypeLike | None = None
) -> TorchBatch:
    """A batch of arrays as tensors: on the CPU, or on the device where its tokens are already."""
    # Cut after the copy to a device: the window crosses the bus once.
    halves = (_widened(half, dtype) for half in batch) if tokens is None else _cut(tokens)
    inputs, targets = halves
    device = inputs.device

    def moved(array: np.ndarray | None) -> Tensor | None:
        return None if array is None else torch.from_numpy(array).to(device, non_blocking=True)

    mask = batch.loss_mask
    return TorchBatch(
        inputs=inputs,
        targets=targets,
        document_ids=moved(batch.document_ids),
        positions=moved(batch.positions),
        loss_mask=moved(mask),
        cu_seqlens=moved(batch.cu_seqlens),
        max_seqlen=batch.max_seqlen,
        sources=moved(batch.sources),
        num_targets=batch.targets.size if mask is None else int(mask.sum()),
    )
