"""Compressed shards of MDS: each is one stream, unpacked into the cache when it is first read."""

import os
import shlex
from pathlib import Path
from typing import BinaryIO

from tokenmill.base.strict_json import Reader
from tokenmill.errors import FormatError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.mirror import object_at
from tokenmill.reading.cached_file import CachedFile
from tokenmill.reading.shard_cache import ShardCache
from tokenmill.reading.token_file import Packed

CODECS = ("zstd", "gz", "bz2")


def is_packed(root: untrusted.Root, entry: Reader) -> bool:
    """Whether a shard is there compressed only."""
    _, size = root.file(entry.object("raw_data").file("basename"))
    return size is None and bool(entry.fields.get("zip_data"))


def _remedy(codec: str, path: Path) -> str:
    """What to do about a compression that is not read here."""
    again = "write the dataset again without compression, or with zstd, gz or bz2"
    if codec != "br":
        return again
    if object_at(path) is not None:
        return f"fetch the folder to a disk and unpack its shards there: brotli -d *.br; or {again}"
    folder = shlex.quote(str(path.parent))
    return f"unpack the shards where they are: brotli -dk {folder}/*.br; or {again}"


def as_cached(path: Path, packed_bytes: int, raw: Reader, entry: Reader) -> CachedFile:
    """A compressed shard as the cache is to hold it; by its hash, where the index states it."""
    codec = str(entry.fields.get("compression")).split(":")[0]
    if codec not in CODECS:
        raise FormatError(
            f"{path} is compressed with {codec!r:.40}; known are {', '.join(CODECS)}",
            hint=_remedy(codec, path),
        )
    hashes = raw.fields.get("hashes")
    digest = str(hashes.get("xxh3_128", "")) if isinstance(hashes, dict) else ""
    packed = Packed(packed_bytes, codec, content_xxh3_128=digest)
    if (shown := object_at(path)) is not None:
        where, version = shown[0].address, shown[0].etag
    else:
        found = path.stat()
        where, version = str(path), f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
    return CachedFile(where, raw.count("bytes"), digest, version, packed)


def open_unpacked(cache: ShardCache, wanted: CachedFile) -> BinaryIO:
    """The content of a compressed shard, from the cache."""
    return os.fdopen(cache.open(wanted), "rb", buffering=0)
