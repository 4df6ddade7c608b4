"""What is done with objects: stat, list, read a range, upload and check, put only if absent."""

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.base.retry import Transient
from tokenmill.errors import DownloadError, LockedError, PrepareError
from tokenmill.storage import object_client
from tokenmill.storage.address import SCHEME, split
from tokenmill.storage.object_client import code_and_status, within_timeout

SINGLE_PUT = 64 << 20
"""Larger files are uploaded in pieces by s3fs."""


@dataclass(frozen=True)
class ObjectStat:
    """What shows whether an object is still the one that was planned for."""

    size: int
    etag: str
    modified_ns: int

    @property
    def stamp(self) -> int:
        """A number for the content, at most one second before the time of change.

        S3 keeps whole seconds; what is below them comes from the ETag, so that an object replaced
        within a second is noticed.
        """
        seconds = self.modified_ns // 10**9 * 10**9
        return seconds - int(hashlib.sha256(self.etag.encode()).hexdigest(), 16) % 10**9


def stat(address: str) -> ObjectStat:
    """Size, ETag and time of change, or DownloadError."""
    if (found := find(address)) is None:
        bucket, key = split(address)
        what, hint = f"there is no {key!r} in bucket {bucket!r}", "check the address for mistakes"
        raise DownloadError(what, hint=hint)
    return found


def find(address: str) -> ObjectStat | None:
    """Size, ETag and time of change, or None where there is no such object."""
    bucket, key = split(address)

    async def head(s3: Any) -> ObjectStat | None:
        try:
            found = await within_timeout(s3.head_object(Bucket=bucket, Key=key))
        except Exception as error:
            if code_and_status(error)[1] == 404:
                return None
            raise
        modified = int(found["LastModified"].timestamp() * 10**9)
        return ObjectStat(found["ContentLength"], found["ETag"], modified)

    return object_client.call(head, "look at", address) if key else None


def list_below(address: str) -> list[str]:
    """Addresses of all objects whose keys begin with that of the address and a slash."""
    bucket, key = split(address)
    prefix = f"{key}/" if key else ""

    async def all_pages(s3: Any, page_size: int) -> list[str]:
        pages = s3.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix=prefix, PaginationConfig={"PageSize": page_size}
        )
        return [entry["Key"] async for page in pages for entry in page.get("Contents", ())]

    async def checked(s3: Any) -> list[str]:
        keys = await all_pages(s3, 1000)
        if not _is_encrypted(s3) and keys != await all_pages(s3, 999):
            raise Transient("two lists of the same objects differ")
        return keys

    keys = object_client.call(checked, "list", address)
    return [f"{SCHEME}{bucket}/{key}" for key in keys if not key.endswith("/")]


def _is_encrypted(s3: Any) -> bool:
    # TLS makes sure that what arrives is what was sent.
    return str(s3.meta.endpoint_url).startswith("https://")


async def get_checked(
    s3: Any, address: str, start: int, stop: int, known: ObjectStat, *, hashed: bool = False
) -> bytes:
    """The bytes start..stop, with every one of them checked.

    A whole object is compared with the MD5 that most stores name as its ETag. A range has no
    checksum of its own: TLS protects its bytes, or a hash of the reader (`hashed`). Where nothing
    does, it is read twice, the second time in other pieces, so that a fault that damages an answer
    does not do it twice in one place.
    """
    data = await _get_range(s3, address, start, stop, known)
    if len(data) == known.size:
        sure = known.etag.strip('"') == hashlib.md5(data).hexdigest()
    else:
        sure = hashed or _is_encrypted(s3)
    if not sure and data != await _get_in_pieces(s3, address, start, stop, known):
        raise Transient("two reads of the same bytes differ")
    return data


async def _get_in_pieces(s3: Any, address: str, start: int, stop: int, known: ObjectStat) -> bytes:
    cut = start + (stop - start) // 3
    begin, end = max(0, start - 1), min(stop + 2, known.size)
    head = await _get_range(s3, address, begin, cut, known) if begin < cut else b""
    tail = await _get_range(s3, address, cut, end, known)
    return head[start - begin :] + tail[: stop - cut]


