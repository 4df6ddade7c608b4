"""Other projects' files in a store, seen as a folder: every format opens them as it opens files.

A mirror is a folder in the cache with one file for each object: of its size, with its first bytes,
and with nothing after them (a hole takes no room). That is what formats look at to open a dataset.
`open_whole` gives all bytes of such a file, through the cache, and tokens are read through the
cache as well. A mirror is named by what is in the store (sizes and ETags): other objects make
another mirror.
"""

import functools
import os
import re
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

import orjson
import xxhash

from tokenmill.base.address import WRITABLE, is_remote, split
from tokenmill.base.atomic import write_atomically
from tokenmill.errors import NotADatasetError, TokenmillError
from tokenmill.formats.untrusted import HEAD_BYTES
from tokenmill.reading.shard_cache import CachedFile, ShardCache
from tokenmill.reading.token_file import TokenFile

if TYPE_CHECKING:
    from tokenmill.stores.store_requests import Part

MARK = ".objects.json"
UNUSED = 7 * 86400.0
"""Seconds after which a mirror that nobody opened is removed."""
_NAME = re.compile(r"(.*/tokenmill-objects-[0-9a-f]{32})/(.+)", re.DOTALL)
_BESIDE = (".bin", ".idx", ".index", ".metadata", ".csv.gz", ".tokenizer_state.json")

Objects = dict[str, tuple[int, str]]
"""Key to size and ETag."""


@dataclass(frozen=True)
class Mirror:
    """A folder that shows the objects of one bucket."""

    root: Path
    bucket: str
    """The address of the bucket."""
    objects: Objects
    cache: ShardCache

    def path(self, address: str) -> str:
        return str(self.root / split(address).key)

    def with_addresses(self, files: Sequence[TokenFile]) -> list[TokenFile]:
        """The same files by their addresses, as `CachedReader` reads them."""
        found = []
        for file in files:
            key = os.path.relpath(file.path, self.root)
            etag = self.objects[key][1]
            found.append(replace(file, path=f"{self.bucket}/{key}", etag=etag))
        return found

    @contextmanager
    def errors_with_addresses(self) -> Iterator[None]:
        """Errors name the objects, not the files of the mirror."""
        try:
            yield
        except TokenmillError as error:
            error.message = error.message.replace(str(self.root), self.bucket)
            error.hint = error.hint and error.hint.replace(str(self.root), self.bucket)
            raise


def make_mirror(addresses: Sequence[str], cache: ShardCache) -> Mirror:
    """A mirror of what these addresses mean: an object, a pair without its suffix, a folder."""
    bucket = split(addresses[0]).root
    if any(not is_remote(address) or split(address).root != bucket for address in addresses):
        raise ValueError("all files of a dataset must be in one bucket")
    wanted: Objects = {}
    beside: Objects = {}
    folders: set[str] = set()
    for address in addresses:
        here, near, near_folders = _look_at(address)
        wanted = wanted | here
        beside = beside | near
        folders = folders | near_folders
    objects = beside | wanted
    known = orjson.dumps([bucket, sorted(objects.items()), sorted(wanted), cache.max_bytes])
    root = cache.folder.absolute() / f"tokenmill-objects-{xxhash.xxh3_128_hexdigest(known)}"
    mirror = Mirror(root, bucket, objects, cache)
    if not (root / MARK).exists():
        _remove_unused(cache.folder)
        _fill(mirror, wanted, folders)
    os.utime(root / MARK)  # used just now
    return mirror


def open_object(path: Path) -> BinaryIO:
    """Open the object that a file of a mirror shows, with all its bytes."""
    file, cache = object_at(path)
    if file.size <= HEAD_BYTES:
        return path.open("rb", buffering=0)
    return os.fdopen(cache.open(file), "rb", buffering=0)


def object_at(path: Path) -> tuple[CachedFile, ShardCache]:
    """Return the object that a file of a mirror shows, and the cache for it."""
    name = _NAME.fullmatch(str(path))
    assert name is not None, path
    mirror = _load(name[1])
    size, etag = mirror.objects[name[2]]
    return CachedFile(f"{mirror.bucket}/{name[2]}", size, "", etag), mirror.cache


