"""The files of a dataset once more, without what is forgotten; those that stay are linked.

A dataset without a column `loss` gets one: the overwritten tokens are no targets any more.
"""

import os
import shutil
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.base.atomic import is_temporary
from tokenmill.dataset import TokenDataset
from tokenmill.forgetting.chosen_documents import Chosen, open_split
from tokenmill.look.forgotten_proof import ForgottenTokens, Rest
from tokenmill.reading.columns import LOSS, Column
from tokenmill.shards.column_files import ColumnWriter
from tokenmill.shards.facts_file import FactsFileWriter
from tokenmill.shards.forgotten import FILE_NAME as CERTIFICATE
from tokenmill.shards.forgotten import Forgotten
from tokenmill.shards.manifest import FILE_NAME as MANIFEST
from tokenmill.shards.manifest import (
    USUAL_LEVEL,
    ColumnEntry,
    FactsEntry,
    Manifest,
    ShardEntry,
    SplitEntry,
    level_of,
)
from tokenmill.shards.writer import NewFile, ShardWriter


@dataclass(frozen=True)
class Overwriting:
    """The files of one dataset, from its folder into a new one."""

    old: Path
    new: Path
    manifest: Manifest
    record: Forgotten

    def write(self, chosen: Chosen) -> dict[str, SplitEntry]:
        """Write the files that change, link the others; return the splits as they are then."""
        splits = {}
        for name, split in self.manifest.splits.items():
            data = open_split(self.old, name)
            changed = ForgottenTokens(data, chosen[name]).shards()
            all_of_them = ForgottenTokens(data, {*chosen[name], *self.record.documents(name)})
            shards = [
                self._shard(data, all_of_them, number, shard)
                if number in changed
                else replace(shard, columns=(*(shard.columns or ()), *self._new_loss(shard)))
                for number, shard in enumerate(split.shards)
            ]
            facts = split.facts
            if facts is not None and chosen[name]:
                facts = self._facts(data, facts, list(chosen[name]))
            splits[name] = SplitEntry.of(tuple(shards), facts)
        self._link_others()
        return splits

    def _shard(
        self, data: TokenDataset, tokens: ForgottenTokens, number: int, shard: ShardEntry
    ) -> ShardEntry:
        """Write a shard without what is forgotten; keep the hashes of the rest."""
        columns = [Column(*pair) for pair in {**data.columns, LOSS: 1}.items()]
        how: dict[str, Any] = {"durable": True, "level": self._level(shard), "columns": columns}
        rest = Rest()
        with ShardWriter(self.new, shard.file, data.dtype, **how) as writer:
            for part in tokens.parts(number):
                rest.add(part)
                part.ids[part.is_forgotten] = data.end_of_text_id
                for values in part.columns.values():
                    values[part.is_forgotten] = 0
                writer.write(part.ids, part.columns)
            start, stop = data.shard_starts[number : number + 2].tolist()
            written = writer.finish(data.document_ends(start, stop) - start)
        self.record.rest[shard.file] = rest.to_json()
        before = {column.name: column for column in shard.columns or ()}
        again = (replace(c, former=_former(before.get(c.name))) for c in written.columns or ())
        return replace(written, columns=tuple(again), former=_former(shard))

    def _new_loss(self, shard: ShardEntry) -> tuple[ColumnEntry, ...]:
        """Write the column of a shard in which nothing is forgotten, if it has none."""
        if any(column.name == LOSS for column in shard.columns or ()):
            return ()
        new_file = partial(NewFile, self.new, durable=True, level=self._level(shard))
        with ColumnWriter(shard.file, [Column(LOSS, 1)], new_file) as writer:
            writer.write({LOSS: np.ones(shard.num_tokens, bool)}, shard.num_tokens, 0)
            return (replace(writer.finish()[0], former=_former(None)),)

    def _level(self, shard: ShardEntry) -> int | None:
        asked = self.manifest.settings.get("compress")
        usual = level_of(asked) if isinstance(asked, str) else USUAL_LEVEL
        return usual if shard.packed else None

    def _facts(self, data: TokenDataset, entry: FactsEntry, documents: list[int]) -> FactsEntry:
        """Write the facts of a split without those of some documents, but for their ids."""
        import pyarrow as pa
        import pyarrow.compute as pc

        stays = np.ones(entry.num_documents, bool)
        stays[documents] = False
        start = 0
        with FactsFileWriter(self.new, entry.file, data.all_facts.kept_types) as file:
            for batch in data.all_facts.batches():
                mask: Any = pa.array(stays[start : start + len(batch)])
                start += len(batch)
                rows = pa.table(batch).cast(data.all_facts.schema)
                nothing = pa.scalar(None)
                file.add(
                    {
                        name: rows[name] if name == "id" else pc.if_else(mask, rows[name], nothing)
                        for name in rows.column_names
                    }
                )
            return file.finish()

    def _link_others(self) -> None:
        """Link all files of the folder that were not written again, those of others as well."""
        for path in sorted(self.old.rglob("*")):
            name = path.relative_to(self.old)
            target = self.new / name
            is_new = target.exists() or name.as_posix() in (MANIFEST, CERTIFICATE)
            if not (is_new or path.is_dir() or is_temporary(path.name)):
                target.parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.link(path, target)
                except OSError:  # a file system without links
                    shutil.copy2(path, target)


def _former(entry: ShardEntry | ColumnEntry | None) -> str:
    """Return the hash that fingerprints have for a file."""
    if entry is None:
        return ""
    return entry.xxh3_128 if entry.former is None else entry.former
