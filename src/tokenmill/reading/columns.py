"""Columns of tokens: values next to the ids, with the same number of bits for every token.

    loss      1 bit: 1 where the token is a target
    weights   8 or 16 bits: how much the token counts as a target, in 16ths or in 4096ths
    others    1 bit, 8 bits, or k values of 16 bits, as their writer means them

A column has one file per shard (docs/reference/format.md). It is gathered by the spans of the ids,
in the same call of the kernel. A dataset without columns never imports this module.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tokenmill import kernel
from tokenmill.base.histogram import Histogram
from tokenmill.errors import FormatError
from tokenmill.order.spans import Spans
from tokenmill.reading.shard_reader import ShardReader
from tokenmill.reading.span_reader import Cells, Flags, Marks, RunReader, SpanReader, parts_in_runs

LOSS = "loss"
WEIGHTS = "weights"
MAX_COLUMNS = 16
_NAME = re.compile("(?!(bin|ends|zst|tmp)$)[a-z][a-z0-9_]{0,31}")
_SIZES = (1, 8, *range(16, 16 * 4096 + 1, 16))
_ONE = {8: 16, 16: 4096}  # the weight 1 as it is stored, by bits


class Column(NamedTuple):
    """The name of a column, and its bits per token."""

    name: str
    bits: int

    @classmethod
    def of(cls, name: str, values: np.ndarray, where: str) -> "Column":
        """Return the column that values (tokens, ...) are of, by its name or by their type."""
        by_type = {"b1": 1, "u1": 8, "u2": 16 * math.prod(values.shape[1:])}
        bits = by_type.get(f"{values.dtype.kind}{values.itemsize}", 0)
        column = cls(name, {LOSS: 1, WEIGHTS: 16}.get(name, bits))
        if column.is_sound:
            return column
        what = f"{where}: column {name!r:.80} has {values.dtype} values of shape {values.shape}"
        hint = "a name is of a-z, 0-9 and _; give one bool, uint8 or uint16 per token, or k"
        raise FormatError(what, hint=hint)

    @property
    def is_sound(self) -> bool:
        sizes = {LOSS: (1,), WEIGHTS: tuple(_ONE)}.get(self.name, _SIZES)
        return self.bits in sizes and _NAME.fullmatch(self.name) is not None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values in memory."""
        return np.dtype({1: "bool", 8: "u1"}.get(self.bits, "<u2"))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values of one token: () or (k,)."""
        return (self.bits // 16,) if self.bits > 16 else ()

    @property
    def default(self) -> int | None:
        """The stored value for tokens of data without this column; None: there is none."""
        return 1 if self.name == LOSS else _ONE[self.bits] if self.name == WEIGHTS else None

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

    def stored(self, values: np.ndarray, num_tokens: int, where: str) -> np.ndarray:
        """Return how values are stored, the opposite of `meaning`; `where` is for errors."""
        scale = _ONE[self.bits] if self.name == WEIGHTS else 1
        largest = (1 << min(self.bits, 16)) - 1
        is_number = values.dtype.kind in ("biu" if scale == 1 else "biuf")
        stored = np.rint(values * scale) if scale > 1 and is_number else values
        if not is_number or values.shape != (num_tokens, *self.shape):
            wrong = f"{values.dtype} values of shape {values.shape}"
        elif stored.size and not 0 <= stored.min() <= stored.max() <= largest:
            wrong = f"values from {values.min()} to {values.max()}"
        else:
            return stored.astype(self.dtype)
        raise FormatError(
            f"{where}: column {self.name!r} has {wrong}",
            hint=f"give it values from 0 to {largest / scale:,.6g}, in the shape "
            f"{(num_tokens, *self.shape)}: one (or k) for each token",
        )


class Columns:
    """The columns of the files of a reader: bytes and values of neighbouring tokens."""

    def __init__(self, reader: ShardReader, edges: np.ndarray) -> None:
        """`edges`: where the files begin on the axis, and its end."""
        self.all = {c.name: Column(c.name, c.bits) for c in reader.files[0].columns}
        self._edges = edges
        self._firsts = [file.first for file in reader.files]
        self._readers = {
            name: reader.of([file.columns[k].file for file in reader.files])
            for k, name in enumerate(self.all)
        }

    def part(self, name: str, start: int, stop: int) -> tuple[np.ndarray, int]:
        """Return the bytes of tokens of one file, and the bits before the first of them."""
        ((i, offset, count),) = parts_in_runs(self._edges, start, stop - start)
        bits = self.all[name].bits
        first = (self._firsts[i] + offset) * bits
        end = -(-(first + count * bits) // 8)
        return self._readers[name].read(i, first // 8, end - first // 8), first % 8

    def values(self, name: str, start: int, stop: int) -> np.ndarray:
        """Return the stored values of tokens start .. stop-1 of the axis."""
        column = self.all[name]
        found = [np.empty((0, *column.shape), column.dtype)]
        for _, _, count in parts_in_runs(self._edges, start, stop - start):
            found.append(column.values(*self.part(name, start, start + count), count))
            start += count
        return np.concatenate(found)

    def copy(self, span: tuple[int, ...], cells: Mapping[str, np.ndarray]) -> None:
        """Copy the values of a span (row, column, start, length) to their place."""
        row, column, start, length = span
        for name in self.all:
            cells[name][row, column : column + length] = self.values(name, start, start + length)


class PlainColumns(SpanReader):
    """Any reader, with columns copied span by span: the plain twin of `ColumnRunReader`."""

    def __init__(self, reader: SpanReader, columns: Columns) -> None:
        self._reader = reader
        self._columns = columns

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        self._reader.read(spans, out, continues, cells)
        tables = (spans.row, spans.column, spans.start, spans.length)
        for span in zip(*(table.tolist() for table in tables), strict=True):
            self._columns.copy(span, cells or {})

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:
        self._reader.follow(coming, fetches)


class ColumnRunReader(RunReader):
    """Spans of runs that are arrays, with their columns: one call of the kernel copies all."""

    def __init__(self, reader: RunReader, columns: Columns) -> None:
        self._columns = columns
        self._wanted: Mapping[str, np.ndarray] = {}  # of the call that holds the lock
        super().__init__(*reader.settings)

    def __reduce__(self) -> tuple[object, ...]:
        return ColumnRunReader, (RunReader(*self.settings), self._columns)

    def _forget(self) -> None:
        super()._forget()
        assert kernel.compiled is not None
        new_maps = kernel.compiled.Maps
        columns = self._columns.all.values()
        self._maps_of = {c.name: new_maps(self._edges, c.bits // 8, False) for c in columns}

    def _pairs(self, cells: Cells) -> tuple[tuple[Any, np.ndarray], ...]:
        self._wanted = cells or {}
        return tuple((maps, self._wanted[name]) for name, maps in self._maps_of.items())

    def _copy(self, span: tuple[int, ...], out: np.ndarray, marks: Marks) -> None:
        super()._copy(span, out, marks)
        self._columns.copy(span, self._wanted)

    def _put(self, run: int, array: np.ndarray) -> None:
        start, stop = self._edges[run : run + 2].tolist()
        for name, maps in self._maps_of.items():
            maps.put(run, *self._columns.part(name, start, stop))
        super()._put(run, array)

    def _drop(self, run: int) -> None:
        super()._drop(run)
        for maps in self._maps_of.values():
            maps.drop(run)
