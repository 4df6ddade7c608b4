"""What an augmentation is, and the rows that it is given.

An augmentation is a small frozen object. `bound` fills in the ids that it needs from the data, and
refuses what the data does not have; `apply` changes rows. The object, with these ids, is part of
the fingerprint of the order: a run with another one is another run.

There are three kinds, which must come in this order (`STAGES`): those that change the text itself,
so that inputs and targets both follow; those that change inputs only, while targets stay as they
were; and masking, where the target is the input's own token.
"""

import functools
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from tokenmill.batches.augment.known_ids import KnownIds
from tokenmill.batches.augment.row_random import RowRandom
from tokenmill.batches.document_masks import DocumentMarks

TEXT, INPUTS, MASKS = STAGES = (0, 1, 2)


@dataclass(eq=False)
class Rows:
    """The rows of a batch on their way through the augmentations."""

    tokens: np.ndarray
    """(rows, block_size + 1): inputs, and the last target. In memory of its own."""
    samples: np.ndarray
    """The sample number of each row."""
    ids: KnownIds
    marks: DocumentMarks | None = None
    """Where documents were in the batch, if that is known."""
    random: RowRandom | None = None
    """For functions of the user's: numbers that follow from seed, sample and column."""
    clean: np.ndarray | None = None
    """The tokens before inputs were changed, if they were."""
    masked: np.ndarray | None = None
    """(rows, block_size) bool: inputs whose own token is to be predicted, and no others."""
    moved_segments: np.ndarray | None = None
    """The segments after tokens were dropped, if some were."""

    @property
    def segments(self) -> np.ndarray | None:
        """(rows, block_size + 1): the document of each token in its row, -1 for padding."""
        if self.moved_segments is not None:
            return self.moved_segments
        return None if self.marks is None else self.marks.segments

    @property
    def fixed(self) -> np.ndarray:
        """(rows, block_size + 1) bool: special ids and padding, which must stay as they are."""
        fixed = self.ids.are_special(self.tokens)
        if self.moved_segments is not None:
            fixed |= self.moved_segments < 0
        elif self.marks is not None and self.marks.padding_from is not None:
            fixed |= np.arange(fixed.shape[1]) >= self.marks.padding_from[:, None]
        return fixed

    def open_inputs(self) -> np.ndarray:
        """The inputs, to be changed in place; targets stay as they are now."""
        if self.clean is None:
            self.clean = self.tokens.copy()
        return self.tokens[:, :-1]


class Augmentation(Protocol):
    """One way to change rows; its fields are its settings, and JSON values."""

    @property
    def name(self) -> str:
        """What states call it."""

    @property
    def version(self) -> int | str:
        """Another one where the same settings give other rows."""

    @property
    def stage(self) -> int:
        """One of STAGES."""

    @property
    def needs_documents(self) -> bool:
        """Whether it must know where documents are in a row."""

    def bound(self, ids: KnownIds) -> Self:
        """This augmentation with all ids filled in; refused if the data does not have them."""

    def added_ids(self) -> tuple[int, ...]:
        """The ids that it puts into rows, which are then special."""

    def settings(self) -> dict[str, Any]:
        """What its rows depend on, as JSON values."""

    def apply(self, rows: Rows, random: RowRandom) -> None:
        """Change the rows; every number drawn comes from `random`."""


def check_rate(name: str, rate: float, *, below_one: bool = False) -> None:
    """Refuse a chance that is none."""
    if not 0 <= rate <= 1 or (below_one and rate == 1):
        expected = "at least 0 and below 1" if below_one else "from 0 to 1"
        raise ValueError(f"{name} is {rate}; it must be {expected}")


@functools.lru_cache(maxsize=4)
def places_of(size: int) -> np.ndarray:
    """0, 1, 2, ... for all tokens of a batch; kept, since batches have one size."""
    places = np.arange(size)
    places.flags.writeable = False
    return places
