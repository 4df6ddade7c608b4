"""A list of augmentations, bound to some data, applied to batches one after another.

What comes out is a function of the seed, the sample numbers and the tokens of the rows. The list
goes into states and fingerprints with every id that was filled in, and with the special ids: a run
that resumes changes rows in the same way, or is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.augment.augmentation import (
    INPUTS,
    MASKS,
    TEXT,
    Augmentation,
    Rows,
    next_tokens,
)
from tokenmill.augment.known_ids import IdRules, KnownIds
from tokenmill.augment.own_function import OwnFunction
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches.batch import IGNORED, Batch
from tokenmill.batches.document_masks import DocumentMarks, mark_begins
from tokenmill.dataset import TokenDataset

_METHODS = ("bound", "added_ids", "settings", "apply")


def as_augmentations(given: Sequence[Any]) -> tuple[Augmentation, ...]:
    """The augmentations of a list in their order; functions of the user's are wrapped."""
    if not isinstance(given, Sequence):
        raise TypeError(f"augment is {given!r:.100}; it must be a list of augmentations")
    found: list[Augmentation] = [
        each if all(hasattr(each, name) for name in _METHODS) else OwnFunction.of(each)
        for each in given
    ]
    for one, next_one in pairwise(found):
        if next_one.stage < one.stage or one.stage == MASKS:
            raise ValueError(
                f"{next_one.name} comes after {one.name} in augment, and would change what "
                f"{one.name} has made targets of; first comes what changes the text "
                "(FillInTheMiddle, DropTokens, your own), then ReplaceTokens, then MaskTokens"
            )
    return tuple(found)


def make_augmenter(
    given: Sequence[Any],
    datasets: Sequence[TokenDataset],
    seed: int,
    begin_token: int | None,
    rules: IdRules,
) -> "Augmenter":
    """Fill in the ids that the data has; refuse what it does not have."""
    augmentations = as_augmentations(given)
    ids = KnownIds.of(datasets, begin_token, rules)
    bound = tuple(each.bound(ids) for each in augmentations)
    ids = ids.with_special(id for each in bound for id in each.added_ids())
    return Augmenter(bound, ids, seed)


@dataclass(frozen=True)
class Augmenter:
    """Changes batches before they are served."""

    augmentations: tuple[Augmentation, ...]
    ids: KnownIds
    seed: int
    max_documents: int | None = None
    """As for `mark_begins`."""
    hides_documents: bool = False
    """Documents were looked for on our behalf only: batches are not to show them."""

    @property
    def needs_documents(self) -> bool:
        return any(each.needs_documents for each in self.augmentations)

    def to_json(self) -> list[dict[str, Any]]:
        """For states: each augmentation with its version and settings; last, the special ids."""
        named = [
            {"name": each.name, "version": each.version, **each.settings()}
            for each in self.augmentations
        ]
        return [*named, {"special_ids": self.ids.to_json()}]

    def __call__(self, batch: Batch) -> Batch:
        rows = Rows.of(batch, self.ids)
        stages = {augmentation.stage for augmentation in self.augmentations}
        self._apply(rows, TEXT)
        marks = self._marks(batch, rows)
        if stages >= {INPUTS, MASKS}:
            rows.replaced = rows.tokens.copy()
        elif INPUTS in stages or rows.begins is not None:
            rows.labels = self._labels_of_text(rows)
        self._apply(rows, INPUTS)
        self._apply(rows, MASKS)
        return replace(
            batch,
            rows=rows.tokens.astype(batch.tokens.dtype, copy=False),
            marks=marks,
            augmented_labels=rows.labels,
            labels_are_inputs=MASKS in stages,
            banned=rows.banned,
        )

    def _apply(self, rows: Rows, stage: int) -> None:
        for place, augmentation in enumerate(self.augmentations):
            if augmentation.stage == stage:
                augmentation.apply(rows, RowRandom(self.seed, place, rows.samples))

    def _marks(self, batch: Batch, rows: Rows) -> DocumentMarks | None:
        """Where documents are by now, if batches are to show it."""
        if self.hides_documents:
            return None
        if rows.begins is None:
            return batch.marks
        assert rows.counted is not None
        return mark_begins(rows.begins, rows.counted, rows.filled, self.max_documents)

    def _labels_of_text(self, rows: Rows) -> np.ndarray:
        """The next tokens of the text, before inputs change; -100 where there is no loss."""
        counted = rows.counted
        if self.hides_documents:
            counted = None if rows.begins is None else ~rows.padding[:, 1:]
        labels = next_tokens(rows.tokens, counted)
        if rows.banned is not None:
            labels[rows.banned[:, 1:]] = IGNORED
        return labels
