"""A dataset of ours in a bucket: its manifest is read now, its shards when they are touched.

Names come from the manifest, never from a listing; other formats are not looked for.
"""

import os
from typing import Any

import numpy as np

from tokenmill.errors import FormatError, NotADatasetError
from tokenmill.formats import ours
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.shards.manifest import FILE_NAME, MAX_BYTES, Manifest, Shard
from tokenmill.storage import check_address, join
from tokenmill.tokenfiles.shard_cache import ShardCache
from tokenmill.tokenfiles.token_file import Lazy, TokenFile


def read_bucket(address: str, split: str | None, ask: Ask, cache: ShardCache) -> Found:
    """The shards of a split, by the manifest at an address."""
    from tokenmill.storage import objects

    address = check_address(address)
    where = join(address, FILE_NAME)
    data = objects.read_all(where, at_most=MAX_BYTES)
    if data is None:
        raise NotADatasetError(
            f"there is no {where}",
            hint="only datasets made by tokenmill open from a bucket; fetch others to a disk first",
        )
    manifest = Manifest.parse(data, where=where)
    dtype = np.dtype(manifest.dtype).newbyteorder("<")
    if ask.dtype not in (None, dtype):
        raise FormatError(f"{where} says dtype {manifest.dtype}, but {ask.dtype} was asked for")
    if split is not None and split not in manifest.splits:
        raise FormatError(
            f"{address} has no {split} split; it has {', '.join(manifest.splits)}",
            hint=f'open split="{next(iter(manifest.splits))}"',
        )
    names = list(manifest.splits) if split is None else [split]
    files = [
        _shard(address, shard, dtype, cache)
        for name in names
        for shard in manifest.splits[name].shards
    ]
    tokenizer, state = manifest.tokenizer, manifest.tokenizer.state
    return Found(
        ours.NAME,
        tuple(files) or (ours.no_shards(dtype),),
        vocab_size=tokenizer.vocab_size,
        end_of_text_id=tokenizer.end_of_text_id,
        end_of_text_comes="after",
        tokenizer_state=Lazy(
            fetch,
            (cache, join(address, state.file), state.bytes, state.xxh3_128),
            file=join(address, state.file),
        ),
        tokenizer_fingerprint=tokenizer.fingerprint,
        details={"tokenizer": tokenizer.name, "splits": list(manifest.splits)},
    )


def _shard(address: str, shard: Shard, dtype: np.dtype[Any], cache: ShardCache) -> TokenFile:
    ends = shard.ends
    where = join(address, ends.file)
    return TokenFile(
        join(address, shard.file),
        shard.file,
        dtype,
        shard.tokens,
        shard.bytes,
        ends=Lazy(fetch_ends, (cache, where, ends.bytes, ends.xxh3_128), ends.documents, where),
        digest=shard.xxh3_128 + ends.xxh3_128,
    )


def fetch(cache: ShardCache, address: str, size: int, digest: str) -> bytes:
    """All bytes of a small file, through the cache."""
    with os.fdopen(cache.open(address, size, digest), "rb") as file:
        return file.read()


def fetch_ends(cache: ShardCache, address: str, size: int, digest: str) -> np.ndarray:
    """Where documents end in a shard."""
    data = fetch(cache, address, size, digest) if size else b""
    return np.frombuffer(data, "<i8")
