"""How many shards there will be: known before the work begins, so that the manifest can hold them.

Shards have 10,000,000 tokens unless the caller says otherwise. Where that would be more than
`USUALLY_AT_MOST` of them, which takes some 300 GB of text, larger ones are chosen. The choice
depends on the sizes of the inputs alone, and is recorded like every other setting.
"""

from collections.abc import Sequence
from dataclasses import replace

from tokenmill.base.human import plural
from tokenmill.errors import PrepareError
from tokenmill.preparation.budget.disk_space import text_bytes
from tokenmill.preparation.settings import Settings
from tokenmill.text.inputs.open_input import Source

USUALLY_AT_MOST = 10_000
AT_MOST = 300_000
# More tokens than most text makes.
BYTES_PER_TOKEN = {"bytes": 1, "chars": 1}
BYTES_PER_TOKEN_OF_OTHERS = 3
COMPRESSION = 4


def with_shard_size(settings: Settings, sources: Sequence[Source], *, is_given: bool) -> Settings:
    """The settings with shards so large that there are not too many of them.

    A size that the caller gave stays, or is refused.
    """
    per_token = BYTES_PER_TOKEN.get(settings.tokenizer, BYTES_PER_TOKEN_OF_OTHERS)
    num_tokens = text_bytes(sources, COMPRESSION) // per_token
    size = settings.tokens_per_shard
    if not is_given:
        while num_tokens > USUALLY_AT_MOST * size:
            size *= 2
        return replace(settings, tokens_per_shard=size)
    if num_tokens > AT_MOST * size:
        raise PrepareError(
            f"tokens_per_shard={size} makes {plural(num_tokens // size, 'shard')} or so of "
            f"{plural(sum(source.size for source in sources), 'byte')} of input; a dataset has at "
            f"most {AT_MOST:,}",
            hint=f"tokens_per_shard={-(-num_tokens // USUALLY_AT_MOST)} makes {USUALLY_AT_MOST:,}; "
            "nothing was tokenized yet",
        )
    return settings
