"""The manifest, the stored tokenizer and the card of a dataset that was converted to ours."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import xxhash

from tokenmill.formats.engine.writing import write_file
from tokenmill.shards.card import dataset_card
from tokenmill.shards.manifest import (
    STATE_FILE_NAME,
    Manifest,
    Split,
    StateFile,
    TokenizerRecord,
)
from tokenmill.tokens.tokenizer import Tokenizer


def write_manifest(
    folder: Path,
    tokenizer: Tokenizer,
    dtype: str,
    tokens_per_shard: int,
    writers: dict[str, Any],
) -> None:
    """Write what makes a folder of shards a dataset; the manifest last."""
    state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
    write_file(folder / STATE_FILE_NAME, state)
    manifest = Manifest(
        dtype=np.dtype(dtype).name,
        tokenizer=TokenizerRecord(
            tokenizer.name,
            tokenizer.vocab_size,
            tokenizer.end_of_text_id,
            tokenizer.fingerprint,
            StateFile(STATE_FILE_NAME, len(state), xxhash.xxh3_128_hexdigest(state)),
        ),
        tokens_per_shard=tokens_per_shard,
        splits={split: Split.of(tuple(writer.shards)) for split, writer in writers.items()},
    )
    card = dataset_card(manifest, "tokenmill convert SOURCE DATASET --to tokenmill")
    write_file(folder / "README.md", card.encode())
    manifest.write(folder)
