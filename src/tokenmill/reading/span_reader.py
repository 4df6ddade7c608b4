"""Readers: spans of tokens become rows of a batch. Each is chosen when a loader is built.

stores/ has one more, which fetches ahead of what it is asked for.
"""

import functools
import itertools
import operator
import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from tokenmill import kernel
from tokenmill.base.histogram import Histogram
from tokenmill.order.spans import Spans

Flags = np.ndarray | None
"""(rows, columns) bool."""
Cells = Mapping[str, np.ndarray] | None
"""(rows, columns) or (rows, columns, k) for each column of the data (columns.py), by name."""


class IdLimit(Protocol):
    """What a reader looks for among the ids that it copies."""

    largest: int
    """The largest id that may be read. Ids are seen as unsigned, so that one below 0 is larger."""
    end_of_text: int | None
    """The id beside every document; None if there is none."""
    comes_before: bool
    """True if it is the first token of its document, not the last one."""

    def refuse(self, start: int, length: int) -> NoReturn:
        """Raise the error for tokens of the axis among which there is a larger one."""


class SpanReader(ABC):
    """Copies spans of one or several axes of tokens into rows."""

    @abstractmethod
    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        """Copy each span to its place in `out`, (rows, columns) of any integer type.

        In `continues`, (rows, columns) bool, the flag of each token that begins a document, as the
        end-of-text id says, becomes False. `cells` are for readers that were made `with_columns`.
        """

    def with_columns(self, columns: Any) -> "SpanReader":
        """Return a reader that copies these `Columns` (columns.py) by the same spans."""
        from tokenmill.reading.columns import PlainColumns

        return PlainColumns(self, columns)

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:  # noqa: B027
        """Take, once, a function that gives the spans to come; most readers have no use for it.

        Its spans are of this reader's axis, in the order of their need. How long the reader waits
        for what it fetches is counted in `fetches`.
        """


class FileReader(SpanReader):
    """Spans of an axis that is cut into runs of tokens, with a call for each part of a span.

    `read(i, offset, count)` returns tokens of run i: a file that is never mapped, say.
    """

    def __init__(
        self, edges: np.ndarray, read: Callable[[int, int, int], np.ndarray], ids: IdLimit
    ) -> None:
        self._edges = edges
        self._read = read
        self._ids = ids

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        marks = Marks.of(continues, self._ids)
        tables = (spans.row, spans.column, spans.start, spans.length)
        for span in zip(*(each.tolist() for each in tables), strict=True):
            self._copy(span, out, marks)

    def _copy(self, span: tuple[int, ...], out: np.ndarray, marks: "Marks") -> None:
        row, column, start, length = span
        for run, offset, count in parts_in_runs(self._edges, start, length):
            tokens = self._read(run, offset, count)
            if int(tokens.view(f"u{tokens.itemsize}").max()) > self._ids.largest:
                self._ids.refuse(start, length)
            out[row, column : column + count] = tokens
            marks.clear(row, column, tokens)
            column += count


