"""A conversion to tokenmill's format: shards by shards/writer.py, then tokenizer and manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tokenmill.formats.writing import Values, Writer
from tokenmill.reading.columns import Column
from tokenmill.shards.card import write_tokenizer_and_card
from tokenmill.shards.layout import shard_name
from tokenmill.shards.manifest import Manifest, ShardEntry, SplitEntry, TokenizerEntry, level_of
from tokenmill.shards.writer import ShardWriter


class OursWriter(Writer):
    """One split as shards."""

    whole_documents = False
    names_folders = True
    command = "tokenmill convert SOURCE DATASET --to tokenmill"  # for the card

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shards: list[ShardEntry] = []

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
            splits={name: SplitEntry.of(tuple(writer.shards)) for name, writer in writers.items()},
            settings={"compress": one.compress},
        )
        write_tokenizer_and_card(folder, manifest, state, one.command)
        manifest.write(folder)
