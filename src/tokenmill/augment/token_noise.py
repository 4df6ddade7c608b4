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

from tokenmill.augment.augmentation import (
    INPUTS,
    TEXT,
    OfFields,
    Rows,
    check_rate,
    places_of,
)
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom


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
        places, bits = rows.choose_inputs(random, self.rate)
        rows.change_inputs(places, rows.ids.draw(bits))


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
        tokens, segments = rows.tokens, rows.segments
        segments = np.zeros(tokens.shape, np.int32) if segments is None else segments.copy()
        num_rows, length = tokens.shape
        chosen = random.chosen(self.rate, length)
        dropped = rows.without_fixed(np.flatnonzero(chosen))
        source = _after_dropping(dropped, num_rows, length)
        # What was dropped of a row is missing at its end.
        missing = np.bincount(dropped // length, minlength=num_rows)
        empty = np.flatnonzero(np.arange(length) >= (length - missing)[:, None])
        for table, filler in ((tokens, rows.ids.padding), (segments, -1)):
            table[:] = table.reshape(-1).take(source, mode="clip").reshape(table.shape)
            table.reshape(-1)[empty] = filler
        rows.moved_segments = segments
        rows.move_banned(source)


def _after_dropping(dropped: np.ndarray, num_rows: int, length: int) -> np.ndarray:
    """Where each token of the flat rows comes from, once these places are dropped from them.

    The places at the end of a row for which nothing is left get any number.
    """
    # Runs of tokens that move together: each row begins one, and after each dropped place begins
    # the next, which moves up one place more.
    begins = np.arange(num_rows) * length
    firsts = np.searchsorted(dropped, begins)
    in_row = np.arange(len(dropped)) - firsts[dropped // length]
    starts = np.insert(dropped - in_row, firsts, begins)  # where the runs are when moved up
    shifts = np.insert(in_row + 1, firsts, 0)
    source: np.ndarray = np.repeat(shifts, np.diff(starts, append=num_rows * length))
    source += places_of(num_rows * length)
    return source
