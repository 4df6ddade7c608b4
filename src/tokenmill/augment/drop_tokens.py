"""DropTokens: each token leaves its row with the chance `rate`.

The tokens after it move up, each document stays together, and the row is filled up with padding, in
which there is no loss. Of n tokens that are not special, n * (1 - rate) are left on average.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tokenmill.augment.augmentation import DROP_TOKENS, TEXT, Augmentation, Rows, check_rate
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, chance_of


@dataclass(frozen=True)
class DropTokens(Augmentation):
    """Each token leaves its row with the chance `rate`; padding fills up the row."""

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
