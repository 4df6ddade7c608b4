"""MaskTokens: masked language modelling (Devlin et al., 2018).

Each input is chosen with the chance `rate`. Of those chosen, a share `keep` stays as it is, a share
`random` becomes an id drawn uniformly from all that are not special, and the rest becomes the mask
token. The label of a chosen input is its own token, not the next one; all other labels are -100.
For models that read in both directions.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tokenmill.augment.augmentation import MASKS, OfFields, Rows, check_rate
from tokenmill.augment.changed_inputs import InputChange
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom
from tokenmill.batches.batch import IGNORED

MASK_NAMES = ("[MASK]", "<mask>", "<|mask|>", "<MASK>")


@dataclass(frozen=True)
class MaskTokens(OfFields):
    """Inputs that a model is to guess: `rate` of them, 80 % as the mask token, by default.

    `keep` of these stay as they are, `random` become another id. The mask token is that of the
    tokenizer unless `mask_id` is given. Labels are there only, and are the inputs' own tokens.
    """

    rate: float = 0.15
    mask_id: int | None = None
    keep: float = 0.1
    random: float = 0.1

    name: ClassVar[str] = "MaskTokens"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = MASKS
    needs_documents: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_rate("rate of MaskTokens", self.rate)
        check_rate("keep of MaskTokens", self.keep)
        check_rate("random of MaskTokens", self.random)
        check_rate("keep + random of MaskTokens", self.keep + self.random)

    def bound(self, ids: KnownIds) -> Self:
        if self.random:
            ids.check_can_draw("MaskTokens with random above 0")
        return replace(self, mask_id=ids.find("mask_id", self.mask_id, MASK_NAMES))

    def added_ids(self) -> tuple[int, ...]:
        return () if self.mask_id is None else (self.mask_id,)

    def apply(self, rows: Rows, random: RowRandom) -> None:
        assert self.mask_id is not None
        num_rows, length = rows.tokens.shape
        labels = np.full((num_rows, length - 1), IGNORED)
        InputChange(self.rate, self.keep, self.random, self.mask_id).apply(rows, random, labels)
        if rows.banned is not None:
            labels[rows.banned[:, :-1]] = IGNORED
        rows.labels = labels
