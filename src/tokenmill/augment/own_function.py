"""A function of the user's as an augmentation: with a name and a version, and checked.

    def swap_case(rows):
        table = ...
        return np.where(rows.fixed, rows.tokens, table[rows.tokens])

    swap_case.name, swap_case.version = "swap-case", 1
    loader = tokenmill.BatchLoader(data, augment=[swap_case])

It is given `Rows` (augmentation.py) with `random` in it, and returns tokens of the same shape. It
must follow from them alone: then it is the same on any rank, and after any resume. Name and version
are part of the fingerprint; a function that changes needs another version.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tokenmill.augment.augmentation import TEXT, Augmentation, Rows
from tokenmill.augment.row_random import RowRandom


@dataclass(frozen=True)
class OwnFunction(Augmentation):
    """A function from rows to tokens, by its name and version."""

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
        self._check(found, before, fixed, rows.ids.largest)
        rows.tokens = np.ascontiguousarray(found, before.dtype)
        if rows.banned is not None:  # the function may have moved tokens: none of these rows counts
            rows.banned = np.broadcast_to(rows.banned.any(axis=1, keepdims=True), found.shape)

    def _check(
        self, found: np.ndarray, before: np.ndarray, fixed: np.ndarray, largest: int
    ) -> None:
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
