"""Inputs that become another id, chosen at random: what MaskTokens and ReplaceTokens share."""

from dataclasses import dataclass

import numpy as np

from tokenmill import kernel
from tokenmill.augment.augmentation import Rows
from tokenmill.augment.row_random import RowRandom, chance_of, high, is_below


@dataclass(frozen=True)
class InputChange:
    """`rate` of the inputs are chosen; each then stays, becomes a random id, or the mask.

    Special ids, padding and the last token of a row, which is a target only, are never chosen.
    """

    rate: float
    keep: float
    """Of those chosen, the share that stays as it is."""
    random: float
    """Of those chosen, the share that becomes a random id."""
    mask_id: int

    def apply(self, rows: Rows, random: RowRandom, labels: np.ndarray | None = None) -> None:
        """Change inputs; with `labels`, (B, T), the label of each chosen one is its clean token."""
        if kernel.compiled is None:
            self._apply(rows, random, labels)
            return
        kernel.compiled.change_inputs(
            rows.tokens,
            rows.samples,
            rows.filled,
            rows.ids.special_table,
            *random.keys,
            chance_of(self.rate),
            chance_of(self.keep),
            chance_of(self.keep + self.random),
            self.mask_id,
            rows.ids.ordinary_before,
            rows.ids.num_ordinary,
            None if labels is None else rows.clean,
            labels,
        )

    def _apply(self, rows: Rows, random: RowRandom, labels: np.ndarray | None) -> None:
        is_chosen = random.chosen(self.rate, rows.tokens.shape[1]) & ~rows.fixed
        is_chosen[:, -1] = False
        row, column = np.nonzero(is_chosen)  # (chosen inputs,) each
        if labels is not None:
            labels[row, column] = rows.clean[row, column]
        bits = random.bits(row, column)
        changes = ~is_below(high(bits), self.keep)
        is_random = changes & is_below(high(bits), self.keep + self.random)
        new = np.full(len(row), self.mask_id)
        if is_random.any():
            new[is_random] = rows.ids.draw(bits[is_random])
        rows.tokens[row[changes], column[changes]] = new[changes]
