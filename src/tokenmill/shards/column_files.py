"""Write the columns of a shard, and check what a manifest says about them.

A file holds the values of all tokens of its shard, little-endian; of one bit each, eight tokens per
byte, the first in its lowest bit, and zeros after the last. reading/columns.py reads them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from tokenmill.errors import FormatError
from tokenmill.reading.columns import MAX_COLUMNS, Column
from tokenmill.shards.manifest import PACKED_SUFFIX, ColumnEntry, ShardEntry


def file_name(shard_file: str, column: str) -> str:
    """Return the name of the file of a column: `train/shard_00000.loss`."""
    return f"{shard_file.removesuffix('.bin')}.{column}"


def contradictions(shards: Sequence[ShardEntry]) -> Iterator[tuple[str, object, str]]:
    """Yield fields of columns that contradict others: name, value, and what is expected."""
    expected = [(entry.name, entry.bits) for entry in shards[0].columns or ()]
    for shard in shards:
        entries = shard.columns or ()
        columns = [(entry.name, entry.bits) for entry in entries]
        if columns != expected or not 1 <= len(dict(columns)) == len(columns) <= MAX_COLUMNS:
            yield f"columns of {shard.file}", columns, f"those of the first shard, {expected}"
        for entry in entries:
            name = file_name(shard.file, entry.name)
            size = -(-entry.bits * shard.num_tokens // 8)
            if not Column(entry.name, entry.bits).is_sound:
                yield f"bits of {name}", entry.bits, "1, 8, 16 or k x 16 (loss 1, weights 8 or 16)"
            if (entry.file, entry.num_bytes) != (name, size):
                yield f"file of {name}", (entry.file, entry.num_bytes), f"{name}, {size} bytes"
            if entry.packed and entry.packed.file != name + PACKED_SUFFIX:
                yield f"packed file of {name}", entry.packed.file, name + PACKED_SUFFIX


class ColumnWriter(ExitStack):
    """The new files of the columns of one shard; `new_file` makes one of them."""

    def __init__(
        self, shard_file: str, columns: Sequence[Column], new_file: Callable[[str], Any]
    ) -> None:
        super().__init__()
        self._columns = columns
        self._shard = shard_file
        names = [file_name(shard_file, column.name) for column in columns]
        self._files = {name: self.enter_context(new_file(name)) for name in names}
        self._waiting = [np.empty(0, bool) for _ in columns]  # bits that do not fill a byte yet

    def write(self, values: Mapping[str, Any], num_tokens: int, position: int) -> None:
        """Add the values of tokens; the first of them is at `position` of the shard."""
        where = f"{self._shard}, tokens from {position:,} on"
        if values.keys() != (names := {column.name for column in self._columns}):
            raise FormatError(
                f"{where}: the columns are {sorted(values)}, not {sorted(names)}",
                hint="every document has a value of each column for each of its tokens",
            )
        for k, (column, file) in enumerate(zip(self._columns, self._files.values(), strict=True)):
            stored = column.stored(np.asarray(values[column.name]), num_tokens, where)
            if column.bits == 1:
                stored = np.concatenate([self._waiting[k], stored])
                num_whole = len(stored) // 8 * 8
                self._waiting[k] = stored[num_whole:]
                stored = np.packbits(stored[:num_whole], bitorder="little")
            file.write(stored.view("u1").reshape(-1).data)

    def finish(self) -> tuple[ColumnEntry, ...]:
        """Write what waits, name the files, and return their entries."""
        entries = []
        for k, (name, file) in enumerate(self._files.items()):
            file.write(np.packbits(self._waiting[k], bitorder="little").data)
            entries.append(ColumnEntry(*self._columns[k], name, *file.finish()))
        return tuple(entries)
