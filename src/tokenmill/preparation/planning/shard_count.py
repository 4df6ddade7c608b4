"""Size of a shard where the user gives none: so that a dataset has at most 10,000 of them.

Shards have 10,000,000 tokens. Where that would make more than `MOST_SHARDS`, from 300 GB of text
on, it is doubled until it does not. The size depends on the sizes of the inputs alone, and is
recorded as every other setting is. A size that the user gives stays, be it slower to open.
"""

from collections.abc import Sequence

from tokenmill.base.human import plural
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.disk_space import text_bytes
from tokenmill.preparation.planning.settings import Settings
from tokenmill.text.inputs.open_input import Source

MOST_SHARDS = 10_000
MOST_SHARDS_IN_A_MANIFEST = 300_000  # which is 120 MB
# More tokens than most text makes.
BYTES_PER_TOKEN = {"bytes": 1, "chars": 1}
BYTES_PER_TOKEN_OF_OTHERS = 3
COMPRESSION = 4


def choose_shard_size(settings: Settings, sources: Sequence[Source]) -> int:
    """Tokens per shard that make at most MOST_SHARDS."""
    num_tokens = _expected_tokens(settings, sources)
    size = settings.tokens_per_shard
    while num_tokens > MOST_SHARDS * size:
        size *= 2
    return size


def refuse_too_many_shards(settings: Settings, sources: Sequence[Source]) -> None:
    """Raise where the size that was given makes more shards than a manifest can list."""
    size = settings.tokens_per_shard
    num_shards = _expected_tokens(settings, sources) // size
    if num_shards > MOST_SHARDS_IN_A_MANIFEST:
        raise PrepareError(
            f"tokens_per_shard={size} makes {plural(num_shards, 'shard')} or so; a manifest lists "
            f"at most {MOST_SHARDS_IN_A_MANIFEST:,}",
            hint="leave tokens_per_shard out, or give a larger one; nothing was tokenized yet",
        )


def _expected_tokens(settings: Settings, sources: Sequence[Source]) -> int:
    per_token = BYTES_PER_TOKEN.get(settings.tokenizer, BYTES_PER_TOKEN_OF_OTHERS)
    return text_bytes(sources, COMPRESSION) // per_token
