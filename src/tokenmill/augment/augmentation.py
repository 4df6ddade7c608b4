"""What an augmentation is, and the rows that it is given.

An augmentation is a small frozen object. `bound` fills in the ids that it needs from the data, and
refuses what the data does not have; `apply` changes rows. The object, with these ids, is part of
the fingerprint of the order: a run with another one is another run.

There are three kinds, which must come in this order (`STAGES`): those that change the text itself,
so that inputs and targets both follow; those that change inputs only, while targets stay as they
were; and masking, where the target is the input's own token.
"""

import functools
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import numpy as np

from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom
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
    changed: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    """Inputs that were changed while targets stayed: their places in the flat rows, and the tokens
    that were there, change by change."""
    masked: np.ndarray | None = None
    """Places, in the flat rows, of the inputs whose own token is to be predicted, and no others."""
    moved_segments: np.ndarray | None = None
    """The segments after tokens were dropped, if some were."""
    banned: np.ndarray | None = None
    """(rows, block_size + 1) bool: tokens that must not become labels; moved with the tokens."""

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
        filled = self._filled()
        if filled is not None:
            fixed |= np.arange(fixed.shape[1]) >= filled[:, None]
        return fixed

    def without_fixed(self, places: np.ndarray) -> np.ndarray:
        """Those of these places in the flat rows that may change."""
        fixed = self.ids.are_special(self.tokens.reshape(-1)[places])
        filled = self._filled()
        if filled is not None:
            row, column = np.divmod(places, self.tokens.shape[1])
            fixed |= column >= filled[row]
        free: np.ndarray = places[~fixed]
        return free

    def choose_inputs(self, random: RowRandom, rate: float) -> tuple[np.ndarray, np.ndarray]:
        """Inputs that may change, each with the chance `rate`: their places, and bits for each."""
        length = self.tokens.shape[1]
        chosen = random.chosen(rate, length)
        chosen[:, -1] = False  # a target only
        places = self.without_fixed(np.flatnonzero(chosen))
        return places, random.bits(*np.divmod(places, length))

    def change_inputs(self, places: np.ndarray, ids: np.ndarray) -> None:
        """Put these ids there; targets stay as they are now."""
        flat = self.tokens.reshape(-1)
        self.changed.append((places, flat[places]))
        flat[places] = ids

    def move_banned(self, source: np.ndarray) -> None:
        """Tokens of the flat rows have moved: where each comes from."""
        if self.banned is not None:
            moved = self.banned.reshape(-1).take(source, mode="clip")
            self.banned = moved.reshape(self.banned.shape)

    def _filled(self) -> np.ndarray | None:
        """How many tokens of each row are not padding; None: all in every row."""
        if self.moved_segments is not None:
            filled: np.ndarray = (self.moved_segments >= 0).sum(axis=1)
            return filled
        return None if self.marks is None else self.marks.padding_from


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


class OfFields:
    """An augmentation whose settings are its fields, and that puts no ids of its own into rows."""

    def bound(self, ids: KnownIds) -> Self:
        return self

    def added_ids(self) -> tuple[int, ...]:
        return ()

    def settings(self) -> dict[str, Any]:
        return dict(vars(self))


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
