"""The rows that an augmentation is given, and what an augmentation is.

An augmentation is a small frozen object. `bound` fills in the ids that it needs from the data, and
refuses what the data does not have; `apply` changes rows. The object, with these ids, is part of
the fingerprint of the order: a run with another one is another run.

There are three kinds, which must come in this order (`STAGES`): those that change the text itself,
so that inputs and targets both follow; those that change inputs only, while targets stay as they
were; and masking, where the target is the input's own token.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from tokenmill import kernel
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches.batch import IGNORED, Batch

TEXT, INPUTS, MASKS = STAGES = (0, 1, 2)


@dataclass(eq=False)
class Rows:
    """The rows of a batch, as the augmentations change them one after the other.

    Shapes: B rows of T + 1 tokens, T = block_size.
    """

    tokens: np.ndarray
    """(B, T + 1) int64: inputs, and the last target. Changed in place."""
    samples: np.ndarray
    """(B,) int64: the sample number of each row."""
    ids: KnownIds
    filled: np.ndarray
    """(B,) int64: tokens of each row before its padding."""
    counted: np.ndarray | None
    """(B, T) bool: True where a target continues the document of its input, False where it begins
    another one or is padding. None if it is not known where documents are."""
    banned: np.ndarray | None
    """(B, T + 1) bool: tokens that must not become labels; moved with the tokens."""
    random: RowRandom | None = None
    """For functions of the user's: numbers that follow from seed, sample and column."""
    begins: np.ndarray | None = None
    """After tokens were dropped: where documents and padding begin in the flat rows."""
    replaced: np.ndarray | None = None
    """(B, T + 1): the tokens before inputs were replaced, if MaskTokens comes after that."""
    labels: np.ndarray | None = None
    """(B, T) int64: the labels, where they are not what the tokens say."""

    @classmethod
    def of(cls, batch: Batch, ids: KnownIds) -> "Rows":
        """The rows of a batch, whose tokens are changed in place if they are int64."""
        tokens = np.ascontiguousarray(batch.tokens, np.int64)
        filled = np.full(len(tokens), tokens.shape[1])
        counted = None
        if batch.marks is not None:
            counted = np.array(batch.marks.loss_mask, order="C")
            if batch.marks.padding_from is not None:
                filled[:] = batch.marks.padding_from
        samples = np.ascontiguousarray(batch.samples, np.int64)
        return cls(tokens, samples, ids, filled, counted, batch.banned)

    @property
    def clean(self) -> np.ndarray:
        """(B, T + 1): the tokens before inputs were changed."""
        return self.tokens if self.replaced is None else self.replaced

    @property
    def padding(self) -> np.ndarray:
        """(B, T + 1) bool: True where a row is filled up."""
        is_padding: np.ndarray = np.arange(self.tokens.shape[1]) >= self.filled[:, None]
        return is_padding

    @property
    def fixed(self) -> np.ndarray:
        """(B, T + 1) bool: special ids and padding, which must stay as they are."""
        is_fixed: np.ndarray = self.ids.are_special(self.tokens) | self.padding
        return is_fixed

    @property
    def segments(self) -> np.ndarray | None:
        """(B, T + 1) int32: the document of each token in its row, from 0; -1 for padding."""
        if self.counted is None:
            return None
        segments = np.zeros(self.tokens.shape, np.int32)
        np.cumsum(~self.counted, axis=1, out=segments[:, 1:])
        segments[self.padding] = -1
        return segments


def next_tokens(tokens: np.ndarray, counted: np.ndarray | None) -> np.ndarray:
    """(B, T) int64: the label of each input is the next token, -100 where it is not counted."""
    if counted is None:
        return tokens[:, 1:].copy()
    if kernel.compiled is not None:
        labels = np.empty(counted.shape, np.int64)
        kernel.compiled.next_tokens(labels, tokens, counted)
        return labels
    return np.where(counted, tokens[:, 1:], IGNORED)


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
        """True if it must know where documents are in a row."""

    def bound(self, ids: KnownIds) -> Self:
        """This augmentation with all ids filled in; refused if the data does not have them."""

    def added_ids(self) -> tuple[int, ...]:
        """The ids that it puts into rows, which are then special."""

    def settings(self) -> dict[str, Any]:
        """What its rows depend on, as JSON values."""

    def apply(self, rows: Rows, random: RowRandom) -> None:
        """Change the rows; every number drawn comes from `random`."""


class OfFields:
    """An augmentation whose settings are its fields, and that adds no ids to rows."""

    def bound(self, ids: KnownIds) -> Self:
        return self

    def added_ids(self) -> tuple[int, ...]:
        return ()

    def settings(self) -> dict[str, Any]:
        return dict(vars(self))


def check_rate(name: str, rate: float, *, below_one: bool = False) -> None:
    """Refuse a rate that is not a probability."""
    if not 0 <= rate <= 1 or (below_one and rate == 1):
        expected = "at least 0 and below 1" if below_one else "from 0 to 1"
        raise ValueError(f"{name} is {rate}; it must be {expected}")
