"""ReplaceTokens and DropTokens: noise.

Replacing makes the input of a model less reliable than the text it is to learn: each input becomes
another id with the chance `rate`, drawn uniformly from all ids that are not special (the same id
with the chance 1 / ids). Targets stay as they were, so the loss is that of the clean text.

Dropping takes each token out of its row with the chance `rate`. The tokens after it move up, each
document stays together, and the row is filled up with padding, in which there is no loss. Of n
tokens that are not special, n * (1 - rate) are left on average.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from tokenmill import kernel
from tokenmill.augment.augmentation import INPUTS, TEXT, OfFields, Rows, check_rate
from tokenmill.augment.changed_inputs import InputChange
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, chance_of

_NO_MASK = -1  # replaced inputs all become random ids


@dataclass(frozen=True)
class ReplaceTokens(OfFields):
    """Each input, with the chance `rate`, becomes an id drawn at random; targets stay."""

    rate: float

    name: ClassVar[str] = "ReplaceTokens"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = INPUTS
    needs_documents: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rate("rate of ReplaceTokens", self.rate)

    def bound(self, ids: KnownIds) -> Self:
        ids.check_can_draw(self.name)
        return self

    def apply(self, rows: Rows, random: RowRandom) -> None:
        InputChange(self.rate, keep=0.0, random=1.0, mask_id=_NO_MASK).apply(rows, random)


@dataclass(frozen=True)
class DropTokens(OfFields):
    """Each token leaves its row with the chance `rate`; padding fills up the row."""

    rate: float

    name: ClassVar[str] = "DropTokens"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = TEXT
    needs_documents: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rate("rate of DropTokens", self.rate, below_one=True)

    def apply(self, rows: Rows, random: RowRandom) -> None:
        if kernel.compiled is None or rows.banned is not None:
            _drop_tokens(rows, random, self.rate)
            return
        num_rows, length = rows.tokens.shape
        counted = rows.counted
        if counted is None:
            counted = np.ones((num_rows, length - 1), bool)
        begins = np.empty(num_rows * length, np.int64)
        count = kernel.compiled.drop_tokens(
            rows.tokens,
            rows.samples,
            rows.filled,
            rows.ids.special_table,
            *random.keys,
            chance_of(self.rate),
            rows.ids.padding,
            counted,
            begins,
        )
        rows.counted = counted
        rows.begins = begins[:count]


def _drop_tokens(rows: Rows, random: RowRandom, rate: float) -> None:
    segments = rows.segments
    if segments is None:
        segments = np.where(rows.padding, -1, 0)
    is_dropped = random.chosen(rate, rows.tokens.shape[1]) & ~rows.fixed
    stays = ~is_dropped & ~rows.padding
    # (B, T + 1): columns of the tokens that stay, in their order, then of the others.
    columns = np.argsort(~stays, axis=1, kind="stable")
    rows.filled = stays.sum(axis=1)
    rows.tokens = np.take_along_axis(rows.tokens, columns, axis=1)
    rows.tokens[rows.padding] = rows.ids.padding
    segments = np.take_along_axis(segments, columns, axis=1)
    segments[rows.padding] = -1
    if rows.banned is not None:
        rows.banned = np.take_along_axis(rows.banned, columns, axis=1) & ~rows.padding
    is_begin = np.diff(segments, axis=1, prepend=-2) != 0
    rows.begins = np.flatnonzero(is_begin)
    rows.counted = ~is_begin[:, 1:] & ~rows.padding[:, 1:]