class RunReader(FileReader):
    """Spans of runs that are arrays: mapped files, or frames of compressed ones.

    `array_of(k)` gives the tokens of run k; at most `max_open` of them are held. The kernel copies
    all spans in one call; without it, and in another byte order, they are copied one by one.
    """

    def __init__(
        self,
        edges: np.ndarray,
        dtype: np.dtype[Any],
        array_of: Callable[[int], np.ndarray],
        max_open: int,
        ids: IdLimit,
    ) -> None:
        self.settings = (edges, dtype, array_of, max_open, ids)
        self._edges = edges
        self._ids = ids
        self._dtype = dtype
        self._array_of = array_of
        self._max_open = max_open
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()  # runs are exchanged while nobody copies
        self._held: dict[int, np.ndarray] = {}  # in the order in which they were put in
        self._maps: Any = None
        if kernel.compiled is not None and self._dtype.isnative:
            signed = self._dtype.kind == "i"
            self._maps = kernel.compiled.Maps(self._edges, self._dtype.itemsize, signed)

    def __reduce__(self) -> tuple[object, ...]:
        return RunReader, self.settings

    def with_columns(self, columns: Any) -> SpanReader:
        if self._maps is None:
            return super().with_columns(columns)
        from tokenmill.reading.columns import ColumnRunReader

        return ColumnRunReader(self, columns)

    def __contains__(self, run: object) -> bool:
        """Return True if a run is held."""
        return run in self._held

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        if self._process != os.getpid():  # a fork copies no threads, one of which had the lock
            self._forget()
        with self._lock:
            if self._maps is None:
                super().read(spans, out, continues)
            else:
                self._gather(spans, out, Marks.of(continues, self._ids), cells)

    def _gather(self, spans: Spans, out: np.ndarray, marks: "Marks", cells: Cells) -> None:
        tables = (spans.row, spans.column, spans.start, spans.length)
        ids = self._ids
        pairs = self._pairs(cells)
        done, missing = self._maps.gather(out, *tables, ids.largest, 0, *marks, pairs)
        while done < len(spans.row):
            span = tuple(int(table[done]) for table in tables)
            if missing < 0:
                ids.refuse(*span[2:])
            runs = [run for run, _, _ in parts_in_runs(self._edges, *span[2:])]
            if len(runs) > self._max_open:
                self._copy(span, out, marks)
                done += 1
            else:
                self._hold(runs)
            done, missing = self._maps.gather(out, *tables, ids.largest, done, *marks, pairs)

    def _pairs(self, cells: Cells) -> tuple[tuple[Any, np.ndarray], ...]:
        """Return what the kernel takes for columns: maps, and the rows that they go to."""
        return ()

    def _read(self, run: int, offset: int, count: int) -> np.ndarray:
        self._hold([run])
        return self._held[run][offset : offset + count]

    def _hold(self, runs: list[int]) -> None:
        """Put in the runs of one span; those that were put in first make room."""
        new = {run: self._array_of(run) for run in runs if run not in self._held}
        num_dropped = max(0, len(self._held) + len(new) - self._max_open)
        others = (run for run in self._held if run not in runs)
        for run in list(itertools.islice(others, num_dropped)):
            del self._held[run]
            if self._maps is not None:
                self._drop(run)
        for run, array in new.items():
            if self._maps is not None:
                self._put(run, array)
            self._held[run] = array

    def _put(self, run: int, array: np.ndarray) -> None:
        self._maps.put(run, array)

    def _drop(self, run: int) -> None:
        self._maps.drop(run)


class MixedReader(SpanReader):
    """Spans that are divided among several readers; `number_of` gives the reader of each span."""

    def __init__(
        self,
        readers: Sequence[SpanReader],
        number_of: Callable[[Spans], np.ndarray] = operator.attrgetter("source"),
    ) -> None:
        self._readers = readers
        self._number_of = number_of

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        numbers = self._number_of(spans)
        for number, reader in enumerate(self._readers):
            mine = numbers == number
            if mine.any():
                reader.read(spans.chosen(mine), out, continues, cells)

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:
        for number, reader in enumerate(self._readers):
            reader.follow(functools.partial(self._coming_for, number, coming), fetches)

    def _coming_for(self, number: int, coming: Callable[[], Spans]) -> Spans:
        spans = coming()
        return spans.chosen(self._number_of(spans) == number)


class Marks(NamedTuple):
    """Flags of tokens, (rows, columns) bool, and the id that clears some of them."""

    flags: np.ndarray | None
    id: int
    marks_next: bool
    """The flag of the token after the id is cleared, not its own."""

    @classmethod
    def of(cls, continues: np.ndarray | None, ids: IdLimit) -> "Marks":
        """What clears the flags of tokens that begin a document."""
        if continues is None or ids.end_of_text is None:
            return cls(None, 0, False)
        return cls(continues, ids.end_of_text, not ids.comes_before)

    def clear(self, row: int, column: int, tokens: np.ndarray) -> None:
        """Clear the flags of tokens that are in a row from this column on."""
        if self.flags is not None:
            flags = self.flags[row, column + self.marks_next :][: len(tokens)]
            flags &= tokens[: len(flags)] != self.id


def parts_in_runs(
    edges: Sequence[int] | np.ndarray, start: int, length: int
) -> list[tuple[int, int, int]]:
    """(run, offset in it, tokens) of a stretch of an axis, cut where runs end."""
    parts = []
    stop = start + length
    run = bisect_right(edges, start) - 1
    while start < stop:
        end = min(stop, int(edges[run + 1]))
        if end > start:
            parts.append((run, start - int(edges[run]), end - start))
        start = end
        run += 1
    return parts
