"""The files of a dataset once more, without what is forgotten; those that stay are linked.

A dataset without a column `loss` gets one: the overwritten tokens are no targets any more.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import xxhash

from tokenmill.base.atomic import is_temporary
from tokenmill.errors import FormatError
from tokenmill.forgetting.chosen_documents import Chosen, open_split
from tokenmill.reading.columns import LOSS
from tokenmill.reading.span_reader import parts_in_runs
from tokenmill.reading.token_file import check_hash
from tokenmill.shards.column_files import file_name
from tokenmill.shards.facts_file import FactsFileWriter
from tokenmill.shards.forgotten import FILE_NAME as CERTIFICATE
from tokenmill.shards.forgotten import Forgotten, Ranges, ValuesOf
from tokenmill.shards.manifest import FILE_NAME as MANIFEST
from tokenmill.shards.manifest import (
    USUAL_LEVEL,
    ColumnEntry,
    FactsEntry,
    FileEntry,
    Manifest,
    NamedFile,
    ShardEntry,
    SplitEntry,
    level_of,
)
from tokenmill.shards.verify import read_blocks
from tokenmill.shards.writer import NewFile

E = TypeVar("E", ShardEntry, ColumnEntry)
ONES = b"\xff" * (1 << 20)


@dataclass
class Overwriting:
    """The files of one dataset, from its folder into a new one."""

    old: Path
    new: Path
    manifest: Manifest
    record: Forgotten
    """What was and is forgotten; the ranges are complete before files are written."""
    files: list[dict[str, Any]] = field(default_factory=list)
    """Files that were written again, for the certificate."""

    def write(self, chosen: Chosen) -> dict[str, SplitEntry]:
        """Write the files that change, link the others; return the splits as they are then."""
        changed: dict[str, Ranges] = {}
        for split, documents in chosen.items():
            for shard, start, stop in self._ranges(split, sorted(documents)):
                changed.setdefault(shard, []).append([start, stop])
        for shard, ranges in changed.items():
            self.record.add_ranges(shard, ranges)
        splits = {}
        for name, split in self.manifest.splits.items():
            shards = tuple(self._shard(shard, shard.file in changed) for shard in split.shards)
            facts = split.facts
            if facts is not None and chosen.get(name):
                facts = self._facts(name, facts, sorted(chosen[name]))
            splits[name] = SplitEntry.of(shards, facts)
        self._link_others()
        return splits

    def _ranges(self, split: str, numbers: list[int]) -> Iterator[tuple[str, int, int]]:
        """Yield shards and tokens of documents, without begin tokens, which say nothing."""
        data = open_split(self.old, split)
        shards = self.manifest.splits[split].shards
        starts, stops = data.document_ranges(np.array(numbers, np.int64))
        starts = starts + (data.begin_token_id is not None)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            for file, offset, count in parts_in_runs(data.shard_starts, start, stop - start):
                yield shards[file].file, offset, offset + count

    def _shard(self, shard: ShardEntry, is_changed: bool) -> ShardEntry:
        columns = tuple(
            self._rewritten(column, shard) if is_changed else column
            for column in shard.columns or ()
        )
        if not any(column.name == LOSS for column in columns):
            columns += (self._new_loss(shard),)
        tokens = self._rewritten(shard, shard) if is_changed else shard
        return replace(tokens, columns=columns)

    def _rewritten(self, entry: E, shard: ShardEntry) -> E:
        self._refuse_link(entry)
        content = xxhash.xxh3_128()
        blocks = _hashed(read_blocks(self.old, entry), content)
        _, digest, packed = self._written(entry, shard, blocks)
        check_hash(str(self.old / entry.on_disk.file), entry.xxh3_128, content.hexdigest())
        self._changed(entry.file, entry.xxh3_128, digest)
        former = entry.xxh3_128 if entry.former is None else entry.former
        return replace(entry, xxh3_128=digest, packed=packed, former=former)

    def _new_loss(self, shard: ShardEntry) -> ColumnEntry:
        name = file_name(shard.file, LOSS)
        size = -(-shard.num_tokens // 8)
        last = np.packbits(np.ones((shard.num_tokens - 1) % 8 + 1, bool), bitorder="little")
        blocks = [*(ONES[: size - 1 - at] for at in range(0, size - 1, len(ONES))), last.tobytes()]
        entry = ColumnEntry(LOSS, 1, name, size, "", None, former="")
        entry = replace(entry, packed=shard.packed and replace(shard.packed, file=name))
        _, digest, packed = self._written(entry, shard, blocks)
        self._changed(name, None, digest)
        return replace(entry, xxh3_128=digest, packed=packed)

    def _written(
        self, entry: NamedFile, shard: ShardEntry, blocks: Iterable[bytes | memoryview]
    ) -> tuple[int, str, FileEntry | None]:
        """Write a file without what is forgotten; keep the hash of the rest."""
        form = ValuesOf.entry(entry, self.manifest)
        level = self._level if entry.packed else None
        rest = xxhash.xxh3_128()
        with NewFile(self.new, entry.file, durable=True, level=level) as file:
            ranges: Ranges = self.record.ranges.get(shard.file, [])
            for values, mask in form.parts(blocks, ranges):
                rest.update(np.ascontiguousarray(values[~mask]).data)
                values[mask] = form.nothing
                file.write(form.stored(values))
            self.record.rest[entry.file] = rest.hexdigest()
            return file.finish()

    @property
    def _level(self) -> int:
        asked = self.manifest.settings.get("compress")
        return level_of(asked) if isinstance(asked, str) else USUAL_LEVEL

    def _facts(self, split: str, entry: FactsEntry, numbers: list[int]) -> FactsEntry:
        """Write the facts of a split without those of some documents, but for their ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._refuse_link(entry)
        facts = open_split(self.old, split).all_facts
        mask = np.zeros(entry.num_documents, bool)
        mask[numbers] = True
        start = 0
        with FactsFileWriter(self.new, entry.file, facts.kept_types) as file:
            for batch in facts.batches():
                gone: Any = pa.array(mask[start : start + len(batch)])
                start += len(batch)
                rows = {}
                for name, values in zip(batch.schema.names, batch.columns, strict=True):
                    is_dictionary = pa.types.is_dictionary(values.type)
                    plain = values.dictionary_decode() if is_dictionary else values
                    nothing = pa.scalar(None, plain.type)
                    rows[name] = plain if name == "id" else pc.if_else(gone, nothing, plain)
                file.add(rows)
            written = file.finish()
        self._changed(entry.file, entry.xxh3_128, written.xxh3_128)
        return written

    def _changed(self, file: str, before: str | None, after: str) -> None:
        self.files.append({"file": file, "before": before, "after": after})

    def _refuse_link(self, entry: NamedFile) -> None:
        path = self.old / entry.on_disk.file
        if path.is_symlink():
            raise FormatError(
                f"{path} is a link to {os.readlink(path)}, where its tokens would stay",
                hint="bring the file itself there, then forget again",
            )

    def _link_others(self) -> None:
        """Link all files of the folder that were not written again, those of others as well."""
        for path in sorted(self.old.rglob("*")):
            name = path.relative_to(self.old)
            target = self.new / name
            is_new = target.exists() or name.as_posix() in (MANIFEST, CERTIFICATE)
            if not (is_new or path.is_dir() or is_temporary(path.name)):
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(path, target)


def _link(path: Path, target: Path) -> None:
    with suppress(OSError):
        os.link(path, target)
        return
    shutil.copy2(path, target)  # a file system without links


def _hashed(blocks: Iterable[Any], digest: xxhash.xxh3_128) -> Iterator[Any]:
    for block in blocks:
        digest.update(block)
        yield block