async def _get_range(s3: Any, address: str, start: int, stop: int, known: ObjectStat) -> bytes:
    """One request for the bytes start..stop; an answer that is not exactly these is refused."""
    (bucket, key), span = split(address), f"{start}-{stop - 1}"
    answer = await within_timeout(
        s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={span}", IfMatch=known.etag)
    )
    async with answer["Body"] as body:
        given = answer.get("ContentRange") or ""
        if not given.startswith(f"bytes {span}/"):
            raise Transient(f"asked for bytes {span}, was sent {given or 'all'}")
        blocks, left = [], stop - start
        while left > 0:
            block = await within_timeout(body.read(min(left, 1 << 20)))
            if not block:
                raise Transient(f"{left:,} of {stop - start:,} bytes are missing")
            blocks.append(block)
            left -= len(block)
    return b"".join(blocks)


def read(address: str, start: int, stop: int, known: ObjectStat) -> bytes:
    """The bytes start..stop, all of them, of the object that is `known`."""
    if stop <= start:
        return b""
    return object_client.call(
        lambda s3: get_checked(s3, address, start, stop, known), "read", address
    )


def read_all(address: str, *, at_most: int) -> bytes | None:
    """A small object, or None where there is none; a larger one is refused."""
    if (known := find(address)) is None:
        return None
    if known.size > at_most:
        raise DownloadError(f"{address} has {known.size:,} bytes; at most {at_most:,} are expected")
    return read(address, 0, known.size, known)


def upload(path: Path, address: str) -> None:
    """Put a file there whole, and make sure that what arrived is what was sent."""
    if os.path.getsize(path) > SINGLE_PUT:
        fs = object_client.filesystem()
        object_client.call(lambda _: fs._put_file(str(path), address), "write", address)
        _compare_content(path, address)
        return
    data = path.read_bytes()
    put(address, data)
    found = stat(address)
    if found.size != len(data) or found.etag.strip('"') != hashlib.md5(data).hexdigest():
        _compare_content(path, address)  # the ETag is no MD5 there, or the bytes differ


def put(address: str, data: bytes, **conditions: str) -> None:
    """One request with all of `data`; the server checks its MD5."""
    bucket, key = split(address)
    digest = base64.b64encode(hashlib.md5(data).digest()).decode()

    async def send(s3: Any) -> None:
        request = s3.put_object(Bucket=bucket, Key=key, Body=data, ContentMD5=digest, **conditions)
        await within_timeout(request, len(data) / 2**18)  # at 256 kB/s or more

    object_client.call(send, "write", address)


def put_new(address: str, data: bytes) -> None:
    """Write an object that must not be there yet; LockedError where another writer was first.

    Stores that know `If-None-Match` decide; those that ignore it are asked before and after.
    """
    at_most = len(data) + (1 << 26)
    if (there := read_all(address, at_most=at_most)) is None:
        try:
            put(address, data, IfNoneMatch="*")
        except DownloadError as error:
            if "NotImplemented" in error.message:
                put(address, data)
            elif not any(status in error.message for status in ("412", "409")):
                raise
        there = read_all(address, at_most=at_most)
    if there != data:
        raise LockedError(
            f"{address} was written by somebody else, with other content",
            hint="two preparations go to the same place; look at it, then repeat one of them",
        )


def _compare_content(path: Path, address: str) -> None:
    found, size, step = stat(address), os.path.getsize(path), 8 << 20
    with open(path, "rb") as file:
        if found.size == size and all(
            read(address, at, min(at + step, size), found) == file.read(step)
            for at in range(0, size, step)
        ):
            return
    raise PrepareError(
        f"{address} does not hold what was uploaded to it from {path}",
        hint="the network or the store damages data; nothing was published",
    )
