"""Operations on objects: stat, list, read a range, upload and check, write conditionally."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from itertools import takewhile
from pathlib import Path

from tokenmill.base.address import WRITABLE, split
from tokenmill.errors import DownloadError, LockedError, PrepareError
from tokenmill.stores.store_client import Result, ask, begin, call
from tokenmill.stores.store_requests import MULTIPART, ObjectStat, Part, StoreFailure
from tokenmill.stores.store_settings import endpoint_of

_DELETED_AT_ONCE = 1000  # what S3 takes in one request
NEW = "new"
"""The condition that there is no such object yet."""


def stat(address: str) -> ObjectStat:
    """Size, ETag and time of change, or DownloadError."""
    if (found := find(address)) is None:
        place = split(address)
        raise DownloadError(
            f"there is no {place.key!r} in bucket {place.bucket!r}", hint="check the address"
        )
    return found


def find(address: str) -> ObjectStat | None:
    """Return size, ETag and time of change, or None where there is no such object."""
    head = partial(_unless_missing, partial(ask, "head", address))
    return call(head, "look at", address) if split(address).key else None


def _unless_missing(operation: Callable[[], Result]) -> Result | None:
    try:
        return operation()
    except StoreFailure as failure:
        if failure.kind == "missing":
            return None
        raise


def list_below(address: str) -> list[str]:
    """Addresses of all objects whose keys begin with that of the address and a slash."""
    root = split(address).root
    return [f"{root}/{record.key}" for record in list_records(address)]


def list_records(address: str) -> list[ObjectStat]:
    """The same objects with size and ETag, as the list of the store has them.

    A list that ends too early continues after the last object that is known.
    """
    _refuse_to_list(address)
    records: list[ObjectStat] = []
    is_all = False
    while not is_all:
        more, is_all = call(partial(_list_more, address, records), "list", address)
        records += more
    return [record for record in records if not record.key.endswith("/")]


def _list_more(address: str, known: list[ObjectStat]) -> tuple[list[ObjectStat], bool]:
    """Return objects that come after the `known` ones, and True if there are no others.

    Where TLS does not protect the list, another one, from an earlier key on, must say the same:
    other bytes answer it.
    """
    after = known[-1].key if known else ""
    more: list[ObjectStat]
    more, is_all = ask("list_after", address, after)
    if is_encrypted(address):
        return more, is_all
    earlier = known[-2].key if len(known) > 1 else split(address).key or "!"
    again = [record for record in ask("list_after", address, earlier)[0] if record.key > after]
    pairs = zip(more, again, strict=False)
    num_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    is_all = is_all and num_same == len(more) == len(again)
    if not num_same and not is_all:
        raise StoreFailure("wrong", text="two lists of the same objects differ")
    return more[:num_same], is_all


def list_folder(address: str) -> tuple[list[ObjectStat], list[str]]:
    """The objects right below an address, and the keys of the folders there."""
    _refuse_to_list(address)
    found: tuple[list[ObjectStat], list[str]] = call(
        lambda: ask("list_folder", address), "list", address
    )
    return found


def _refuse_to_list(address: str) -> None:
    if split(address).scheme not in WRITABLE:
        raise DownloadError(
            f"{address} cannot be listed: https servers have no list of their files",
            hint="name each file; a dataset made by tokenmill opens by the address of its folder",
        )


def is_encrypted(address: str) -> bool:
    """Return True if TLS makes sure that what arrives is what was sent."""
    return endpoint_of(split(address)).startswith("https://")


def get_part(
    address: str, start: int, stop: int, known: ObjectStat, *, hashed: bool = False
) -> Part:
    """The bytes start..stop of an object that is `known`, all checked; for `store_client.begin`.

    A whole object is compared with the MD5 that most stores name as its ETag. A range that neither
    TLS protects nor a hash that the caller compares (`hashed`) is read twice, the second time in
    other pieces. Without an ETag any version of the right size is read.
    """
    data: bytes
    found: ObjectStat
    try:
        data, found = ask("get", address, start, stop, known.etag)
    except StoreFailure as failure:
        if failure.status == 416:
            raise wrong_size(address, start, known.size) from None
        raise
    if found.size != known.size:
        raise wrong_size(address, found.size, known.size)
    _confirm(address, data, start, found, hashed)
    return data, found


def wrong_size(address: str, found: int, expected: int) -> DownloadError:
    """The error for an object of another size than its dataset, or a first look at it, says."""
    return DownloadError(
        f"{address} has {found:,} bytes, not {expected:,} as its dataset says",
        hint="the object was cut short or replaced; restore the right one, then open it again",
    )


def _confirm(address: str, data: bytes, start: int, known: ObjectStat, hashed: bool) -> None:
    """Raise StoreFailure unless all bytes are known to be those of the object."""
    sure = hashed or is_encrypted(address)
    if len(data) == known.size:
        sure = _is_whole(address, known.etag, data, sure)
    if not sure and data != _get_in_pieces(address, start, start + len(data), known):
        raise StoreFailure("wrong", text="two reads of the same bytes differ")


def _is_whole(address: str, etag: str, data: bytes, sure: bool) -> bool:
    """Compare with the ETag, if it looks like the MD5 that S3 and its like give; else as `sure`."""
    digest = etag.strip('"')
    may_be_md5 = split(address).scheme == "s3" and len(digest) == 32
    is_md5 = digest == hashlib.md5(data, usedforsecurity=False).hexdigest()
    return is_md5 or (sure and not may_be_md5)


def _get_in_pieces(address: str, start: int, stop: int, known: ObjectStat) -> bytes:
    cut = start + (stop - start) // 3
    begin, end = max(0, start - 1), min(stop + 2, known.size)
    head = ask("get", address, begin, cut, known.etag)[0] if begin < cut else b""
    tail = ask("get", address, cut, end, known.etag)[0]
    data: bytes = head[start - begin :] + tail[: stop - cut]
    return data


def read(address: str, start: int, stop: int, known: ObjectStat, *, hashed: bool = False) -> bytes:
    """Return the bytes start..stop, all of them, of the object that is `known`."""
    if stop <= start:
        return b""
    return begin_part(address, start, stop, known, hashed=hashed).result()[0]


def read_if_there(address: str, start: int, stop: int, size: int) -> bytes | None:
    """Return bytes of an object of this size; None without one."""
    get = partial(get_part, address, start, stop, ObjectStat(size, ""))
    part = call(partial(_unless_missing, get), "read", address)
    return None if part is None else part[0]


def begin_part(
    address: str, start: int, stop: int, known: ObjectStat, *, hashed: bool = False
) -> "Future[Part]":
    """Start to read some bytes, and the version that they are of."""
    get = partial(get_part, address, start, stop, known, hashed=hashed)
    return begin(get, "read", address)


def read_all(address: str, *, at_most: int) -> bytes | None:
    """A small object, or None where there is none; a larger one is refused."""
    found = read_with_etag(address, at_most=at_most)
    return None if found is None else found[0]


def read_with_etag(address: str, *, at_most: int) -> tuple[bytes, str] | None:
    """A small object and the ETag that names this version of it; by one request."""

    def get() -> tuple[bytes, str]:
        data, found = ask("get_all", address, at_most)
        if found.size > at_most:
            raise DownloadError(
                f"{address} has {found.size:,} bytes; at most {at_most:,} are expected"
            )
        if data:
            _confirm(address, data, 0, found, False)
        return data, found.etag

    if not split(address).key:
        return None
    return call(partial(_unless_missing, get), "read", address)


def put(address: str, data: bytes, condition: str = "") -> bool:
    """One request with all of `data`; False where the condition (`NEW`, an ETag) does not hold."""

    def send() -> bool:
        try:
            ask("put", address, data, condition)
        except StoreFailure as failure:
            if failure.kind == "condition" and condition:
                return False
            raise
        return True

    _refuse_read_only(address)
    return call(send, "write", address)


def put_if(address: str, data: bytes, condition: str) -> None:
    """Write a small object under a condition, and make sure that it is there.

    LockedError where another writer was first. An answer may be lost after the store wrote: then
    the second try finds our own bytes there, and all is well. A store that ignores conditions is
    asked before and after: then only writers at the very same moment are not noticed.
    """
    there = find(address)
    if condition == (NEW if there is None else there.etag):
        put(address, data, condition)
    if read_all(address, at_most=len(data) + (1 << 26)) != data:
        raise LockedError(
            f"{address} was written by another writer, with other content",
            hint="two preparations write to the same place; look at it, then repeat one of them",
        )


def read_tail(address: str, count: int) -> Part | None:
    """The last `count` bytes of an object, and its version, by one request; None without one."""

    def get() -> Part:
        data, found = ask("get_tail", address, count)
        _confirm(address, data, found.size - len(data), found, False)
        return data, found

    return call(partial(_unless_missing, get), "read", address)


def delete_all(addresses: Iterable[str]) -> None:
    """Remove objects of one bucket, those that are there."""
    waiting = list(addresses)
    for start in range(0, len(waiting), _DELETED_AT_ONCE):
        some = waiting[start : start + _DELETED_AT_ONCE]
        keys = [split(address).key for address in some]
        remove = partial(ask, "delete_many", split(some[0]).root, keys)
        call(remove, "remove objects of", split(some[0]).root)


def delete(address: str) -> None:
    """Remove an object, if it is there."""
    call(lambda: ask("delete", address), "remove", address)


def upload(path: Path, address: str, condition: str = "") -> ObjectStat | None:
    """Put a file there whole, and make sure that what arrived is what was sent.

    None where the condition does not hold. Files of more than 64 MiB go in pieces, which stores
    write without a condition.
    """
    _refuse_read_only(address)
    size = os.path.getsize(path)
    sure = is_encrypted(address)
    if size > MULTIPART:
        if condition == NEW and find(address) is not None:
            return None
        call(lambda: ask("put_file", address, str(path.absolute())), "write", address)
        found = stat(address)
    else:
        data = path.read_bytes()
        if not put(address, data, condition):
            return None
        found = stat(address)
        sure = _is_whole(address, found.etag, data, sure)
    if (found.size != size or not sure) and not has_content_of(address, path):
        raise PrepareError(
            f"{address} does not hold what was uploaded to it from {path}",
            hint="the network or the store damages data; nothing was published",
        )
    return found


def upload_once(
    path: Path, address: str, before_replacing: Callable[[], object] = bool
) -> ObjectStat:
    """Put a file there unless that was done before; replace what is something else."""
    found = upload(path, address, NEW)
    if found is None and has_content_of(address, path):
        return stat(address)
    if found is None:
        before_replacing()
        found = upload(path, address)
    assert found is not None
    return found


def has_content_of(address: str, path: Path) -> bool:
    """Return True if the object holds the bytes of the file; reads both."""
    found = stat(address)
    size = os.path.getsize(path)
    step = 8 << 20
    with open(path, "rb") as file:
        return found.size == size and all(
            read(address, at, min(at + step, size), found) == file.read(step)
            for at in range(0, size, step)
        )


def _refuse_read_only(address: str) -> None:
    if split(address).scheme not in WRITABLE:
        raise ValueError(
            f"{address} can only be read; write to s3://, gs:// or az://, or to a folder"
        )


_GLOB_TOKEN = re.compile(r"\*\*/|\*\*|\*|\?|\[(!?)([^\]]+)\]|.", re.DOTALL)
_MEANING = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_IN_SET = str.maketrans({"\\": r"\\", "[": r"\[", "^": r"\^"})


def list_matching(address: str) -> list[str]:
    """Return the addresses of the objects that a glob means, in the order of their keys."""
    folder = re.split(r"[*?\[]", address)[0].rpartition("/")[0]
    matches = glob_pattern(address)
    return [path for path in list_below(folder) if matches.fullmatch(path)]


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Read a glob as for files: `*` and `?` stay inside a folder, `**/` goes through any number."""
    parts = []
    for token in _GLOB_TOKEN.finditer(pattern):
        negated, some = token.groups()
        if some:
            parts.append(f"[{'^' if negated else ''}{some.translate(_IN_SET)}]")
        else:
            parts.append(_MEANING.get(token[0], re.escape(token[0])))
    return re.compile("".join(parts), re.DOTALL)
