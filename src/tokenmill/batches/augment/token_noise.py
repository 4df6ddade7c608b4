"""ReplaceTokens and DropTokens: noise.

Replacing makes the input of a model less reliable than the text it is to learn: each input becomes
another id with the chance `rate`, drawn uniformly from all ids that are not special (the same id
with the chance 1 / ids). Targets stay as they were, so the loss is that of the clean text.

Dropping takes each token out of its row with the chance `rate`. The tokens after it move up, each
document stays together, and the row is filled up with padding, in which there is no loss. Of n
tokens that are not special, n * (1 - rate) are left on average.
"""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from tokenmill.batches.augment.augmentation import INPUTS, TEXT, Rows, check_rate
from tokenmill.batches.augment.known_ids import KnownIds
from tokenmill.batches.augment.row_random import RowRandom


@dataclass(frozen=True)
class ReplaceTokens:
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

    def added_ids(self) -> tuple[int, ...]:
        return ()

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def apply(self, rows: Rows, random: RowRandom) -> None:
        fixed = rows.fixed[:, :-1]
        chosen = random.chosen(self.rate, fixed.shape[1]) & ~fixed
        places = chosen.nonzero()
        rows.open_inputs()[places] = rows.ids.draw(random.bits(*places))


@dataclass(frozen=True)
class DropTokens:
    """Each token leaves its row with the chance `rate`; padding fills up the row."""

    rate: float

    name: ClassVar[str] = "DropTokens"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = TEXT
    needs_documents: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rate("rate of DropTokens", self.rate, below_one=True)

    def bound(self, ids: KnownIds) -> Self:
        return self

    def added_ids(self) -> tuple[int, ...]:
        return ()

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def apply(self, rows: Rows, random: RowRandom) -> None:
        tokens, segments = rows.tokens, rows.segments
        if segments is None:
            segments = np.zeros(tokens.shape, np.int32)
        stays = ~random.chosen(self.rate, tokens.shape[1]) | rows.fixed
        stays &= segments >= 0  # padding is put there again
        filled = np.arange(tokens.shape[1]) < stays.sum(axis=1)[:, None]
        rows.tokens = np.full_like(tokens, rows.ids.padding)
        rows.moved_segments = np.full_like(segments, -1)
        rows.tokens[filled] = tokens[stays]
        rows.moved_segments[filled] = segments[stays]
