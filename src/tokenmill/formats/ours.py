"""Our own datasets: a manifest that names every shard, its index, sizes and hashes.

docs/format.md is the specification, shards/manifest.py the strict reader. Opening compares the size
of each file with the manifest; `tokenmill verify --full` compares every byte.
"""

from pathlib import Path
from typing import Any

import numpy as np
import xxhash

from tokenmill.errors import FormatError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.ends_file import ends_file
from tokenmill.formats.engine.found import Ask, Found
from tokenmill.shards.manifest import FILE_NAME, PREPARATION_FOLDER, Manifest, Shard
from tokenmill.tokenfiles.token_file import Lazy, TokenFile, not_the_same

NAME = "tokenmill"


def claims_folder(folder: Path) -> bool:
    """Whether this folder is such a dataset, or one whose preparation is not done."""
    return (folder / FILE_NAME).is_file() or (folder / PREPARATION_FOLDER).is_dir()


def read_folder(folder: Path, split: str | None, ask: Ask) -> Found:
    """The shards of a split, by the manifest."""
    manifest = Manifest.load(folder)
    dtype = ask.agreed(np.dtype(manifest.dtype).newbyteorder("<"), folder)
    if split is not None and split not in manifest.splits:
        raise FormatError(
            f"{folder} has no {split} split; it has {', '.join(manifest.splits)}",
            hint="to hold out a hundredth of its documents, prepare it again: "
            "tokenmill prepare INPUT... -o OUTPUT --val_fraction 0.01"
            if split == "val"
            else f'open split="{next(iter(manifest.splits))}"',
        )
    names = list(manifest.splits) if split is None else [split]
    root = untrusted.Root(folder, folder / FILE_NAME)
    shards = [
        _shard(root, shard, dtype, name) for name in names for shard in manifest.splits[name].shards
    ]
    tokenizer = manifest.tokenizer
    state = root.sized(tokenizer.state.file, tokenizer.state.bytes)
    return Found(
        NAME,
        tuple(shards) or (no_shards(dtype),),
        vocab_size=tokenizer.vocab_size,
        end_of_text_id=tokenizer.end_of_text_id,
        end_of_text_comes="after",
        tokenizer_state=Lazy(read_hashed, (str(state), tokenizer.state.xxh3_128), file=str(state)),
        tokenizer_fingerprint=tokenizer.fingerprint,
        details={"tokenizer": tokenizer.name, "splits": list(manifest.splits)},
    )


def read_hashed(path: str, digest: str) -> bytes:
    """All bytes of a small file, which must have this hash."""
    data = untrusted.read_whole(Path(path))
    found = xxhash.xxh3_128_hexdigest(data)
    if found != digest:
        raise not_the_same(path, digest, found)
    return data


def _shard(root: untrusted.Root, shard: Shard, dtype: np.dtype[Any], split: str) -> TokenFile:
    path = root.sized(shard.file, shard.bytes)
    ends = root.sized(shard.ends.file, shard.ends.bytes)
    return TokenFile(
        str(path),
        shard.file,
        dtype,
        shard.tokens,
        shard.bytes,
        ends=ends_file(ends, shard.ends.documents),
        digest=shard.xxh3_128 + shard.ends.xxh3_128,
        split=split,
    )


def no_shards(dtype: np.dtype[Any]) -> TokenFile:
    """What stands for a split that holds nothing."""
    return TokenFile("", "(no shards)", dtype, 0, 0, ends=ends_file(Path(), 0))
