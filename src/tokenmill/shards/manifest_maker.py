"""What makes a folder of shards a dataset: the stored tokenizer, the card, and the manifest.

The manifest is written last, by `Manifest.write`: a folder without one is not a dataset.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import xxhash

from tokenmill.base.atomic import write_atomically
from tokenmill.shards.card import dataset_card
from tokenmill.shards.manifest import (
    STATE_FILE_NAME,
    Manifest,
    SourceEntry,
    SplitEntry,
    StateFile,
    TokenizerEntry,
)


class DescribedTokenizer(Protocol):
    """What a manifest says of a tokenizer; tokens/tokenizer.py has the whole of it."""

    @property
    def name(self) -> str: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def end_of_text_id(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...


def make_manifest(
    tokenizer: DescribedTokenizer,
    state: bytes,
    *,
    dtype: str,
    tokens_per_shard: int,
    splits: Mapping[str, SplitEntry],
    sources: tuple[SourceEntry, ...] = (),
    settings: Mapping[str, Any] | None = None,
    books: Mapping[str, Any] | None = None,
) -> Manifest:
    """The manifest of these shards; `state` is the tokenizer as it will be stored."""
    return Manifest(
        dtype=dtype,
        tokenizer=TokenizerEntry(
            tokenizer.name,
            tokenizer.vocab_size,
            tokenizer.end_of_text_id,
            tokenizer.fingerprint,
            StateFile(STATE_FILE_NAME, len(state), xxhash.xxh3_128_hexdigest(state)),
        ),
        tokens_per_shard=tokens_per_shard,
        splits=splits,
        sources=sources,
        settings=settings or {},
        books=books or {},
    )


def write_tokenizer_and_card(folder: Path, manifest: Manifest, state: bytes, command: str) -> None:
    """The files that the manifest needs beside the shards; `command` is what made the dataset."""
    write_atomically(folder / STATE_FILE_NAME, state)
    write_atomically(folder / "README.md", dataset_card(manifest, command).encode())
