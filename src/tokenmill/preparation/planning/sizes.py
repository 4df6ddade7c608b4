"""What to expect, by the sizes of the inputs: room on the disk, one process or more, and shards.

A shard has 10,000,000 tokens unless the user says otherwise. Where that would make more than
`MOST_SHARDS`, from 300 GB of text on, it is doubled until it does not: the size depends on the
sizes of the inputs alone, and is recorded as every other setting is.
"""

import shutil
from collections.abc import Sequence

from tokenmill.base.human import plural
from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.planning.settings import Settings
from tokenmill.text.inputs.open_input import Source

# Bytes of text per token: where there are fewer tokens than nearly any text makes, so that nothing
# is refused that would have fitted; and where there are more than most text makes.
FEW_TOKENS = {"bytes": 1.0, "chars": 3.0}
FEW_TOKENS_OF_OTHERS = 6.0
MANY_TOKENS_OF_OTHERS = 3
BEST_OF_SHARDS = 0.3  # of their plain size, where they are compressed
FAST_TOKENIZERS = ("gpt2", "bytes")
SMALL_JOB = 16 << 20  # bytes that take about half a second
SMALL_JOB_OF_OTHERS = 1 << 20  # the same for other tokenizers
MOST_SHARDS = 10_000
MOST_SHARDS_IN_A_MANIFEST = 300_000  # which is 120 MB


def text_bytes(sources: Sequence[Source], compression: float) -> int:
    """Estimate the size of the text, where compressed files grow by the factor `compression`."""
    packed = [source for source in sources if source.compression or source.kind == "parquet"]
    plain = sum(source.size for source in sources)
    return plain + int((compression - 1) * sum(source.size for source in packed))


def expected_bytes(plan: Plan) -> int:
    """Estimate the size of the shards, rather too small."""
    per_token = FEW_TOKENS.get(plan.settings.tokenizer, FEW_TOKENS_OF_OTHERS)
    num_tokens = int(text_bytes(plan.sources, 2.5) / per_token)
    return num_tokens * (4 if plan.settings.dtype == "uint32" else 2)


def has_room_for_text(plan: Plan) -> bool:
    """Return True if the cleaned text fits on the disk too, by a wide margin."""
    needed = text_bytes(plan.sources, 6) + 4 * expected_bytes(plan)
    return shutil.disk_usage(plan.workspace.root).free > 2 * needed


def is_small_job(plan: Plan) -> bool:
    """Return True if one process is done before a second one would have started."""
    is_fast = plan.settings.tokenizer in FAST_TOKENIZERS
    return text_bytes(plan.sources, 6) < (SMALL_JOB if is_fast else SMALL_JOB_OF_OTHERS)


def check_space(plan: Plan, *, shards: bool = True) -> None:
    """Refuse to start what cannot end: tokens are on disk twice while shards are assembled."""
    ours = plan.workspace.out_dir if plan.previous is None else plan.workspace.root
    there = sum(path.stat().st_size for path in ours.rglob("*") if path.is_file())
    stay_here = shards and plan.destination is None  # uploaded shards are removed here
    copies = 1.0 + stay_here * (1.0 if plan.settings.compress is None else BEST_OF_SHARDS)
    needed = int(copies * expected_bytes(plan)) - there
    free = shutil.disk_usage(plan.workspace.root).free
    if needed > free:
        raise PrepareError(
            f"{plan.workspace.out_dir} has {free:,} bytes free, but about {needed:,} are needed: "
            f"the dataset of some {expected_bytes(plan):,} bytes"
            + (", twice while it is made" if copies == 2 else ""),
            hint="free some space, or write to another disk; nothing was tokenized yet",
        )


def choose_shard_size(settings: Settings, sources: Sequence[Source], *, is_given: bool) -> int:
    """Return the tokens per shard; a size that the user gave stays, if a manifest can list them."""
    is_plain = settings.tokenizer in FEW_TOKENS
    num_tokens = text_bytes(sources, 4) // (1 if is_plain else MANY_TOKENS_OF_OTHERS)
    size = settings.tokens_per_shard
    while not is_given and num_tokens > MOST_SHARDS * size:
        size *= 2
    num_shards = num_tokens // size
    if num_shards > MOST_SHARDS_IN_A_MANIFEST:
        raise PrepareError(
            f"tokens_per_shard={size} makes {plural(num_shards, 'shard')} or so; a manifest lists "
            f"at most {MOST_SHARDS_IN_A_MANIFEST:,}",
            hint="leave tokens_per_shard out, or give a larger one; nothing was tokenized yet",
        )
    return size
