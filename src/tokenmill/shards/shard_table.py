"""Many shards as columns: how a manifest holds more of them than can be listed one by one.

A trillion tokens are 100,000 shards. Listed, they are 38 MB of JSON and a million objects when they
are read; as columns they are 7.5 MB of text and one array, and a shard becomes an object when it is
asked for. docs/format.md says how a table is written.
"""

import binascii
import re
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from tokenmill.base.strict_json import MAX_COUNT, Reader
from tokenmill.shards.entries import PACKED_SUFFIX, EndsEntry, FileEntry, ShardEntry

MOST_LISTED = 10_000
"""Shards of a dataset that are listed one by one; more of them are written as tables."""
_COUNT, _HASH = "<u8", "V16"
ROW = np.dtype(
    [
        ("folder", "<u4"),
        ("number", _COUNT),
        ("tokens", _COUNT),
        ("xxh3_128", _HASH),
        ("ends.documents", _COUNT),
        ("ends.xxh3_128", _HASH),
        # Of the compressed files; 0 bytes where the file is plain.
        ("packed.bytes", _COUNT),
        ("packed.xxh3_128", _HASH),
        ("ends.packed.bytes", _COUNT),
        ("ends.packed.xxh3_128", _HASH),
    ]
)
_COLUMNS = (ROW.names or ())[1:]
_SUFFIXES = (".bin", ".ends")
_NAME = re.compile(r"(.+)/shard_([0-9]{5,12})\.bin")


