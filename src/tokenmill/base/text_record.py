"""Which text a `.npy` was made from: size and hashes, in the record next to it.

A time says less: copying a folder changes it. It decides only where there is no record.
"""

import os
from pathlib import Path
from typing import Any

import orjson
import xxhash

from tokenmill.base.atomic import was_written_after
from tokenmill.base.hashing import hash_file

_SAMPLE_BYTES = 1 << 16  # of the beginning, the middle and the end


def record_of(text: str | Path) -> dict[str, Any]:
    """Return what tells this text from any other."""
    return {**_sample_of(text), "xxh3_128": hash_file(text)}


def _sample_of(text: str | Path) -> dict[str, Any]:
    size = os.path.getsize(text)
    hasher = xxhash.xxh3_128()
    with open(text, "rb") as file:
        for start in (0, size // 2, max(0, size - _SAMPLE_BYTES)):
            file.seek(start)
            hasher.update(file.read(_SAMPLE_BYTES))
    return {"bytes": size, "sample": hasher.hexdigest()}


def is_made_from(npy: Path, text: str | Path) -> bool:
    """Return True if the array is that of this text; all of it is read if a sample is equal."""
    try:
        record = orjson.loads(npy.with_suffix(".tokenizer_state.json").read_bytes())["text"]
    except (OSError, ValueError, KeyError, TypeError):
        return not was_written_after(text, npy.stat().st_mtime_ns)
    return bool(_sample_of(text).items() <= record.items() and record == record_of(text))
