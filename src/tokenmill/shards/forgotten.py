"""The certificate of what was forgotten, in the folder of its dataset, and the proof that it holds.

The manifest names and hashes `forgotten.json`. For each shard it says which tokens were overwritten
(`ranges`), and for each file that was written again the hash of all its other values (`rest`), as
they were before. `verify --full` compares both: the ranges hold nothing, the rest is what it was.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash

from tokenmill.base.strict_json import (
    COUNT,
    HEX128,
    OBJECT,
    Value,
    check_fields,
    parse_object,
)
from tokenmill.errors import FormatError
from tokenmill.shards.manifest import ColumnEntry, Manifest, NamedFile

FILE_NAME = "forgotten.json"
_FORM = {
    "version": Value((1).__eq__, "1"),
    "ranges": OBJECT,
    "rest": OBJECT,
    "forgotten": [{"documents": OBJECT, "manifest": HEX128, "files": [OBJECT], "runs": [OBJECT]}],
}
Ranges = list[list[int]]
"""First token, and the one after the last, of each range; ascending, apart from each other."""


class ValuesOf(NamedTuple):
    """How the values of tokens are in a file, and the one that stands for nothing."""

    dtype: str
    """Empty where a value is a bit."""
    per_token: int
    nothing: int

    @classmethod
    def entry(cls, entry: NamedFile, manifest: Manifest) -> "ValuesOf":
        """Return the form of a file of ids, or of a column."""
        if isinstance(entry, ColumnEntry):
            return cls("", 1, 0) if entry.bits == 1 else cls("u1", entry.bits // 8, 0)
        return cls(
            np.dtype(manifest.dtype).newbyteorder("<").str, 1, manifest.tokenizer.end_of_text_id
        )

    def parts(
        self, blocks: Iterable[bytes | memoryview], ranges: Ranges
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the values of a file, block by block, and a mask of those in the ranges."""
        edges = np.array(ranges, np.int64).reshape(-1, 2) * self.per_token
        for block in blocks:
            values = np.frombuffer(block, self.dtype or "u1")
            values = values.copy() if self.dtype else np.unpackbits(values, bitorder="little")
            lows, highs = np.clip(edges, 0, len(values)).T
            changes = np.zeros(len(values) + 1, np.int8)
            np.add.at(changes, lows, 1)
            np.add.at(changes, highs, -1)
            yield values, changes[:-1].cumsum(dtype=np.int8) > 0
            edges = edges - len(values)

    def stored(self, values: np.ndarray) -> memoryview:
        """Return the bytes of values, the opposite of what `parts` does."""
        return memoryview((values if self.dtype else np.packbits(values, bitorder="little")).data)


@dataclass
class Forgotten:
    """All that was forgotten of a dataset."""

    ranges: dict[str, Ranges] = field(default_factory=dict)
    """By shard."""
    rest: dict[str, str] = field(default_factory=dict)
    """By file, plain or compressed: the hash of its values outside of the ranges."""
    forgotten: list[dict[str, Any]] = field(default_factory=list)
    """For each time: documents, the hash of the manifest and of files before, and runs."""

    @classmethod
    def load(cls, folder: Path, manifest: Manifest) -> "Forgotten":
        """Read the certificate of a dataset; an empty one where nothing was forgotten."""
        if manifest.forgotten is None:
            return cls()
        path = folder / manifest.forgotten.file
        tree = parse_object(path.read_bytes(), str(path))
        check_fields(tree, _FORM, str(path))
        for number, time in enumerate(tree["forgotten"]):
            for split, documents in time["documents"].items():
                form = [{"document": COUNT, "id": HEX128}]
                check_fields(documents, form, str(path), f"forgotten[{number}].documents.{split}")
        for file, rest in tree["rest"].items():
            check_fields(rest, HEX128, str(path), f"rest.{file}")
        for shard, ranges in tree["ranges"].items():
            form = [[COUNT]]
            check_fields(ranges, form, str(path), f"ranges.{shard}")
            if any(len(pair) != 2 for pair in ranges) or (np.diff(np.ravel(ranges)) <= 0).any():
                raise FormatError(f"{path}: ranges.{shard} are not ascending pairs")
        del tree["version"]
        return cls(**tree)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps({"version": 1, **vars(self)}, option=options)

    def add_ranges(self, shard: str, more: Ranges) -> None:
        """Add tokens of a shard; ranges that meet become one."""
        joined: Ranges = []
        for low, high in sorted([*self.ranges.get(shard, []), *more]):
            if joined and low <= joined[-1][1]:
                joined[-1] = [joined[-1][0], max(high, joined[-1][1])]
            else:
                joined.append([low, high])
        self.ranges[shard] = joined

    def documents(self, split: str) -> dict[int, str]:
        """Return the forgotten documents of a split: number -> id."""
        of_times = (time["documents"].get(split, []) for time in self.forgotten)
        return {entry["document"]: entry["id"] for entries in of_times for entry in entries}

    def ends_outside(self, shard: str, found: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """Return the ends that were found, without those inside of what was forgotten."""
        lows, highs = np.array(self.ranges.get(shard, []), np.uint64).reshape(-1, 2).T
        number = np.searchsorted(lows, found, side="left")
        inside = np.append(highs, 0)[number - 1] >= found
        keeps = ~(inside & (number > 0)) | np.isin(found, stored)
        return found[keeps]

    def wrong_in(
        self,
        blocks: Iterable[bytes | memoryview],
        entry: NamedFile,
        shard: str,
        manifest: Manifest,
    ) -> tuple[str, str] | None:
        """Say what is expected of a file that was written again, and what was found instead."""
        form = ValuesOf.entry(entry, manifest)
        digest = xxhash.xxh3_128()
        left = 0
        for values, mask in form.parts(blocks, self.ranges.get(shard, [])):
            digest.update(np.ascontiguousarray(values[~mask]).data)
            left += int((values[mask] != form.nothing).sum())
        if left:
            return "nothing of what was forgotten", f"{left:,} of its values"
        if (found := digest.hexdigest()) != self.rest[entry.file]:
            return f"its other values as before (xxh3-128 {self.rest[entry.file]})", found
        return None
