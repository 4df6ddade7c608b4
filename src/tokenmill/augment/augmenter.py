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

from tokenmill.augment.augmentation import MASKS, Augmentation, Rows
from tokenmill.augment.known_ids import IdRules, KnownIds
from tokenmill.augment.own_function import OwnFunction
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches.batch import IGNORED, BannedRuns, Batch, WholeRows
from tokenmill.batches.document_masks import DocumentMarks, mark_segments
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
    """As for `mark_documents`."""
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
        tokens = np.ascontiguousarray(batch.tokens)  # changed in place, as one flat array
        rows = Rows(tokens, batch.samples, self.ids, batch.marks, banned=batch.banned)
        for place, each in enumerate(self.augmentations):
            each.apply(rows, RowRandom(self.seed, place, batch.samples))
        marks, segments = batch.marks, rows.moved_segments
        if segments is not None and not self.hides_documents:
            marks = mark_segments(segments, self.max_documents)
        return replace(
            batch,
            rows=WholeRows(rows.tokens),
            marks=None if self.hides_documents else marks,
            augmented_labels=self._labels(rows, marks),
            labels_are_inputs=rows.masked is not None,
            banned_runs=None if rows.banned is None else BannedRuns.of(rows.banned),
        )

    def _labels(self, rows: Rows, marks: DocumentMarks | None) -> np.ndarray | None:
        """The labels, where they are not what tokens and marks of the batch say."""
        if rows.masked is not None:
            return _labels_of_masks(rows, rows.masked)
        segments = rows.moved_segments
        if not rows.changed and segments is None:
            return None
        labels = rows.tokens[:, 1:].astype(np.int64)
        for places, old in reversed(rows.changed):
            row, column = np.divmod(places, rows.tokens.shape[1])
            is_target = column > 0
            labels[row[is_target], column[is_target] - 1] = old[is_target]
        if marks is not None and not self.hides_documents:
            labels.reshape(-1)[np.flatnonzero(~marks.loss_mask)] = IGNORED
        elif segments is not None:
            labels.reshape(-1)[np.flatnonzero(segments[:, 1:] < 0)] = IGNORED
        if rows.banned is not None:
            labels[rows.banned[:, 1:]] = IGNORED
        return labels


def _labels_of_masks(rows: Rows, masked: np.ndarray) -> np.ndarray:
    """At the masked inputs their own tokens, as they were; nothing else counts."""
    own = rows.tokens.reshape(-1).copy()
    for places, old in reversed(rows.changed):
        own[places] = old
    row, column = np.divmod(masked, rows.tokens.shape[1])
    labels = np.full((len(rows.tokens), rows.tokens.shape[1] - 1), IGNORED, np.int64)
    labels[row, column] = own[masked]
    if rows.banned is not None:
        labels[rows.banned[:, :-1]] = IGNORED
    return labels
