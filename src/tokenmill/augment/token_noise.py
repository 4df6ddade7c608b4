"""Noise: tokens chosen at random, each with the chance `rate`, change or leave their row.

An id drawn at random is any that is not special, each as likely. Special ids and padding are never
chosen, nor is the last token of a row by `MaskTokens` and `ReplaceTokens`: it is a target only.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tokenmill.augment.augmentation import (
    CHANGE_INPUTS,
    DROP_TOKENS,
    INPUTS,
    MASKS,
    TEXT,
    Augmentation,
    Rows,
    check_rate,
)
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, chance_of, high, is_below
from tokenmill.batches.batch import IGNORED

MASK_NAMES = ("[MASK]", "<mask>", "<|mask|>", "<MASK>")


class _InputNoise(Augmentation):
    """`rate` of the inputs are chosen; each then stays, becomes a random id, or the mask."""

    rate: float
    mask_id: int | None = None
    keep: float = 0.0
    """Of those chosen, the share that stays as it is."""
    random: float = 1.0
    """Of those chosen, the share that becomes a random id."""

    version: ClassVar[int] = 1

    def apply(self, rows: Rows, random: RowRandom) -> None:
        is_chosen = random.chosen(self.rate, rows.tokens.shape[1]) & ~rows.fixed
        is_chosen[:, -1] = False
        row, column = np.nonzero(is_chosen)  # (chosen inputs,) each
        if self.stage == MASKS:
            rows.labels = np.full((len(rows.tokens), rows.tokens.shape[1] - 1), IGNORED)
            clean = rows.tokens if rows.kept is None else rows.kept
            rows.labels[row, column] = clean[row, column]
            if rows.banned is not None:
                rows.labels[rows.banned[:, :-1]] = IGNORED
        bits = random.bits(row, column)
        changes = ~is_below(high(bits), self.keep)
        is_random = changes & is_below(high(bits), self.keep + self.random)
        new = np.full(len(row), self.mask_id or 0)
        if is_random.any():
            new[is_random] = rows.ids.draw(bits[is_random])
        rows.tokens[row[changes], column[changes]] = new[changes]

    def step(self, ids: KnownIds) -> tuple[int, ...]:
        chances = (self.rate, self.keep, self.keep + self.random)
        has_labels = self.stage == MASKS
        return CHANGE_INPUTS, *map(chance_of, chances), self.mask_id or 0, has_labels


@dataclass(frozen=True)
class MaskTokens(_InputNoise):
    """Inputs that a model is to guess: `rate` of them, 80 % as the mask token, by default.

    `keep` of these stay as they are, `random` become another id. The mask token is that of the
    tokenizer unless `mask_id` is given. Labels are there only, and are the inputs' own tokens.
    """

    rate: float = 0.15
    mask_id: int | None = None
    keep: float = 0.1
    random: float = 0.1

    name: ClassVar[str] = "MaskTokens"
    stage: ClassVar[int] = MASKS

    def __post_init__(self) -> None:
        for name in ("rate", "keep", "random"):
            check_rate(f"{name} of MaskTokens", getattr(self, name))
        check_rate("keep + random of MaskTokens", self.keep + self.random)

    def bound(self, ids: KnownIds) -> Self:
        if self.random:
            ids.check_can_draw("MaskTokens with random above 0")
        return replace(self, mask_id=ids.find("mask_id", self.mask_id, MASK_NAMES))

    def added_ids(self) -> tuple[int, ...]:
        return () if self.mask_id is None else (self.mask_id,)


@dataclass(frozen=True)
class ReplaceTokens(_InputNoise):
    """Each input, with the chance `rate`, becomes an id drawn at random; targets stay."""

    rate: float

    name: ClassVar[str] = "ReplaceTokens"
    stage: ClassVar[int] = INPUTS

    def __post_init__(self) -> None:
        check_rate("rate of ReplaceTokens", self.rate)

    def bound(self, ids: KnownIds) -> Self:
        ids.check_can_draw(self.name)
        return self


@dataclass(frozen=True)
class DropTokens(Augmentation):
    """Each token leaves its row with the chance `rate`; padding fills up the row.

    The tokens after it move up, and each document stays together.
    """

    rate: float

    name: ClassVar[str] = "DropTokens"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = TEXT
    pads: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_rate("rate of DropTokens", self.rate, below_one=True)

    def apply(self, rows: Rows, random: RowRandom) -> None:
        segments = rows.segments
        is_dropped = random.chosen(self.rate, rows.tokens.shape[1]) & ~rows.fixed
        stays = ~is_dropped & ~rows.padding
        # (R, T + 1): columns of the tokens that stay, in their order, then of the others.
        columns = np.argsort(~stays, axis=1, kind="stable")
        rows.filled = stays.sum(axis=1)
        rows.tokens = np.take_along_axis(rows.tokens, columns, axis=1)
        rows.tokens[rows.padding] = rows.ids.padding
        if segments is not None:
            segments = np.take_along_axis(segments, columns, axis=1)
            rows.continues = (np.diff(segments, axis=1, prepend=-2) == 0) & ~rows.padding
        if rows.banned is not None:
            rows.banned = np.take_along_axis(rows.banned, columns, axis=1) & ~rows.padding

    def step(self, ids: KnownIds) -> tuple[int, ...]:
        return DROP_TOKENS, chance_of(self.rate), ids.padding