@functools.lru_cache(maxsize=8)
def _load(root: str) -> Mirror:
    """The mirror of a folder; in any process."""
    fields = orjson.loads((Path(root) / MARK).read_bytes())
    objects = {key: (size, etag) for key, (size, etag) in fields["objects"].items()}
    cache = ShardCache(Path(root).parent, fields["max_bytes"])
    return Mirror(Path(root), fields["bucket"], objects, cache)


def _look_at(address: str) -> tuple[Objects, Objects, set[str]]:
    """The objects that an address means; those beside it; and the folders beside it."""
    from tokenmill.stores import objects

    place = split(address)
    if place.scheme not in WRITABLE:
        return _probe(address), {}, set()
    below = {r.key: (r.size, r.etag) for r in objects.list_records(address)}
    near, folders = objects.list_folder(address.rpartition("/")[0] if place.key else address)
    beside = {r.key: (r.size, r.etag) for r in near}
    here = below | {key: value for key, value in beside.items() if _belongs_to(key, place.key)}
    if not here:
        raise NotADatasetError(
            f"there is no object {address}, and none below it",
            hint="check the address for mistakes" + _names_near(place.key, beside, folders),
        )
    return {k: v for k, v in here.items() if _is_file_name(k)}, beside, set(folders)


def _probe(address: str) -> Objects:
    """The object at an https address and those that may be beside it: there is no list."""
    from tokenmill.stores import objects

    stem = address.rpartition(".")[0] if "." in address.rpartition("/")[2] else address
    folder = address.rpartition("/")[0]
    names = [address, *(base + suffix for base in (address, stem) for suffix in _BESIDE)]
    found: Objects = {}
    for name in dict.fromkeys([*names, f"{folder}/meta.json"]):
        if (known := objects.find(name)) is not None:
            found[split(name).key] = (known.size, known.etag)
    if not found:
        raise NotADatasetError(
            f"there is nothing at {address}",
            hint="name a file, or the folder of a dataset made by tokenmill; https servers have "
            "no list of their files",
        )
    return found


def _belongs_to(key: str, asked: str) -> bool:
    """Whether an object is the one that was asked for, or a file beside it that describes it."""
    name = PurePosixPath(key).name
    wanted = PurePosixPath(asked).name
    stem = wanted.partition(".")[0]
    return name == "meta.json" or name == wanted or (bool(stem) and name.startswith(f"{stem}."))


def _names_near(key: str, beside: Objects, folders: list[str]) -> str:
    from tokenmill.base.suggest import closest

    near = closest(key, [*beside, *folders])
    return f"; did you mean {near}?" if near else ""


def _is_file_name(key: str) -> bool:
    parts = key.split("/")
    return not {"", ".", ".."} & set(parts) and all(len(part.encode()) < 250 for part in parts)


def _fill(mirror: Mirror, wanted: Objects, folders: set[str]) -> None:
    """Make the files, the first bytes of those that are wanted, and last the list of them."""
    for folder in folders:
        if _is_file_name(folder):
            (mirror.root / folder).mkdir(parents=True, exist_ok=True)
    heads = {
        key: _begin_head(mirror.bucket, key, *known) for key, known in wanted.items() if known[0]
    }
    for key, (size, _) in mirror.objects.items():
        path = mirror.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            if key in heads:
                file.write(heads[key].result()[0])
            file.truncate(size)
    fields = {
        "bucket": mirror.bucket,
        "max_bytes": mirror.cache.max_bytes,
        "objects": mirror.objects,
    }
    write_atomically(mirror.root / MARK, orjson.dumps(fields), durable=False)


def _begin_head(bucket: str, key: str, size: int, etag: str) -> "Future[Part]":
    from tokenmill.stores.objects import begin_part
    from tokenmill.stores.store_requests import ObjectStat

    stop = min(size, HEAD_BYTES)
    return begin_part(f"{bucket}/{key}", 0, stop, ObjectStat(size, etag))


def _remove_unused(folder: Path) -> None:
    for mark in folder.glob(f"tokenmill-objects-*/{MARK}"):
        if time.time() - mark.stat().st_mtime > UNUSED:
            import shutil  # only here: a loader does not need it

            shutil.rmtree(mark.parent, ignore_errors=True)
