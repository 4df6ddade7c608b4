"""The shards of a manifest as token files: listed, each at once; of tables, when they are touched.

So a dataset of 100,000 shards is opened without an object for each of them.
"""

import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from tokenmill.reading.token_file import TokenFile, TokenFiles
from tokenmill.shards.entries import ShardEntry
from tokenmill.shards.shard_table import ShardTable

MakeFile = Callable[[str, int, ShardEntry], TokenFile]
"""A token file from its split, its place in the manifest, and its entry."""


class SplitShards(NamedTuple):
    """The shards of a split that is opened."""

    name: str
    first: int
    """Shards of other splits that come before them in the manifest."""
    shards: Sequence[ShardEntry]


def describe(splits: Sequence[SplitShards], make: MakeFile) -> TokenFiles:
    """The files of these splits, in order."""
    if splits and all(isinstance(split.shards, ShardTable) for split in splits):
        return TableFiles(splits, make)
    return TokenFiles(
        make(split.name, number, shard)
        for split in splits
        for number, shard in enumerate(split.shards, split.first)
    )


def name_in_dataset(file: str) -> str:
    """The name of a shard without the folder that a dataset has which replaced another."""
    return re.sub(r"^v-[0-9a-f]{16}/", "", file) if file.startswith("v-") else file


class TableFiles(TokenFiles):
    """Token files by the tables of a manifest; each is made when it is asked for, and kept."""

    def __init__(self, splits: Sequence[SplitShards], make: MakeFile) -> None:
        self._splits, self._make = list(splits), make
        self._tables = [s.shards for s in splits if isinstance(s.shards, ShardTable)]
        self._edges = list(itertools.accumulate(map(len, self._tables), initial=0))
        self._made: dict[int, TokenFile] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def __len__(self) -> int:
        return self._edges[-1]

    @overload
    def __getitem__(self, at: int) -> TokenFile: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[TokenFile, ...]: ...

    def __getitem__(self, at: int | slice) -> TokenFile | tuple[TokenFile, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        at = range(len(self))[at]
        if (known := self._made.get(at)) is None:
            number, inside = self._place(at)
            split = self._splits[number]
            made = self._make(split.name, split.first + inside, self._tables[number][inside])
            known = self._made[at] = made
        return known

    def _place(self, at: int) -> tuple[int, int]:
        """The number of a table, and the place in it."""
        number = bisect_right(self._edges, at) - 1
        return number, at - self._edges[number]

    def name(self, at: int) -> str:
        number, inside = self._place(at)
        return name_in_dataset(f"{self._tables[number].stem(inside)}.bin")

    def numbers(self, field: str) -> np.ndarray:
        return np.concatenate([_numbers(table, field) for table in self._tables])

    def kinds(self) -> list[TokenFile]:
        found = []
        for table, start in zip(self._tables, self._edges, strict=False):
            packed, packed_ends = (table.rows[f"{of}packed.bytes"] > 0 for of in ("", "ends."))
            _, firsts = np.unique(2 * packed + packed_ends, return_index=True)
            found += [self[start + first] for first in firsts.tolist()]
        return found

    def num_ends(self) -> list[int | None]:
        return [n for table in self._tables for n in table.rows["ends.documents"].tolist()]

    def identities(self) -> list[list[Any]]:
        columns = [self.numbers(field).tolist() for field in ("file_bytes", "num_tokens")]
        contents = zip(self._hashes("xxh3_128"), self._hashes("ends.xxh3_128"), strict=True)
        names = (name_in_dataset(f"{stem}.bin") for t in self._tables for stem in t.stems())
        return [
            [name, size, 0, 0, tokens, "".join(hashes)]
            for name, size, tokens, hashes in zip(names, *columns, contents, strict=True)
        ]

    def index_states(self) -> list[object]:
        return [*self._hashes("ends.xxh3_128")]

    def by_folder(self) -> Iterator[tuple[str, list[str]]]:
        """The folders of the dataset, and the files that must be in each."""
        for table in self._tables:
            for folder in table.folders:
                yield folder, table.files_in(folder)

    def _hashes(self, column: str) -> list[str]:
        digits = b"".join(table.rows[column].tobytes() for table in self._tables).hex()
        return [digits[at : at + 32] for at in range(0, len(digits), 32)]


def _numbers(table: ShardTable, field: str) -> np.ndarray:
    tokens = table.rows["tokens"].astype(np.int64)
    plain, packed = tokens * table.item_size, table.rows["packed.bytes"].astype(np.int64)
    known = {
        "num_tokens": tokens,
        "file_bytes": plain,
        "disk_bytes": np.where(packed > 0, packed, plain),
        "unpacked_bytes": np.where(packed > 0, plain, 0),
        "first": np.zeros(len(table), np.int64),
    }
    return known[field]
