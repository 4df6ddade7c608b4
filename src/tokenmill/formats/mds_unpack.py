"""Unpack compressed MDS shards: the samples of a compressed shard cannot be reached one by one.

Streamed, and never beyond the size that the index states; hashes in the index are compared.
"""

import gzip
import hashlib
import importlib
import sys
import zlib
from pathlib import Path
from typing import IO, Any, cast

import xxhash

from tokenmill.base.strict_json import Reader
from tokenmill.errors import CorruptShardError, FormatError
from tokenmill.formats import mds
from tokenmill.formats.engine import untrusted
from tokenmill.formats.engine.held_out import FOLDERS
from tokenmill.formats.engine.writing import write_file

BLOCK = 1 << 20


def unpack(src: Path, into: Path) -> bool:
    """Write `src` uncompressed to the new folder `into`; nothing, and False, if it is not so."""
    names = ["", *(name for names in FOLDERS.values() for name in names)]
    folders = [src / name for name in names if (src / name / mds.INDEX).is_file()]
    packed = [folder for folder in folders if mds.claims_folder(folder) and _is_packed(folder)]
    for folder in packed:
        _unpack(folder, into / folder.relative_to(src))
    return bool(packed)


def _is_packed(folder: Path) -> bool:
    shards = untrusted.read_json(folder / mds.INDEX).objects("shards")
    return any(shard.fields.get("zip_data") for shard in shards)


def _unpack(folder: Path, into: Path) -> None:
    into.mkdir(parents=True)
    index = folder / mds.INDEX
    root = untrusted.Root(folder, index)
    for shard in untrusted.read_json(index).objects("shards"):
        raw, zipped = shard.object("raw_data"), shard.object("zip_data")
        path = root.sized(zipped.file("basename"), zipped.count("bytes"))
        codec = str(shard.fields.get("compression")).split(":")[0]
        _copy(path, codec, raw, into / raw.file("basename"))
    write_file(into / mds.INDEX, index.read_bytes())


def _copy(path: Path, codec: str, raw: Reader, target: Path) -> None:
    expected = raw.count("bytes")
    digests = _digests(raw)
    found = 0
    packed, damage = _open(codec, path)
    try:
        with packed, target.open("xb") as file:
            while block := packed.read(BLOCK):
                found += len(block)
                if found > expected:
                    break
                file.write(block)
                for digest in digests.values():
                    digest.update(block)
    except damage as error:
        raise CorruptShardError(
            f"{path} cannot be unpacked: {error}", hint="fetch this shard again"
        ) from None
    untrusted.expect_size(target, found, expected, "its index")
    for name, digest in digests.items():
        if digest.hexdigest() != raw.object("hashes").text(name):
            raise CorruptShardError(
                f"{path} does not have the {name} that its index states",
                hint="fetch this shard again",
            )


def _digests(raw: Reader) -> dict[str, Any]:
    """The hashes of the index that can be computed here."""
    stated = raw.fields.get("hashes")
    made: dict[str, Any] = {}
    for name in stated if isinstance(stated, dict) else {}:
        if name in ("xxh3_128", "xxh3_64", "xxh64", "xxh32", "xxh128"):
            made[name] = getattr(xxhash, name)()
        elif name in hashlib.algorithms_guaranteed and not name.startswith("shake"):
            made[name] = hashlib.new(name, usedforsecurity=False)
    return made


def _open(codec: str, path: Path) -> tuple[IO[bytes], tuple[type[Exception], ...]]:
    """The unpacked bytes as a file, and the errors by which it says that they are damaged."""
    if codec == "gz":
        return cast(IO[bytes], gzip.open(path, "rb")), (OSError, EOFError, zlib.error)
    if codec == "zstd":
        name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        zstd = importlib.import_module(name)
        return zstd.open(path, "rb"), (OSError, EOFError, zstd.ZstdError)
    raise FormatError(
        f"{path} is compressed with {codec!r:.40}; known are zstd and gz",
        hint="write the dataset again without compression, or with one of these",
    )
