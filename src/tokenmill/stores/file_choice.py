"""Which files of a store are worth fetching whole, by how an order reads them.

Where the cache holds the dataset: all that are needed. Else it depends on the order:

  NEIGHBOURS   an order that reads all of a file soon (`sequential`, `blocks`): the files that are
               needed next, as many as fit beside those that are here and needed
  EVERYWHERE   an order that may read any row next (`shuffle`, `random`): always the first files of
               the dataset, as many as fit, so that processes that share a cache agree and nothing
               is evicted. None, where the cache holds less than an eighth of the dataset
  SOME         any other: files of which more than half was announced
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.order.order import Spread
from tokenmill.reading.token_file import TokenFiles

WORTH_FILLING = 8


class FileChoice:
    """What fits into a cache of so many bytes."""

    def __init__(self, files: TokenFiles, max_bytes: int) -> None:
        self._files = files
        self._sizes = files.numbers("file_bytes")
        self._max_bytes = max_bytes
        total = int(self._sizes.sum())
        self._all_fit = total <= max_bytes
        # Some room is left for indexes, and for what other processes fetch at the same moment.
        self._room = max(max_bytes - max_bytes // 8, int(self._sizes.max(initial=0)))
        self._is_worth_filling = total <= WORTH_FILLING * max_bytes
        self._first = set(np.flatnonzero(self._sizes.cumsum() <= self._room).tolist())

    def whole(
        self, needed: Sequence[int], here: set[int], rows: np.ndarray, spread: Spread
    ) -> list[int]:
        """The files to fetch whole, of those that are needed (in this order) and not here."""
        missing = [i for i in needed if i not in here]
        if self._all_fit:
            return missing
        if spread is Spread.EVERYWHERE:
            first = self._first if self._is_worth_filling else set[int]()
            return [i for i in missing if i in first]
        if spread is Spread.SOME:
            missing = self._mostly_needed(missing, rows)
        return self._that_fit(missing, sum(int(self._sizes[i]) for i in here))

    def _mostly_needed(self, missing: list[int], rows: np.ndarray) -> list[int]:
        counts = np.bincount(rows[:, 0], weights=rows[:, 2], minlength=len(self._files))
        found = [
            i for i in missing if 2 * counts[i] * self._files[i].dtype.itemsize > self._sizes[i]
        ]
        # An order that stays in one place continues in the last file.
        last = [int(rows[-1, 0])] if found else []
        return [i for i in missing if i in {*found, *last}]

    def _that_fit(self, missing: list[int], used: int) -> list[int]:
        """The first of them, as many as there is room for."""
        sizes = used + self._sizes[missing].cumsum()
        return missing[: int(np.searchsorted(sizes, self._room, side="right"))]
