"""Spans: runs of tokens, and where each goes in the rows of a batch. The waist of the reading half.

An order turns sample numbers into spans (`Order.rows`), a reader turns spans into tokens
(reading/span_reader.py). A window is one span; a row of documents is one span per piece. A column
that no span fills is a begin token if a span follows it in its row, and padding if none does.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spans:
    """Spans of some rows, ordered by row and column; five int64 arrays of shape (spans,)."""

    num_rows: int
    row: np.ndarray
    column: np.ndarray
    """First column of the span in its row."""
    source: np.ndarray
    """Number of the dataset; all spans of a row have the same."""
    start: np.ndarray
    """First token, on the axis of the source."""
    length: np.ndarray
    """Tokens, at least 1."""

    @functools.cached_property
    def firsts(self) -> np.ndarray:
        """(num_rows + 1,): the first span of each row, then the number of spans."""
        if len(self.row) == self.num_rows:  # no row is empty
            return np.arange(self.num_rows + 1)
        return np.searchsorted(self.row, np.arange(self.num_rows + 1))

    @property
    def row_starts(self) -> np.ndarray:
        """(num_rows,): the first token of each row."""
        starts: np.ndarray = self.start[self.firsts[:-1]]
        return starts

    @property
    def row_sources(self) -> np.ndarray:
        """(num_rows,): the source of each row."""
        sources: np.ndarray = self.source[self.firsts[:-1]]
        return sources

    @functools.cached_property
    def filled(self) -> np.ndarray:
        """(num_rows,): columns of each row before its padding."""
        last = self.firsts[1:] - 1
        filled: np.ndarray = self.column[last] + self.length[last]
        return filled

    @functools.cached_property
    def after_begin(self) -> np.ndarray:
        """(spans,) bool: True if a begin token is put in before the span."""
        ends = np.zeros(len(self.row), np.int64)  # of the span before, in the same row
        ends[1:] = np.where(self.row[1:] == self.row[:-1], (self.column + self.length)[:-1], 0)
        after: np.ndarray = self.column > ends
        return after

    @property
    def targets(self) -> tuple[np.ndarray, np.ndarray]:
        """First target of each span on the axis, and the token after its last one.

        The first token of a document or window is predicted by nothing, unless it is a begin token.
        """
        return self.start + ~self.after_begin, self.start + self.length

    def between(self, low: int, high: int) -> "Spans":
        """Rows low .. high-1, counted from the first of them."""
        firsts = self.firsts[low : high + 1]
        here = slice(firsts[0], firsts[-1])
        row = self.row[here] - low if low else self.row[here]
        of_spans = (table[here] for table in (self.column, self.source, self.start, self.length))
        part = Spans(high - low, row, *of_spans)
        vars(part)["firsts"] = firsts - firsts[0]  # need not be searched for again
        return part

    def chosen(self, mask: np.ndarray) -> "Spans":
        """Some of the spans; the rows keep their numbers."""
        tables = (self.row, self.column, self.source, self.start, self.length)
        return Spans(self.num_rows, *(table[mask] for table in tables))

    def halved(self, rows_per_batch: int, block_size: int) -> "Spans":
        """The same tokens twice: inputs, and targets one column earlier, in rows of their own.

        Of each batch of `rows_per_batch` rows first come the rows of inputs, then those of targets.
        """
        batch, row = np.divmod(self.row, rows_per_batch)
        inputs = batch * 2 * rows_per_batch + row
        first = self.column == 0  # the token in column 0 is no target
        pairs = (
            (inputs, inputs + rows_per_batch),
            (self.column, self.column - ~first),
            (self.source, self.source),
            (self.start, self.start + first),
            (np.minimum(self.length, block_size - self.column), self.length - first),
        )
        # Inputs and targets of a span are neighbours: its tokens are still in the cache.
        return Spans(2 * self.num_rows, *(np.stack(pair, axis=1).reshape(-1) for pair in pairs))


def whole_rows(start: np.ndarray, length: int) -> Spans:
    """One span per row, all of one length, of source 0."""
    zeros = np.zeros(len(start), np.int64)
    lengths = np.full(len(start), length, np.int64)
    return Spans(len(start), np.arange(len(start)), zeros, zeros, start, lengths)


def join_rows(parts: Sequence[Spans], numbers: Sequence[np.ndarray], num_rows: int) -> Spans:
    """One table of all rows: row i of parts[k] becomes row numbers[k][i]."""
    rows = np.concatenate([number[part.row] for part, number in zip(parts, numbers, strict=True)])
    order = np.argsort(rows, kind="stable")
    tables = zip(*((p.column, p.source, p.start, p.length) for p in parts), strict=True)
    return Spans(num_rows, rows[order], *(np.concatenate(table)[order] for table in tables))


def runs(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Runs start, start + 1, ... of these lengths, one after the other."""
    numbers: np.ndarray = np.arange(counts.sum())
    numbers += (starts - counts.cumsum() + counts).repeat(counts)
    return numbers


def groups_of(keys: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each key of a 1-D array, in ascending order, and the positions it is at."""
    order = np.argsort(keys, kind="stable")
    values, firsts = np.unique(keys[order], return_index=True)
    return zip(values.tolist(), np.split(order, firsts[1:]), strict=False)
