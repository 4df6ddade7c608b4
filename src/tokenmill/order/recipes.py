"""Which pieces share a row: best-fit decreasing over the histogram of lengths, not over documents.

Pieces of one length are placed together (order.md, "Rows of documents", 3). The result is a
table of recipes ("3 pieces of 512, 1 of 500, 12 tokens free"), each for a number of rows: a few
thousand, however many documents there are. The rows and their padding are those of packing one by
one.
"""

import functools
from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenmill import kernel


class _Group(NamedTuple):
    """Some neighbours of rows that are filled alike."""

    rows: int
    entries: tuple[tuple[int, int, int], ...]
    """Length, count and first of what is in them: see `Recipes`. Empty: they do not exist yet."""


class PiecesOfRows(NamedTuple):
    """The pieces of some rows, one after the other: (pieces,) int64 each."""

    row: np.ndarray
    """The row, by its place among those that were asked for."""
    column: np.ndarray
    """The first column of the piece in its row."""
    length: np.ndarray
    number: np.ndarray
    """The number of the piece among all of its length."""


class _Templates(NamedTuple):
    """The pieces of a row of each recipe, one recipe after the other."""

    starts: np.ndarray
    """(recipes + 1,): the first piece of each recipe, then the number of pieces."""
    column: np.ndarray
    length: np.ndarray
    first: np.ndarray
    """The number of the piece among all of its length, in the first row of the recipe."""
    step: np.ndarray
    """What is added to that number for each row more."""


@dataclass(frozen=True)
class Recipes:
    """The rows of an epoch: recipe i is for rows row_starts[i] .. row_starts[i + 1] - 1.

    Its entries are entry_starts[i] .. entry_starts[i + 1] - 1, from the longest pieces to the
    shortest. An entry puts `count` pieces of `length` into each row; of all pieces of this length,
    row o of the recipe has the numbers first + o * count and the following.
    """

    row_starts: np.ndarray
    entry_starts: np.ndarray
    length: np.ndarray
    count: np.ndarray
    first: np.ndarray

    @property
    def num_rows(self) -> int:
        return int(self.row_starts[-1])

    @functools.cached_property
    def _templates(self) -> "_Templates":
        entry = np.arange(len(self.length)).repeat(self.count)
        before = np.cumsum(self.count) - self.count  # pieces of all entries before
        nth = np.arange(len(entry)) - before[entry]
        length = self.length[entry]
        starts = np.append(0, np.cumsum(self.count))[self.entry_starts]
        column = np.cumsum(length) - length
        column -= column[starts[:-1]].repeat(np.diff(starts))
        return _Templates(starts, column, length, self.first[entry] + nth, self.count[entry])

    def expand(self, rows: np.ndarray) -> "PiecesOfRows":
        """The pieces of these rows, (rows,) int64, one row after the other."""
        template = self._templates
        recipe = np.searchsorted(self.row_starts, rows, side="right") - 1
        within = rows - self.row_starts[recipe]
        num_pieces = np.diff(template.starts)[recipe]
        if kernel.compiled is not None:
            pieces = PiecesOfRows(*(np.empty(num_pieces.sum(), np.int64) for _ in range(4)))
            kernel.compiled.expand_rows(*pieces, recipe, within, *template)
            return pieces
        row = np.arange(len(rows)).repeat(num_pieces)
        before = np.cumsum(num_pieces) - num_pieces  # pieces of all rows before
        entry = np.arange(len(row)) + (template.starts[recipe] - before)[row]
        number = template.first[entry] + within[row] * template.step[entry]
        return PiecesOfRows(row, template.column[entry], template.length[entry], number)


def pack(lengths: Sequence[int], counts: Sequence[int], capacity: int) -> Recipes:
    """The recipes for so many pieces of each length (ascending, 1 to `capacity`).

    Two rows of 3 + 2 and 3 + 1 + 1, and one of a single 1:

    >>> recipes = pack([1, 2, 3], [3, 1, 2], capacity=5)
    >>> recipes.row_starts.tolist(), recipes.length.tolist(), recipes.count.tolist()
    ([0, 1, 2, 3], [3, 2, 3, 1, 1], [1, 1, 1, 2, 1])
    """
    open_rows = _OpenRows()
    for length, pieces in zip(reversed(lengths), reversed(counts), strict=True):
        placed = 0
        while placed < pieces:
            space, group = open_rows.take(length) or (capacity, _Group(pieces, ()))
            each = space // length
            rows = min(group.rows, (pieces - placed) // each)
            if not rows:  # too few are left to fill one more row
                rows = 1
                each = pieces - placed
            if group.entries and group.rows > rows:
                rest = tuple((size, n, first + rows * n) for size, n, first in group.entries)
                open_rows.put(space, _Group(group.rows - rows, rest))
            entries = (*group.entries, (length, each, placed))
            open_rows.put(space - each * length, _Group(rows, entries))
            placed += rows * each
    groups = list(open_rows)
    table = np.array([entry for group in groups for entry in group.entries], np.int64)
    length_of, count_of, first_of = table.reshape(-1, 3).T.copy()
    return Recipes(
        np.cumsum([0, *(group.rows for group in groups)], dtype=np.int64),
        np.cumsum([0, *(len(group.entries) for group in groups)], dtype=np.int64),
        length_of,
        count_of,
        first_of,
    )


def one_each(lengths: Sequence[int], counts: Sequence[int]) -> Recipes:
    """A row for every piece, the shortest first."""
    num = len(lengths)
    return Recipes(
        np.append(0, np.cumsum(counts, dtype=np.int64)),
        np.arange(num + 1),
        np.array(lengths, np.int64),
        np.ones(num, np.int64),
        np.zeros(num, np.int64),
    )


class _OpenRows:
    """Groups of rows by their free space; of one space, the latest group is taken first."""

    def __init__(self) -> None:
        self._groups: dict[int, list[_Group]] = {}
        self._spaces: list[int] = []  # ascending, those that have groups

    def take(self, length: int) -> "tuple[int, _Group] | None":
        """Remove a group with the least space that is at least `length`."""
        i = bisect_left(self._spaces, length)
        if i == len(self._spaces):
            return None
        space = self._spaces[i]
        group = self._groups[space].pop()
        if not self._groups[space]:
            del self._spaces[i]
        return space, group

    def put(self, space: int, group: _Group) -> None:
        groups = self._groups.setdefault(space, [])
        if not groups:
            insort(self._spaces, space)
        groups.append(group)

    def __iter__(self) -> Iterator[_Group]:
        """From the fullest rows to the emptiest; of one space, the earliest group first."""
        for space in self._spaces:
            yield from self._groups[space]
