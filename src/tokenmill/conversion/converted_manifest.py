"""The manifest, the stored tokenizer and the card of a dataset that was converted to ours."""

from pathlib import Path

import orjson

from tokenmill.shards.manifest import Split
from tokenmill.shards.manifest_maker import make_manifest, write_tokenizer_and_card
from tokenmill.tokens.tokenizer import Tokenizer


def write_manifest(
    folder: Path, tokenizer: Tokenizer, dtype: str, tokens_per_shard: int, splits: dict[str, Split]
) -> None:
    """Write what makes a folder of shards a dataset; the manifest last."""
    state = orjson.dumps(tokenizer.state(), option=orjson.OPT_SORT_KEYS)
    manifest = make_manifest(
        tokenizer, state, dtype=dtype, tokens_per_shard=tokens_per_shard, splits=splits
    )
    command = "tokenmill convert SOURCE DATASET --to tokenmill"
    write_tokenizer_and_card(folder, manifest, state, command)
    manifest.write(folder)
