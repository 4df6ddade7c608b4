"""A conversion to tokenmill's format: shards by shards/writer.py, then tokenizer and manifest."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.errors import FormatError
from tokenmill.formats.writing import Values, Writer
from tokenmill.reading.columns import Column
from tokenmill.shards.card import write_tokenizer_and_card
from tokenmill.shards.layout import shard_name
from tokenmill.shards.manifest import (
    FactsEntry,
    Manifest,
    ShardEntry,
    SplitEntry,
    TokenizerEntry,
    level_of,
)
from tokenmill.shards.writer import ShardWriter


class OursWriter(Writer):
    """One split as shards."""

    whole_documents = False
    names_folders = True
    command = "tokenmill convert SOURCE DATASET --to tokenmill"  # for the card

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shards: list[ShardEntry] = []
        self.facts: FactsEntry | None = None

    def write_facts(self, kept: Mapping[str, Any], batches: Iterable[Any]) -> None:
        """Write the facts of the documents, once the shards are closed."""
        from tokenmill.shards.facts_file import NAME, FactsFileWriter

        with FactsFileWriter(self.folder, f"{self.split or 'train'}/{NAME}", kept) as file:
            for batch in batches:
                file.add(batch)
            self.facts = file.finish()
        written = sum(shard.ends.num_documents for shard in self.shards)
        if self.facts.num_documents != written:
            raise FormatError(
                f"{written:,} documents were written, but there are facts of "
                f"{self.facts.num_documents:,}",
                hint="where documents are lost or joined, nobody knows whose facts are whose; "
                "convert without allow_lost_documents",
            )

    def open_shard(self) -> None:
        name = shard_name(self.split or "train", self.number)
        level = level_of(self.compress) if self.compress else None
        columns = [Column(*pair) for pair in self.columns.items()]
        self._shard = self._open.enter_context(
            ShardWriter(self.folder, name, self.dtype, durable=True, level=level, columns=columns)
        )

    def write(self, tokens: np.ndarray, columns: Values) -> None:
        self._shard.write(tokens, columns)

    def close_shard(self, num_tokens: int, ends: np.ndarray) -> None:
        self.shards.append(self._shard.finish(ends))
        self._open.close()

    @staticmethod
    def complete(folder: Path, writers: Mapping[str, Any], tokenizer: Any) -> None:
        """Write what makes a folder of shards a dataset; the manifest last."""
        one = next(iter(writers.values()))
        known = TokenizerEntry("unknown", one.vocab_size, one.end_of_text_id)
        state = b""
        if tokenizer is not None:
            state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
            known = TokenizerEntry.of(tokenizer, state, one.begin_token_id)
        manifest = Manifest(
            tokenizer=known,
            dtype=one.dtype.name,
            tokens_per_shard=one.tokens_per_shard,
            splits={name: SplitEntry.of(tuple(w.shards), w.facts) for name, w in writers.items()},
            settings={"compress": one.compress},
        )
        write_tokenizer_and_card(folder, manifest, state, one.command)
        manifest.write(folder)