class ShardTable(Sequence[ShardEntry]):
    """The shards of a split; `rows` has one for each, `folders` are those that it counts."""

    def __init__(self, folders: Sequence[str], rows: np.ndarray, item_size: int) -> None:
        self.folders, self.rows, self.item_size = tuple(folders), rows, item_size

    @classmethod
    def of(cls, shards: Sequence[ShardEntry], item_size: int) -> "ShardTable | None":
        """The same shards as a table; None where some have other names than we give."""
        if isinstance(shards, cls):
            return shards
        folders: dict[str, int] = {}
        rows = []
        for shard in shards:
            if (name := _NAME.fullmatch(shard.file)) is None:
                return None
            counts = (int(name[2]), shard.num_tokens, bytes.fromhex(shard.xxh3_128))
            ends = (shard.ends.num_documents, bytes.fromhex(shard.ends.xxh3_128))
            packed = (*_size_and_hash(shard.packed), *_size_and_hash(shard.ends.packed))
            rows.append((folders.setdefault(name[1], len(folders)), *counts, *ends, *packed))
        table = cls(list(folders), np.array(rows, ROW), item_size)
        names = [file.file for shard in shards for file in shard.files]
        return table if table.files() == names else None

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(other) != len(self):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, at: int) -> ShardEntry: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[ShardEntry, ...]: ...

    def __getitem__(self, at: int | slice) -> ShardEntry | tuple[ShardEntry, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        row, name = self.rows[at], self.stem(at)
        tokens, documents = int(row["tokens"]), int(row["ends.documents"])
        digests = [row[column].tobytes().hex() for column in ("xxh3_128", "ends.xxh3_128")]
        packed = (self._packed(row, "", f"{name}.bin"), self._packed(row, "ends.", f"{name}.ends"))
        ends = EndsEntry(f"{name}.ends", documents, 8 * documents, digests[1], packed[1])
        size = tokens * self.item_size
        return ShardEntry(f"{name}.bin", tokens, size, digests[0], ends, packed[0])

    def stem(self, at: int) -> str:
        """The name of a shard without its suffix."""
        row = self.rows[at]
        return f"{self.folders[row['folder']]}/shard_{row['number']:05d}"

    def stems(self) -> list[str]:
        """The names of all shards without their suffix."""
        places = zip(*(self.rows[column].tolist() for column in ("folder", "number")), strict=True)
        return [f"{self.folders[at]}/shard_{number:05d}" for at, number in places]

    def files(self) -> list[str]:
        """All files as they are there, each shard with its index."""
        folders = np.repeat(self.rows["folder"], 2).tolist()
        return [
            f"{self.folders[folder]}/{name}"
            for folder, name in zip(folders, _file_names(self.rows), strict=True)
        ]

    def files_in(self, folder: str) -> list[str]:
        """The names of the files in one folder."""
        return _file_names(self.rows[self.rows["folder"] == self.folders.index(folder)])

    @staticmethod
    def _packed(row: np.void, of: str, name: str) -> FileEntry | None:
        size, digest = int(row[f"{of}packed.bytes"]), row[f"{of}packed.xxh3_128"]
        return FileEntry(name + PACKED_SUFFIX, size, digest.tobytes().hex()) if size else None

    @property
    def is_packed(self) -> bool:
        """Whether some of the files are compressed."""
        return any(self.rows[column].any() for column in ("packed.bytes", "ends.packed.bytes"))

    def sum(self, column: str) -> int:
        """The sum of a column, which may be larger than any number in it can be."""
        low, high = self.rows[column] & np.uint64(0xFFFFFFFF), self.rows[column] >> np.uint64(32)
        return int(low.sum()) + (int(high.sum()) << 32)

    def to_json(self) -> list[dict[str, Any]]:
        """As a manifest holds it: a table for each run of shards in one folder."""
        edges = np.flatnonzero(np.diff(self.rows["folder"])) + 1
        return [self._part_to_json(part) for part in np.split(self.rows, edges) if len(part)]

    def _part_to_json(self, rows: np.ndarray) -> dict[str, Any]:
        tree: dict[str, Any] = {"folder": self.folders[rows["folder"][0]], "count": len(rows)}
        for column in _COLUMNS:
            of, _, key = column.rpartition(".")
            if of.endswith("packed") and not rows[f"{of}.bytes"].any():
                continue
            place = tree
            for name in filter(None, of.split(".")):
                place = place.setdefault(name, {})
            place[key] = binascii.b2a_base64(rows[column].tobytes(), newline=False).decode()
        return tree


def read_table(parts: Sequence[Reader], item_size: int, tokens_per_shard: int) -> ShardTable:
    """The tables of a split in a manifest, checked as strictly as shards that are listed."""
    folders = list(dict.fromkeys(part.file("folder") for part in parts))
    rows = [_read_rows(part, folders, tokens_per_shard) for part in parts]
    return ShardTable(folders, np.concatenate(rows), item_size)


def _read_rows(fields: Reader, folders: list[str], tokens_per_shard: int) -> np.ndarray:
    count = fields.count("count", least=1)
    ends = fields.object("ends")
    places = {"": fields, "ends": ends}
    places |= {
        f"{name}packed": place.object("packed")
        for name, place in (("", fields), ("ends.", ends))
        if "packed" in place.names()
    }
    first = _column(fields, "number", count)  # which shows that there are so many
    rows = np.zeros(count, ROW)
    rows["folder"], rows["number"] = folders.index(fields.file("folder")), first
    for column in _COLUMNS[1:]:
        of, _, key = column.rpartition(".")
        if of in places:
            rows[column] = _column(places[of], key, count)
    for place in places.values():
        place.no_more()
    _check_rows(fields, ends, rows, tokens_per_shard)
    return rows


def _column(fields: Reader, key: str, count: int) -> np.ndarray:
    kind = np.dtype(_HASH if key == "xxh3_128" else _COUNT)
    text = fields.text(key)
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        data = b""
    if len(data) != count * kind.itemsize:
        raise fields.wrong(key, text, f"{count} times {kind.itemsize} bytes in base64")
    return np.frombuffer(data, kind)


def _check_rows(fields: Reader, ends: Reader, rows: np.ndarray, tokens_per_shard: int) -> None:
    tokens, documents = rows["tokens"], rows["ends.documents"]
    for reader, column, wrong, expected in (
        (fields, "number", rows["number"] >= 10**12, "a number of at most 12 digits"),
        (fields, "tokens", tokens < 1, "at least 1"),
        (fields, "tokens", tokens > tokens_per_shard, f"at most {tokens_per_shard}"),
        (ends, "ends.documents", documents > tokens, "at most one for each token"),
        (fields, "packed.bytes", rows["packed.bytes"] > MAX_COUNT, "63 bits"),
        (ends, "ends.packed.bytes", rows["ends.packed.bytes"] > MAX_COUNT, "63 bits"),
    ):
        if wrong.any():
            at = int(wrong.argmax())
            name, found = f"{column.removeprefix('ends.')}[{at}]", int(rows[column][at])
            raise reader.wrong(name, found, expected)


def find_repeated(tables: Sequence[ShardTable], names: Iterable[str]) -> str | None:
    """A file that comes twice in these tables, or in them and among these names.

    Upper and lower case count as equal, as on some disks.
    """
    numbers: dict[str, list[np.ndarray]] = {}
    for table in tables:
        for at, folder in enumerate(table.folders):
            found = table.rows["number"][table.rows["folder"] == at]
            numbers.setdefault(folder.lower(), []).append(found)
    for folder, parts in numbers.items():
        ordered = np.sort(np.concatenate(parts))
        if len(again := ordered[1:][ordered[1:] == ordered[:-1]]):
            return f"{folder}/shard_{int(again[0]):05d}.bin"
    near = [name for name in names if name.lower().rpartition("/")[0] in numbers]
    if near:
        taken = {file.lower() for table in tables for file in table.files()}
        return next((name for name in near if name.lower() in taken), None)
    return None


def _file_names(rows: np.ndarray) -> list[str]:
    """The names of shards and indexes, in turns, without their folder."""
    stems = [*map("shard_{:05d}".format, rows["number"].tolist())]
    packed = np.stack([rows["packed.bytes"] > 0, rows["ends.packed.bytes"] > 0], axis=1)
    if not packed.any():
        return [stem + suffix for stem in stems for suffix in _SUFFIXES]
    return [
        f"{stem}{suffix}{PACKED_SUFFIX * is_packed}"
        for stem, both in zip(stems, packed.tolist(), strict=True)
        for suffix, is_packed in zip(_SUFFIXES, both, strict=True)
    ]


def _size_and_hash(entry: FileEntry | None) -> tuple[int, bytes]:
    return (0, bytes(16)) if entry is None else (entry.num_bytes, bytes.fromhex(entry.xxh3_128))
