"""Write the columns of a shard, and check what a manifest says about them.

A file holds the values of all tokens of its shard, little-endian; of one bit each, eight tokens per
byte, the first in its lowest bit, and zeros after the last. reading/columns.py reads them.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.reading.columns import MAX_COLUMNS, Column
from tokenmill.shards.manifest import PACKED_SUFFIX, ColumnEntry, ShardEntry, SplitEntry


def columns_of(shard: ShardEntry) -> list[Column]:
    """Return the names and sizes of the columns of a shard."""
    return [Column(entry.name, entry.bits) for entry in shard.columns or ()]


def file_name(shard_file: str, column: str) -> str:
    """Return the name of the file of a column: `train/shard_00000.loss`."""
    return f"{shard_file.removesuffix('.bin')}.{column}"


def contradictions(splits: Mapping[str, SplitEntry]) -> Iterator[tuple[str, object, str]]:
    """Yield fields of a manifest that contradict others: name, value, and what is expected."""
    first = None
    for split, entry in splits.items():
        for number, shard in enumerate(entry.shards):
            first = first or shard
            for key, value, expected in _contradictions_in(shard, first):
                yield f"splits.{split}.shards[{number}].columns{key}", value, expected


def _contradictions_in(shard: ShardEntry, first: ShardEntry) -> Iterator[tuple[str, object, str]]:
    columns = columns_of(shard)
    names = [column.name for column in columns]
    if columns != (expected := columns_of(first)):
        yield "", names, f"as in the first shard: {[column.name for column in expected]}"
    if len(set(names)) < len(names) or not 1 <= len(names) <= MAX_COLUMNS:
        yield "", names, f"1 to {MAX_COLUMNS} names, each once"
    for number, (column, entry) in enumerate(zip(columns, shard.columns or (), strict=True)):
        if (wanted := column.problem) is not None:
            yield f"[{number}]", f"{column.name}, {column.bits} bits", wanted
        if entry.file != (name := file_name(shard.file, column.name)):
            yield f"[{number}].file", entry.file, name
        if entry.packed and entry.packed.file != (name := entry.file + PACKED_SUFFIX):
            yield f"[{number}].packed.file", entry.packed.file, name
        if entry.num_bytes != (size := column.num_bytes(shard.num_tokens)):
            yield f"[{number}].bytes", entry.num_bytes, f"{size}: {column.bits} bits per token"


class ColumnWriter(ExitStack):
    """The new files of the columns of one shard; `new_file` makes one of them."""

    def __init__(self, shard_file: str, columns: Sequence[Column], new_file: Any) -> None:
        super().__init__()
        self._columns = columns
        self._names = [file_name(shard_file, column.name) for column in columns]
        self._files = [self.enter_context(new_file(name)) for name in self._names]
        self._waiting = [np.empty(0, bool) for _ in columns]  # bits that do not fill a byte yet

    def write(self, values: Mapping[str, Any], num_tokens: int, position: int) -> None:
        """Add the values of tokens; the first of them is at `position` of the shard."""
        where = f"{self._names[0].rpartition('.')[0]}, tokens from {position:,} on"
        if values.keys() != (names := {column.name for column in self._columns}):
            raise FormatError(
                f"{where}: the columns are {sorted(values)}, not {sorted(names)}",
                hint="every document has a value of each column for each of its tokens",
            )
        for k, column in enumerate(self._columns):
            stored = column.checked(values[column.name], num_tokens, where)
            if column.bits == 1:
                stored = np.concatenate([self._waiting[k], stored])
                whole = len(stored) // 8 * 8
                self._waiting[k] = stored[whole:]
                stored = np.packbits(stored[:whole], bitorder="little")
            self._files[k].write(np.ascontiguousarray(stored).data.cast("B"))

    def finish(self) -> tuple[ColumnEntry, ...]:
        """Write what waits, name the files, and return their entries."""
        entries = []
        for k, column in enumerate(self._columns):
            self._files[k].write(np.packbits(self._waiting[k], bitorder="little").data)
            entries.append(ColumnEntry(*column, self._names[k], *self._files[k].finish()))
        return tuple(entries)
