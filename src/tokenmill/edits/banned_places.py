"""Where banned tokens are in the rows of some steps: found for all steps at once, few of them.

They stay in the inputs, and have no loss as targets.
"""

import itertools
from bisect import bisect_left
from typing import NamedTuple

import numpy as np

from tokenmill.batches.batch import BannedRuns
from tokenmill.order.row_order import RowPieces
from tokenmill.order.sample_order import SampleOrder


class BannedPlaces(NamedTuple):
    """Runs of banned tokens, in the flat rows of each step that has some."""

    numbers: list[int]
    """These steps, ascending."""
    runs: list[BannedRuns]
    """Those of each of them."""
    first: int = 0
    """The step that is counted as 0."""

    def steps(self, low: int, high: int) -> "BannedPlaces | None":
        """Those of some steps; None if these have none."""
        i, j = (bisect_left(self.numbers, self.first + step) for step in (low, high))
        return BannedPlaces(self.numbers[i:j], self.runs[i:j], self.first + low) if i < j else None

    def of_each(self, num_steps: int) -> list[BannedRuns | None]:
        """Those of each step, None if it has none."""
        found: list[BannedRuns | None] = [None] * num_steps
        for number, runs in zip(self.numbers, self.runs, strict=True):
            found[number - self.first] = runs
        return found


def banned_in_windows(
    order: SampleOrder, sources: np.ndarray, index: np.ndarray, starts: np.ndarray
) -> BannedPlaces | None:
    """Those of windows; all tables are (steps, rows). None if no source has a ban."""
    length = order.block_size + 1
    begins = starts.reshape(-1)
    found = order.banned_parts(sources.reshape(-1), index.reshape(-1), begins, length)
    if found is None:
        return None
    row, low, high = found
    return _by_step(row * length + (low - begins[row]), high - low, starts.shape, length)


def banned_in_pieces(
    order: SampleOrder, sources: np.ndarray, index: np.ndarray, pieces: RowPieces
) -> BannedPlaces | None:
    """Those of rows made of pieces; `sources` and `index` are (steps, rows)."""
    length, row = order.block_size + 1, pieces.rows
    of_pieces = sources.reshape(-1)[row], index.reshape(-1)[row]
    found = order.banned_parts(*of_pieces, pieces.starts, pieces.lengths - pieces.begins)
    if found is None:
        return None
    piece, low, high = found
    column = pieces.columns[piece] + pieces.begins[piece] + (low - pieces.starts[piece])
    return _by_step(row[piece] * length + column, high - low, sources.shape, length)


def _by_step(
    places: np.ndarray, lengths: np.ndarray, shape: tuple[int, ...], length: int
) -> BannedPlaces:
    step, starts = np.divmod(places, shape[1] * length)
    stops = starts + lengths
    some, firsts = np.unique(step, return_index=True)
    bounds = itertools.pairwise([*firsts.tolist(), len(step)])
    runs = [BannedRuns(starts[first:stop], stops[first:stop]) for first, stop in bounds]
    return BannedPlaces(some.tolist(), runs)
