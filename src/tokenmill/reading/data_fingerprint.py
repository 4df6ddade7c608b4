"""Which data a saved state belongs to: equal for a copy elsewhere, another for other tokens.

Names, sizes and, where a manifest has them, hashes of the files; no path and no time of change.
Files without a hash are sampled: 4,096 tokens from the start, the middle and the end of each, of at
most 64 files spread over the dataset. That is at most 192 reads, however many shards there are. It
detects other data, but is no check of every byte. Data of up to 64 files of 12,288 tokens is
sampled whole.
"""

import hashlib
from typing import Any

import numpy as np
import orjson

from tokenmill.reading.shard_reader import ShardReader

FILES = 64
TOKENS = 4096


def fingerprint(format: str, dtype: np.dtype[Any], reader: ShardReader) -> str:
    """The hash of a dataset, as hex; reads a sample where no manifest has hashes."""
    files = reader.files.identities()
    unknown = [i for i, (*_, tokens, contents) in enumerate(files) if tokens and not contents]
    chosen = np.linspace(0, len(unknown) - 1, min(FILES, len(unknown))).astype(int).tolist()
    sampled = {unknown[k]: _sample(reader, unknown[k]) for k in chosen}
    for i, known in sampled.items():
        files[i][-1] = known
    lines: list[Any] = [format, dtype.str, *files]
    return hashlib.blake2b(orjson.dumps(lines), digest_size=16).hexdigest()


def _sample(reader: ShardReader, i: int) -> str:
    """A hash of the first, middle and last tokens of a file."""
    count = reader.files[i].num_tokens
    digest = hashlib.blake2b(digest_size=16)
    last = max(0, count - TOKENS)
    places = (0, last // 2, last) if count > 3 * TOKENS else range(0, count, TOKENS)
    for start in places:
        out = np.empty(min(TOKENS, count - start), reader.files[i].dtype)
        reader.read_into(i, start, out)
        digest.update(out.data)
    return digest.hexdigest()
