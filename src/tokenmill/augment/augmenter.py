"""A list of augmentations, bound to some data, applied to batches one after another.

The list goes into states and fingerprints with every id that was filled in, and with the special
ids: a run that resumes changes rows in the same way, or is refused.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill import kernel
from tokenmill.augment.augmentation import (
    INPUTS,
    KEEP_CLEAN,
    MASKS,
    NEXT_TOKENS,
    TEXT,
    Augmentation,
    OwnFunction,
    Rows,
)
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, keys_of
from tokenmill.batches.batch import IGNORED, RowGroup
from tokenmill.dataset import TokenDataset

if TYPE_CHECKING:
    from tokenmill.batches.run import RunSettings

_NUMBERS_OF_A_STEP = 8  # its kind, two keys, and settings, as kernel/augment.c has them


def as_augmentations(given: Sequence[Any]) -> tuple[Augmentation, ...]:
    """The augmentations of a list in their order; functions of the user's are wrapped."""
    if not isinstance(given, Sequence):
        raise TypeError(f"augment is {given!r:.100}; it must be a list of augmentations")
    augmentations = tuple(
        each if isinstance(each, Augmentation) else OwnFunction.of(each) for each in given
    )
    for one, next_one in pairwise(augmentations):
        if next_one.stage < one.stage or one.stage == MASKS:
            raise ValueError(
                f"{next_one.name} comes after {one.name} in augment, and would change what "
                f"{one.name} has made targets of; first comes what changes the text "
                "(FillInTheMiddle, DropTokens, your own), then ReplaceTokens, then MaskTokens"
            )
    return augmentations


@dataclass(frozen=True)
class Augmenter:
    """Changes the rows of batches before they are served."""

    augmentations: tuple[Augmentation, ...]
    ids: KnownIds
    seed: int
    hides_documents: bool
    """Documents were looked for on our behalf only: batches are not to show them."""

    @classmethod
    def of(cls, settings: "RunSettings", datasets: Sequence[TokenDataset]) -> "Augmenter":
        """Fill in the ids that the data has; refuse what it does not have."""
        augmentations = as_augmentations(settings.augment)
        rules = settings.order
        ids = KnownIds.of(datasets, rules.begin_token, settings.form)
        bound = tuple(each.bound(ids) for each in augmentations)
        added = {id for each in bound for id in each.added_ids()}
        ids = replace(ids, special=tuple(sorted({*ids.special, *added})))
        return cls(bound, ids, rules.seed, not settings.shows_documents)

    @property
    def needs_documents(self) -> bool:
        return any(each.needs_documents for each in self.augmentations)

    @property
    def labels_are_inputs(self) -> bool:
        """True if labels are the inputs' own tokens, not the next ones."""
        return self.augmentations[-1].stage == MASKS

    def to_json(self) -> list[dict[str, Any]]:
        """For states: each augmentation with its version and settings; last, the special ids."""
        named = [
            {"name": each.name, "version": each.version, **each.settings()}
            for each in self.augmentations
        ]
        return [*named, {"special_ids": self.ids.to_json()}]

    def __call__(self, group: RowGroup) -> None:
        rows = Rows.of(group, self.ids)
        plan: Sequence[np.ndarray | tuple[Augmentation, int]] = self._plan
        if kernel.compiled is not None and rows.banned is None:
            plan = self._compiled_plan
            if self.labels_are_inputs or len(self._plan) > len(self.augmentations):
                rows.labels = np.empty((len(rows.tokens), rows.tokens.shape[1] - 1), np.int64)
        for each in plan:
            if isinstance(each, tuple):
                augmentation, place = each
                augmentation.apply(rows, RowRandom(self.seed, place, rows.samples))
                continue
            assert kernel.compiled is not None
            kernel.compiled.augment_rows(
                rows.tokens,
                rows.samples,
                rows.filled,
                rows.continues,
                rows.labels,
                each,
                self.ids.special_table,
                self.ids.ordinary_before,
                self.ids.num_ordinary,
            )
        group.tokens = rows.tokens.astype(group.tokens.dtype, copy=False)
        group.labels = rows.labels
        group.continues = None if self.hides_documents else rows.continues
        if self._pads:
            group.filled = rows.filled
        group.banned = rows.banned

    @functools.cached_property
    def _plan(self) -> list[tuple[Augmentation, int]]:
        """All that is done to rows, in order, each with its place in the list of augmentations.

        Labels of the text are made after it was changed, and before inputs are. Where inputs are
        replaced and then masked, the labels are the clean tokens of the masked ones.
        """
        stages = [each.stage for each in self.augmentations]
        plan = list(zip(self.augmentations, range(len(stages)), strict=True))
        if INPUTS in stages and MASKS in stages:
            plan.insert(stages.count(TEXT), (_KeepClean(), 0))
        elif MASKS not in stages and (INPUTS in stages or self._pads):
            plan.insert(stages.count(TEXT), (_NextTokens(not self.hides_documents), 0))
        return plan

    @functools.cached_property
    def _compiled_plan(self) -> list[np.ndarray | tuple[Augmentation, int]]:
        """The same for the kernel: tables of steps, and what it cannot do between them."""
        plan: list[Any] = []
        for augmentation, place in self._plan:
            step = augmentation.step(self.ids)
            if step is None:
                plan.append((augmentation, place))
                continue
            table = np.zeros((1, _NUMBERS_OF_A_STEP), np.uint64)
            keys = keys_of(self.seed, place).tolist()
            table[0, : len(step) + 2] = (step[0], *keys, *step[1:])
            if plan and isinstance(plan[-1], np.ndarray):
                plan[-1] = np.concatenate([plan[-1], table])
            else:
                plan.append(table)
        return plan

    @property
    def _pads(self) -> bool:
        return any(each.pads for each in self.augmentations)


class _KeepClean(Augmentation):
    """Keeps the tokens as they are before inputs are replaced."""

    def apply(self, rows: Rows, random: RowRandom) -> None:
        rows.kept = rows.tokens.copy()

    def step(self, ids: KnownIds) -> tuple[int, ...]:
        return (KEEP_CLEAN,)


@dataclass(frozen=True)
class _NextTokens(Augmentation):
    """Makes the next token of the text the label of each input, -100 where there is no loss."""

    within_documents: bool
    """No loss where the next token begins a document."""

    def apply(self, rows: Rows, random: RowRandom) -> None:
        counts = ~rows.padding
        if self.within_documents and rows.continues is not None:
            counts &= rows.continues
        if rows.banned is not None:
            counts &= ~rows.banned
        rows.labels = np.where(counts, rows.tokens, IGNORED)[:, 1:]

    def step(self, ids: KnownIds) -> tuple[int, ...]:
        return NEXT_TOKENS, self.within_documents
