"""Readers: spans of tokens become rows of a batch. Each is chosen when a loader is built.

`RunReader` copies out of arrays: mapped files, unpacked frames, an array in memory. `FileReader`
reads files that cannot be mapped, span by span. `MixedReader` divides spans among the readers of
several datasets. stores/ has one more, which fetches ahead of what it is asked for.
"""

import functools
import itertools
import os
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np

from tokenmill import kernel
from tokenmill.order.spans import Spans


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
    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        """Copy each span to its place in `out`, (rows, columns) of any integer type.

        In `continues`, (rows, columns) bool, the flag of each token that begins a document, as the
        end-of-text id says, becomes False.
        """

    def follow(self, coming: Callable[[], Spans]) -> None:  # noqa: B027
        """Take, once, a function that gives the spans to come; most readers have no use for it.

        Its spans are of this reader's axis, in the order of their need.
        """


class RunReader(SpanReader):
    """Spans of an axis that is cut into runs of tokens: files, or frames of compressed ones.

    `array_of(k)` gives the tokens of run k; at most `max_open` of them are held.
    """

    def __init__(
        self,
        edges: np.ndarray,
        dtype: np.dtype[Any],
        array_of: Callable[[int], np.ndarray],
        max_open: int,
        ids: IdLimit,
    ) -> None:
        self._edges = edges
        self._dtype = dtype
        self._array_of = array_of
        self._max_open = max_open
        self._ids = ids
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()  # runs are exchanged while nobody copies
        self._maps = _maps(self._edges, self._dtype)
        self._held: dict[int, None] = {}  # runs in the order in which they were put in

    def __getstate__(self) -> dict[str, Any]:
        names = ("_edges", "_dtype", "_array_of", "_max_open", "_ids")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def __contains__(self, run: object) -> bool:
        """Return True if a run is held."""
        return run in self._held

    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        if self._process != os.getpid():  # a fork copies no threads, one of which had the lock
            self._forget()
        tables = (spans.row, spans.column, spans.start, spans.length)
        ids = self._ids
        marks = Marks.of(continues, ids)
        with self._lock:
            done, missing = self._maps.gather(out, *tables, ids.largest, 0, *marks)
            while done < len(spans.row):
                row, column, start, length = (int(table[done]) for table in tables)
                if missing < 0:
                    ids.refuse(start, length)
                parts = parts_in_runs(self._edges, start, length)
                if len(parts) > self._max_open:
                    self._copy(parts, out[row, column : column + length])
                    marks.clear(row, column, out[row, column : column + length])
                    done += 1
                else:
                    self._hold([run for run, _, _ in parts])
                done, missing = self._maps.gather(out, *tables, ids.largest, done, *marks)

    def _hold(self, runs: list[int]) -> None:
        """Put in the runs of one span; those that were put in first make room."""
        new = {run: self._array_of(run) for run in runs if run not in self._held}
        num_dropped = max(0, len(self._held) + len(new) - self._max_open)
        others = (run for run in self._held if run not in runs)
        for run in list(itertools.islice(others, num_dropped)):
            self._maps.drop(run)
            del self._held[run]
        for run, array in new.items():
            self._maps.put(run, array)
            self._held[run] = None

    def _copy(self, parts: list[tuple[int, int, int]], row: np.ndarray) -> None:
        """Copy a span over more runs than may be held, one after the other."""
        done = 0
        for run, offset, count in parts:
            tokens = self._array_of(run)[offset : offset + count]
            if exceeds(tokens, self._ids.largest):
                self._ids.refuse(int(self._edges[run]) + offset, count)
            row[done : done + count] = tokens
            done += count


class FileReader(SpanReader):
    """Spans of files that are read with a call for each part of a span, never mapped.

    `read(i, offset, count)` returns tokens of file i.
    """

    def __init__(
        self, edges: np.ndarray, read: Callable[[int, int, int], np.ndarray], ids: IdLimit
    ) -> None:
        self._edges = edges
        self._read = read
        self._ids = ids

    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        marks = Marks.of(continues, self._ids)
        tables = (spans.row, spans.column, spans.start, spans.length)
        for row, column, start, length in zip(*(each.tolist() for each in tables), strict=True):
            for file, offset, count in parts_in_runs(self._edges, start, length):
                tokens = self._read(file, offset, count)
                if exceeds(tokens, self._ids.largest):
                    self._ids.refuse(start, length)
                out[row, column : column + count] = tokens
                marks.clear(row, column, tokens)
                column += count


class MixedReader(SpanReader):
    """Spans of several sources, each read by its own reader."""

    def __init__(self, readers: Sequence[SpanReader]) -> None:
        self._readers = readers

    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        for number, reader in enumerate(self._readers):
            mine = spans.source == number
            if mine.any():
                reader.read(spans.chosen(mine), out, continues)

    def follow(self, coming: Callable[[], Spans]) -> None:
        for number, reader in enumerate(self._readers):
            reader.follow(functools.partial(_spans_of, coming, number))


def _spans_of(coming: Callable[[], Spans], source: int) -> Spans:
    """Return the spans of one source among those to come."""
    spans = coming()
    return spans.chosen(spans.source == source)


class PlainMaps:
    """The NumPy twin of `kernel.compiled.Maps`: the same methods and results."""

    def __init__(self, edges: np.ndarray) -> None:
        self._edges = edges.tolist()
        self._arrays: dict[int, np.ndarray] = {}

    def put(self, run: int, tokens: np.ndarray) -> None:
        self._arrays[run] = tokens

    def drop(self, run: int) -> None:
        del self._arrays[run]

    def gather(
        self,
        out: np.ndarray,
        row: np.ndarray,
        column: np.ndarray,
        start: np.ndarray,
        length: np.ndarray,
        largest: int,
        first: int,
        *marks_of: Any,
    ) -> tuple[int, int]:
        marks = Marks(*marks_of)
        for span in range(first, len(row)):
            to = int(column[span])
            for run, offset, count in parts_in_runs(
                self._edges, int(start[span]), int(length[span])
            ):
                if run not in self._arrays:
                    return span, run
                tokens = self._arrays[run][offset : offset + count]
                if exceeds(tokens, largest):
                    return span, -1
                out[row[span], to : to + count] = tokens
                marks.clear(row[span], to, tokens)
                to += count
        return len(row), -1


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


def exceeds(tokens: np.ndarray, largest: int) -> bool:
    """True if an id, seen as unsigned, is larger."""
    unsigned = tokens.view(np.dtype(f"u{tokens.itemsize}"))
    return largest < np.iinfo(unsigned.dtype).max and int(unsigned.max(initial=0)) > largest


def _maps(edges: np.ndarray, dtype: np.dtype[Any]) -> Any:
    if kernel.compiled is None or not dtype.isnative:
        return PlainMaps(edges)
    return kernel.compiled.Maps(edges, dtype.itemsize, dtype.kind == "i")
