"""The rows of a batch as single items, which torch puts together again at no cost.

A DataLoader asks a map-style dataset for all items of a batch together and gives the list to its
`collate_fn`, which copies each item. Here items know the batch that they are rows of, and torch's
default `collate_fn`, which can be extended by type, takes that batch as it is. To any other reader
an item is a sequence or a mapping of tensors.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from tokenmill.batches.batch import Batch
from tokenmill.torch.torch_batch import batch_as


def rows_as(batch: Batch, items: str) -> list[Any]:
    """The rows of a batch, each as an item of a form of `batch_as`."""
    made = batch_as(batch, items)
    if items == "window":
        return list(made)
    row = RowOfPair if items == "pair" else RowOfNamed
    return [row(made, number) for number in range(len(batch.tokens))]


class RowOfPair(Sequence[Tensor]):
    """One row of a batch of several tensors."""

    __slots__ = ("number", "whole")

    def __init__(self, whole: tuple[Tensor, ...], number: int) -> None:
        self.whole = whole
        self.number = number

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, part: Any) -> Any:
        rows = tuple(tensor[self.number] for tensor in self.whole)
        return rows[part]


class RowOfNamed(Mapping[str, Tensor]):
    """One row of a batch of named tensors."""

    __slots__ = ("number", "whole")

    def __init__(self, whole: dict[str, Tensor], number: int) -> None:
        self.whole = whole
        self.number = number

    def __len__(self) -> int:
        return len(self.whole)

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole)

    def __getitem__(self, name: str) -> Tensor:
        return self.whole[name][self.number]


def _collate_pairs(rows: list[RowOfPair], **_: Any) -> list[Tensor]:
    if _are_one_batch(rows):
        return list(rows[0].whole)
    return [torch.stack(part) for part in zip(*rows, strict=True)]


def _collate_named(rows: list[RowOfNamed], **_: Any) -> dict[str, Tensor]:
    if _are_one_batch(rows):
        return dict(rows[0].whole)
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def _are_one_batch(rows: Sequence[RowOfPair | RowOfNamed]) -> bool:
    """Return True if these are all rows of one batch, in order."""
    whole = rows[0].whole
    tensors = whole.values() if isinstance(whole, dict) else whole
    return len(next(iter(tensors))) == len(rows) and all(
        row.whole is whole and row.number == i for i, row in enumerate(rows)
    )


default_collate_fn_map[RowOfPair] = _collate_pairs
default_collate_fn_map[RowOfNamed] = _collate_named
