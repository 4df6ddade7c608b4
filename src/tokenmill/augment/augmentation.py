"""The rows that an augmentation is given, what an augmentation is, and a function as one.

An augmentation is a small frozen object. `bound` fills in the ids that it needs from the data, and
refuses what the data does not have; `apply` changes rows, and `step` says how the kernel does the
same. First come those that change the text itself, so that targets follow; then those that change
inputs only; then masking, where the target is the input's own token.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches.batch import RowGroup

TEXT, INPUTS, MASKS = STAGES = (0, 1, 2)

# What kernel/augment.c does to a row.
FILL_IN_THE_MIDDLE, DROP_TOKENS, NEXT_TOKENS, KEEP_CLEAN, CHANGE_INPUTS = range(5)


@dataclass(eq=False)
class Rows(RowGroup):
    """The rows of one or several batches, as the augmentations change them one after the other.

    `tokens` are int64 and changed in place; `samples` are (R,) int64.
    """

    filled: np.ndarray
    ids: KnownIds = field(kw_only=True)
    random: RowRandom | None = None
    """For functions of the user's: numbers that follow from seed, sample and column."""
    kept: np.ndarray | None = None
    """(R, T + 1): the tokens before inputs were replaced, if MaskTokens comes after that."""

    @classmethod
    def of(cls, group: RowGroup, ids: KnownIds) -> "Rows":
        """The rows of a group, whose arrays are changed in place where they are int64."""
        tokens = np.ascontiguousarray(group.tokens, np.int64)
        filled = group.filled
        if filled is None:
            filled = np.full(len(tokens), tokens.shape[1])
        samples = np.ascontiguousarray(group.samples.reshape(-1), np.int64)
        return cls(tokens, samples, filled, group.continues, group.banned, ids=ids)

    @property
    def padding(self) -> np.ndarray:
        """(R, T + 1) bool: True where a row is filled up."""
        is_padding: np.ndarray = np.arange(self.tokens.shape[1]) >= self.filled[:, None]
        return is_padding

    @property
    def fixed(self) -> np.ndarray:
        """(R, T + 1) bool: special ids and padding, which must stay as they are."""
        # Ids above the table are like its last, which is not special.
        is_special = self.ids.special_table.take(self.tokens, mode="clip") & (self.tokens >= 0)
        is_fixed: np.ndarray = is_special | self.padding
        return is_fixed

    @property
    def segments(self) -> np.ndarray | None:
        """(R, T + 1) int32: the document of each token in its row, from 0; -1 for padding."""
        if self.continues is None:
            return None
        segments = np.zeros(self.tokens.shape, np.int32)
        np.cumsum(~self.continues[:, 1:], axis=1, out=segments[:, 1:])
        segments[self.padding] = -1
        return segments


class Augmentation:
    """One way to change rows. The fields of a dataclass are its settings, and JSON values."""

    name: ClassVar[str]
    """What states call it."""
    version: ClassVar[int | str]
    """Another one where the same settings give other rows."""
    stage: ClassVar[int]
    """One of STAGES."""
    needs_documents: ClassVar[bool] = False
    """True if it must know where documents are in a row."""
    pads: ClassVar[bool] = False
    """True if it leaves rows with padding."""

    def bound(self, ids: KnownIds) -> Self:
        """This augmentation with all ids filled in; refused if the data does not have them."""
        return self

    def added_ids(self) -> tuple[int, ...]:
        """The ids that it puts into rows, which are then special."""
        return ()

    def settings(self) -> dict[str, Any]:
        """What its rows depend on, as JSON values."""
        return dict(vars(self))

    def apply(self, rows: Rows, random: RowRandom) -> None:
        """Change the rows; every number drawn comes from `random`."""
        raise NotImplementedError

    def step(self, ids: KnownIds) -> tuple[int, ...] | None:
        """What the kernel does in place of `apply`: its kind and settings; None: it cannot."""
        return None


def check_rate(name: str, rate: float, *, below_one: bool = False) -> None:
    """Refuse a rate that is not a probability."""
    if not 0 <= rate <= 1 or (below_one and rate == 1):
        expected = "at least 0 and below 1" if below_one else "from 0 to 1"
        raise ValueError(f"{name} is {rate}; it must be {expected}")


@dataclass(frozen=True)
class OwnFunction(Augmentation):
    """A function of the user's from `Rows`, with `random` in them, to tokens of the same shape.

    It must follow from them alone: then it is the same on any rank, and after any resume.
    """

    function: Callable[[Any], Any]
    name: str  # type: ignore[misc]
    version: int | str  # type: ignore[misc]
    needs_documents: bool = False  # type: ignore[misc]

    stage: ClassVar[int] = TEXT

    @classmethod
    def of(cls, function: Any) -> "OwnFunction":
        """Refused without a name and a version: states could not tell it from another."""
        name, version = (getattr(function, each, None) for each in ("name", "version"))
        if not callable(function) or not isinstance(name, str) or not name:
            raise TypeError(
                f"augment holds {function!r:.100}; an augmentation of your own is a function with "
                'a name: function.name = "swap-case"'
            )
        if not isinstance(version, int | str):
            raise TypeError(
                f"the augmentation {name!r} has no version, a number or a text; states name it, so "
                "that a changed function is not taken for the old one: function.version = 1"
            )
        return cls(function, name, version, bool(getattr(function, "needs_documents", False)))

    def settings(self) -> dict[str, Any]:
        return {}

    def apply(self, rows: Rows, random: RowRandom) -> None:
        fixed = rows.fixed
        before = rows.tokens.copy()
        rows.random = random
        found = np.asarray(self.function(rows))
        largest = rows.ids.largest
        which = f"the augmentation {self.name!r} (version {self.version})"
        if found.shape != before.shape or found.dtype.kind not in "iu":
            raise ValueError(
                f"{which} returned {found.dtype} of shape {found.shape}; rows are "
                f"{before.dtype} of shape {before.shape}, and stay so"
            )
        if found.size and not (found.min() >= 0 and found.max() <= largest):
            raise ValueError(
                f"{which} returned ids from {found.min()} to {found.max()}; the vocabulary has 0 "
                f"to {largest:,}"
            )
        touched = fixed & (found != before)
        if touched.any():
            row, column = np.argwhere(touched)[0].tolist()
            raise ValueError(
                f"{which} changed the id {before[row, column]} at row {row}, column {column}, "
                "which is special or padding; leave tokens as they are where rows.fixed is True"
            )
        rows.tokens = np.ascontiguousarray(found, before.dtype)
        if rows.banned is not None:  # the function may have moved tokens: none of these rows counts
            rows.banned = np.broadcast_to(rows.banned.any(axis=1, keepdims=True), found.shape)
