"""Compressed shards of MDS: each is one stream, which is unpacked whole.

`tokenmill.open` unpacks them into the cache folder when they are first read, `convert` into a
folder of its own.
"""

import hashlib
import importlib
import os
import shlex
import sys
import zlib
from pathlib import Path
from typing import IO, BinaryIO, cast

import xxhash

from tokenmill.base.hashing import BLOCK_BYTES, Hasher, hash_file
from tokenmill.base.strict_json import Reader
from tokenmill.errors import FormatError
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.mirror import object_at
from tokenmill.formats.engine.writing import INDEX, write_file
from tokenmill.tokenfiles.remote.remote_file import RemoteFile
from tokenmill.tokenfiles.shard_cache import ShardCache
from tokenmill.tokenfiles.token_file import Packed

CODECS = ("zstd", "gz", "bz2")
AS_IT_IS = ""
"""In the place of a codec: the file is not compressed."""


def is_packed(root: untrusted.Root, entry: Reader) -> bool:
    """Whether a shard is there compressed only."""
    _, size = root.file(entry.object("raw_data").file("basename"))
    return size is None and bool(entry.fields.get("zip_data"))


def _codec(entry: Reader) -> str:
    return str(entry.fields.get("compression")).split(":")[0]


def _remedy(codec: str, path: Path) -> str:
    """What to do about a compression that is not read here."""
    again = "write the dataset again without compression, or with zstd, gz or bz2"
    if codec != "br":
        return again
    if object_at(path) is not None:
        return f"fetch the folder to a disk and unpack its shards there: brotli -d *.br; or {again}"
    folder = shlex.quote(str(path.parent))
    return f"unpack the shards where they are: brotli -dk {folder}/*.br; or {again}"


def as_cached(path: Path, packed_bytes: int, raw: Reader, entry: Reader) -> RemoteFile:
    """A compressed shard as the cache is to hold it; by its hash, where the index states it."""
    codec = _codec(entry)
    if codec not in CODECS:
        raise _unknown_codec(path, codec)
    hashes = raw.fields.get("hashes")
    digest = str(hashes.get("xxh3_128", "")) if isinstance(hashes, dict) else ""
    packed = Packed(packed_bytes, codec, content_xxh3_128=digest)
    if (shown := object_at(path)) is not None:
        where, version = shown[0].address, shown[0].etag
    else:
        found = path.stat()
        where, version = str(path), f"{found.st_size}-{found.st_mtime_ns}-{found.st_ino}"
    return RemoteFile(where, raw.count("bytes"), digest, version, packed)


def open_unpacked(cache: ShardCache, wanted: RemoteFile) -> BinaryIO:
    """The content of a compressed shard, from the cache."""
    return os.fdopen(cache.open(wanted), "rb", buffering=0)


def unpack_folder(folder: Path, into: Path) -> None:
    """Unpack all shards of a folder into a new one; its index is copied."""
    into.mkdir(parents=True)
    root = untrusted.Root(folder, folder / INDEX)
    for shard in untrusted.read_json(root.index).objects("shards"):
        raw, zipped = shard.object("raw_data"), shard.object("zip_data")
        if is_packed(root, shard):
            path = root.sized(zipped.file("basename"), zipped.count("bytes"))
            _copy(path, _codec(shard), raw, into / raw.file("basename"))
        else:
            path = root.sized(raw.file("basename"), raw.count("bytes"))
            _copy(path, AS_IT_IS, raw, into / raw.file("basename"))
    write_file(into / INDEX, untrusted.read_whole(root.index))


def _copy(path: Path, codec: str, raw: Reader, target: Path) -> None:
    """Unpack a shard, never far beyond the size that the index states; compare its hashes."""
    expected, hashes, found = raw.count("bytes"), raw.fields.get("hashes"), 0
    packed, fault = _open(codec, path)
    try:
        with packed, target.open("xb") as file:
            while found <= expected and (block := packed.read(BLOCK_BYTES)):
                found += file.write(block)
    except (OSError, EOFError, fault) as error:
        raise untrusted.damaged(path, f"cannot be unpacked: {error}") from None
    untrusted.expect_size(target, found, expected, "its index")
    for name, stated in hashes.items() if isinstance(hashes, dict) else ():
        hasher = _hasher(name)
        if hasher is not None and hash_file(target, hasher) != stated:
            raise untrusted.damaged(path, f"does not have the {name} that its index states")


def _hasher(name: str) -> Hasher | None:
    """The hash function of this name, if it is known here."""
    if name in ("xxh3_128", "xxh3_64", "xxh64", "xxh32", "xxh128"):
        hasher: Hasher = getattr(xxhash, name)()
        return hasher
    if name in hashlib.algorithms_guaranteed and not name.startswith("shake"):
        return hashlib.new(name, usedforsecurity=False)
    return None


def _open(codec: str, path: Path) -> tuple[IO[bytes], type[Exception]]:
    """The unpacked bytes as a file, and the error by which it says that they are damaged."""
    if codec == AS_IT_IS:
        return path.open("rb"), OSError
    if codec == "gz":
        import gzip  # only here: a loader does not need it

        return cast(IO[bytes], gzip.open(path, "rb")), zlib.error
    if codec == "bz2":
        import bz2  # only here: a loader does not need it

        return bz2.open(path, "rb"), OSError
    if codec == "zstd":
        name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        zstd = importlib.import_module(name)
        return zstd.open(path, "rb"), zstd.ZstdError
    raise _unknown_codec(path, codec)


def _unknown_codec(path: Path, codec: str) -> FormatError:
    return FormatError(
        f"{path} is compressed with {codec!r:.40}; known are {', '.join(CODECS)}",
        hint=_remedy(codec, path),
    )
