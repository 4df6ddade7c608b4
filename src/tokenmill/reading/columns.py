"""Columns of tokens: values next to the ids, with the same number of bits for every token.

    loss      1 bit: 1 where the token is a target
    weights   8 or 16 bits: how much the token counts as a target, in sixteenths or in 4096ths
    others    1 bit, 8 bits, or k values of 16 bits, as their writer means them

A column has one file per shard (docs/reference/format.md). Its values are gathered by the spans of the ids, in
the same call of the kernel. A dataset without columns never imports this module.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tokenmill import kernel
from tokenmill.errors import FormatError
from tokenmill.order.spans import Spans
from tokenmill.reading.shard_reader import ShardReader
from tokenmill.reading.span_reader import (
    ColumnRows,
    Marks,
    RunReader,
    SpanReader,
    parts_in_runs,
)

LOSS = "loss"
WEIGHTS = "weights"
MAX_COLUMNS = 16
MAX_VALUES = 4096  # of 16 bits, per token
_NAME = re.compile("[a-z][a-z0-9_]{0,31}")
_TAKEN = ("bin", "ends", "zst", "tmp")
_ONE = {8: 16, 16: 4096}  # the weight 1, by bits


class Column(NamedTuple):
    """The name of a column, and its bits per token."""

    name: str
    bits: int

    @classmethod
    def of(cls, name: str, values: np.ndarray) -> "Column":
        """Return the column that values (tokens, ...) are of, by its name or by their type."""
        by_type = {"b1": 1, "u1": 8, "u2": 16 * math.prod(values.shape[1:])}
        bits = by_type.get(f"{values.dtype.kind}{values.itemsize}", 0)
        column = cls(name, {LOSS: 1, WEIGHTS: 16}.get(name, bits))
        if (expected := column.problem) is not None:
            raise FormatError(
                f"column {name!r:.80} has {values.dtype} values of shape {values.shape}; expected "
                f"{expected}",
                hint="give an array of bool, uint8 or uint16, with one value (or k) per token",
            )
        return column

    @property
    def problem(self) -> str | None:
        """Return what a column must be, where this is none."""
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            return f"a name of a-z, 0-9 and _, at most 32 of them, none of {', '.join(_TAKEN)}"
        allowed = {LOSS: (1,), WEIGHTS: tuple(_ONE)}.get(self.name)
        sizes = allowed or (1, 8, *range(16, 16 * MAX_VALUES + 1, 16))
        if self.bits in sizes:
            return None
        return f"{' or '.join(map(str, allowed)) if allowed else '1, 8, 16 or k x 16'} bits"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values in memory."""
        return np.dtype({1: "bool", 8: "u1"}.get(self.bits, "<u2"))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values of one token: () or (k,)."""
        return (self.bits // 16,) if self.bits > 16 else ()

    @property
    def cell(self) -> tuple[str, tuple[int, ...]]:
        """Width of a value in memory, and shape: what several sources of a mixture must share."""
        return str(self.dtype.itemsize), self.shape

    @property
    def default(self) -> int | None:
        """The stored value that tokens of data without this column have; None: there is none."""
        if self.name == LOSS:
            return 1
        return _ONE[self.bits] if self.name == WEIGHTS else None

    def num_bytes(self, num_tokens: int) -> int:
        """Size of its file in a shard of so many tokens."""
        return -(-self.bits * num_tokens // 8)

    def values(self, data: np.ndarray, skipped: int, count: int) -> np.ndarray:
        """Return the values of `count` tokens from the bytes of a file, after `skipped` bits."""
        if self.bits == 1:
            bits = np.unpackbits(data, count=skipped + count, bitorder="little")
            return bits[skipped:].view(bool)
        return data.view(self.dtype).reshape(count, *self.shape)

    def meaning(self, stored: np.ndarray) -> np.ndarray:
        """Return stored values as they are meant: weights as float32, loss as bool."""
        if self.name == WEIGHTS:
            return stored * np.float32(1 / _ONE[self.bits])
        return stored != 0 if self.name == LOSS else stored

    def checked(self, values: Any, num_tokens: int, where: str) -> np.ndarray:
        """Return what is stored for values that were given; weights are real numbers."""
        array = np.asarray(values)
        if array.shape != (num_tokens, *self.shape):
            size = " x ".join(map(str, (num_tokens, *self.shape)))
            raise FormatError(
                f"{where}: column {self.name!r} has {' x '.join(map(str, array.shape)) or 'one'} "
                f"values, not {size}",
                hint=f"give one value of {self.bits} bits for each token",
            )
        scale = _ONE[self.bits] if self.name == WEIGHTS else 1
        stored = np.rint(array * scale) if scale > 1 else array
        largest = (1 << min(self.bits, 16)) - 1
        if array.dtype.kind not in ("biu" if scale == 1 else "biuf") or not (
            np.all(stored >= 0) and np.all(stored <= largest)
        ):
            bad = array[~((stored >= 0) & (stored <= largest))].reshape(-1)[:1].tolist()
            raise FormatError(
                f"{where}: column {self.name!r} has {bad or array.dtype}, and holds "
                + (f"weights from 0 to {largest / scale:g}" if scale > 1 else f"0 to {largest:,}"),
                hint=f"it has {self.bits} bits per token; give others, or give it more bits",
            )
        return stored.astype(self.dtype)


class Columns:
    """The columns of the files of a reader: bytes and values of neighbouring tokens."""

    def __init__(self, reader: ShardReader, edges: np.ndarray) -> None:
        """`edges`: where the files begin on the axis, and its end."""
        first = reader.files[0].columns
        self.all = tuple(Column(column.name, column.bits) for column in first)
        self._edges = edges
        self._firsts = [file.first for file in reader.files]
        self._readers = [
            reader.of([file.columns[k].file for file in reader.files]) for k in range(len(first))
        ]

    def parts(self, start: int, stop: int) -> list[tuple[np.ndarray, int]]:
        """Return, for each column, the bytes of tokens start .. stop-1, all of one file.

        With each come the bits of the first byte that are not of these tokens.
        """
        (place,) = parts_in_runs(self._edges, start, stop - start)
        return [self._bytes(k, *place) for k in range(len(self.all))]

    def copy(self, span: tuple[int, ...], rows: ColumnRows) -> None:
        """Copy the values of a span (row, column, start, length) to their place."""
        row, column, start, length = span
        for name in rows.keys() & {known.name for known in self.all}:
            rows[name][row, column : column + length] = self.values(name, start, start + length)

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the stored values of tokens start .. stop-1 of the axis."""
        k = [column.name for column in self.all].index(name)
        column = self.all[k]
        out = np.empty((stop - start, *column.shape), column.dtype)
        done = 0
        for i, offset, count in parts_in_runs(self._edges, start, stop - start):
            out[done : done + count] = column.values(*self._bytes(k, i, offset, count), count)
            done += count
        return out

    def meant(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the same values as they are meant (`Column.meaning`)."""
        column = next(column for column in self.all if column.name == name)
        return column.meaning(self.values(name, start, stop))

    def _bytes(self, k: int, i: int, offset: int, count: int) -> tuple[np.ndarray, int]:
        bits = self.all[k].bits
        first = (self._firsts[i] + offset) * bits
        stop = -(-(first + count * bits) // 8)
        return self._readers[k].read(i, first // 8, stop - first // 8), first % 8


class PlainColumns(SpanReader):
    """Any reader of ids, with columns copied span by span: the plain twin of `ColumnRunReader`."""

    def __init__(self, reader: SpanReader, columns: Columns) -> None:
        self._reader = reader
        self._columns = columns

    def read(
        self,
        spans: Spans,
        out: np.ndarray,
        continues: np.ndarray | None = None,
        columns: ColumnRows | None = None,
    ) -> None:
        self._reader.read(spans, out, continues)
        tables = (spans.row, spans.column, spans.start, spans.length)
        for span in zip(*(table.tolist() for table in tables), strict=True):
            self._columns.copy(span, columns or {})

    def follow(self, coming: Callable[[], Spans]) -> None:
        self._reader.follow(coming)


class ColumnRunReader(RunReader):
    """Spans of runs that are arrays, with their columns: one call of the kernel copies all."""

    def __init__(self, reader: RunReader, columns: Columns) -> None:
        self._columns = columns
        self._wanted: ColumnRows = {}  # of the call that holds the lock
        super().__init__(*reader.settings)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnRunReader, (RunReader(*self.settings), self._columns)

    def _forget(self) -> None:
        super()._forget()
        make = kernel.compiled.Maps  # type: ignore[union-attr]
        self._maps_of = {c.name: make(self._edges, c.bits // 8, False) for c in self._columns.all}

    def _pairs(self, columns: ColumnRows | None) -> tuple[tuple[Any, np.ndarray], ...]:
        self._wanted = columns or {}
        names = self._wanted.keys() & self._maps_of
        return tuple((self._maps_of[name], self._wanted[name]) for name in names)

    def _copy(self, span: tuple[int, ...], out: np.ndarray, marks: Marks) -> None:
        super()._copy(span, out, marks)
        self._columns.copy(span, self._wanted)

    def _put(self, run: int, array: np.ndarray) -> None:
        parts = self._columns.parts(*self._edges[run : run + 2].tolist())
        for maps, part in zip(self._maps_of.values(), parts, strict=True):
            maps.put(run, *part)
        super()._put(run, array)

    def _drop(self, run: int) -> None:
        super()._drop(run)
        for maps in self._maps_of.values():
            maps.drop(run)


class DefaultColumns(SpanReader):
    """A reader of data that lacks some columns: each of its tokens has the same value in them."""

    def __init__(self, reader: SpanReader, values: Mapping[str, int]) -> None:
        self._reader = reader
        self._values = values

    def read(
        self,
        spans: Spans,
        out: np.ndarray,
        continues: np.ndarray | None = None,
        columns: ColumnRows | None = None,
    ) -> None:
        self._reader.read(spans, out, continues, columns)
        tables = (spans.row, spans.column, spans.length)
        for row, column, length in zip(*(table.tolist() for table in tables), strict=True):
            for name, value in self._values.items():
                (columns or {})[name][row, column : column + length] = value

    def follow(self, coming: Callable[[], Spans]) -> None:
        self._reader.follow(coming)
