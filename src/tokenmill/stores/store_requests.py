"""The eight requests that are sent to a store, each once, by obstore.

What goes wrong is a `StoreFailure`: small, without secrets, and able to travel between processes.
`store_client.py` decides what to repeat.
"""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from tokenmill.base.address import Address, split
from tokenmill.errors import MissingExtraError
from tokenmill.stores.store_settings import endpoint_of, settings_of

MULTIPART = 64 << 20
"""Larger files are uploaded in pieces of 16 MiB."""
_PIECE = 16 << 20
Result = TypeVar("Result")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR_HOST", "HOME")
_stores: dict[tuple[Any, ...], Any] = {}
native_pid: int | None = None
"""The process in which obstore runs; its threads do not survive a fork."""


class StoreFailure(Exception):  # noqa: N818 - store_client.py makes an error of it
    """One request failed."""

    def __init__(self, kind: str, status: int = 0, code: str = "", text: str = "") -> None:
        super().__init__(kind, status, code, text)
        self.kind = kind
        """`missing`, `condition`, `refused`, `credentials`, `unsupported`, or `failed`."""
        self.status = status
        self.code = code
        """The word that the store gives for it, such as `NoSuchBucket`."""
        self.text = text


class ObjectRecord(NamedTuple):
    """What a store says about an object."""

    key: str
    size: int
    etag: str
    modified_ns: int


class Part(NamedTuple):
    """Some bytes of an object, and which version of it they are from."""

    data: bytes
    size: int
    """Of the whole object."""
    etag: str


def head(address: str, timeout: float) -> ObjectRecord:
    """Size, ETag and time of change."""
    return _ask(address, timeout, lambda api, store, key: _record(api.head(store, key)))


def get(address: str, timeout: float, start: int, stop: int, etag: str) -> Part:
    """The bytes start..stop of the object that has this ETag, or of any version where it is "".

    Of an object that ends before them, only what it is.
    """

    def read(api: Any, store: Any, key: str) -> Part:
        condition = {"if_match": etag} if etag and not etag.startswith("W/") else {}
        found = api.get(store, key, options={"range": (start, stop), **condition})
        if (whole := _record(found.meta)).size < stop:
            return Part(b"", whole.size, whole.etag)
        if tuple(found.range) != (start, stop):
            raise StoreFailure("failed", text=f"was not sent the bytes {start}-{stop - 1}")
        data = bytes(found.bytes())
        if len(data) != stop - start:
            raise StoreFailure("failed", text=f"{stop - start - len(data):,} bytes are missing")
        return Part(data, whole.size, whole.etag)

    return _ask(address, timeout, read)


def get_all(address: str, timeout: float, at_most: int) -> Part:
    """A whole object; of one that is larger than that, only what it is."""

    def read(api: Any, store: Any, key: str) -> Part:
        found = api.get(store, key)
        meta = _record(found.meta)
        data = bytes(found.bytes()) if meta.size <= at_most else b""
        if meta.size <= at_most and len(data) != meta.size:
            raise StoreFailure("failed", text=f"{meta.size - len(data):,} bytes are missing")
        return Part(data, meta.size, meta.etag)

    return _ask(address, timeout, read)


def put(address: str, timeout: float, data: bytes, condition: str) -> None:
    """Write an object whole: always (""), only where there is none ("new"), or over this ETag."""
    mode: Any = {"": "overwrite", "new": "create"}.get(condition) or {"e_tag": condition}

    def write(api: Any, store: Any, key: str) -> None:
        if condition not in ("", "new") and split(address).scheme == "gs":
            # Google compares the generation of an object, not its ETag.
            found = api.head(store, key)
            if found["e_tag"] != condition:
                raise StoreFailure("condition")
            api.put(store, key, data, mode={"version": found["version"]}, use_multipart=False)
            return
        api.put(store, key, data, mode=mode, use_multipart=False)

    _ask(address, timeout, write)


def put_file(address: str, timeout: float, path: str) -> None:
    """Write a large object from a file, in pieces."""

    def write(api: Any, store: Any, key: str) -> None:
        with open(path, "rb") as file:
            api.put(store, key, file, use_multipart=True, chunk_size=_PIECE, max_concurrency=4)

    _ask(address, timeout, write)


def list_all(address: str, timeout: float, another_way: bool) -> list[ObjectRecord]:
    """All objects below the address, in the order of their keys.

    `another_way` asks for the same with a request that is answered by other bytes.
    """

    def read(api: Any, store: Any, key: str) -> list[ObjectRecord]:
        offset = (key or "!") if another_way else None
        pages = api.list(store, prefix=key or None, offset=offset, chunk_size=1000)
        records = [_record(entry) for page in pages for entry in page]
        return sorted(record for record in records if record.key > (key or "!"))

    return _ask(address, timeout, read)


def list_folder(address: str, timeout: float) -> tuple[list[ObjectRecord], list[str]]:
    """The objects right below the address, and the keys of the folders there."""

    def read(api: Any, store: Any, key: str) -> tuple[list[ObjectRecord], list[str]]:
        found = api.list_with_delimiter(store, prefix=key or None)
        return sorted(map(_record, found["objects"])), sorted(found["common_prefixes"])

    return _ask(address, timeout, read)


def delete(address: str, timeout: float) -> None:
    """Remove an object; one that is not there is no error."""

    def remove(api: Any, store: Any, key: str) -> None:
        try:
            api.delete(store, key)
        except FileNotFoundError:
            return

    _ask(address, timeout, remove)


def forget_stores() -> None:
    """Make the stores again, with the credentials that are valid then."""
    _stores.clear()


def _ask(address: str, timeout: float, request: Callable[[Any, Any, str], Result]) -> Result:
    """Send a request; what goes wrong becomes a StoreFailure."""
    global native_pid
    place = split(address)
    try:
        import obstore
    except ImportError as error:
        what = f"{place.scheme}:// addresses"
        raise MissingExtraError(what, package="obstore", extra="stores") from error
    native_pid = os.getpid()
    try:
        return request(obstore, _store(place, timeout), place.key)
    except StoreFailure:
        raise
    except FileNotFoundError as error:
        raise _failure("missing", error) from None
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        kinds = {
            "AlreadyExistsError": "condition",
            "PreconditionError": "condition",
            "NotModifiedError": "condition",
            "PermissionDeniedError": "refused",
            "UnauthenticatedError": "refused",
            "NotSupportedError": "unsupported",
        }
        raise _failure(kinds.get(type(error).__name__, "failed"), error) from None


def _store(place: Address, timeout: float) -> Any:
    """The store with its connections; another one when the environment says otherwise."""
    variables = [item for item in os.environ.items() if item[0].startswith(_VARIABLES)]
    name = (place.root, timeout, *variables)
    if (store := _stores.get(name)) is None:
        store = _stores[name] = _make_store(place, timeout)
    return store


def _make_store(place: Address, timeout: float) -> Any:
    from obstore import store as stores

    options: dict[str, Any] = {
        "client_options": {
            "allow_http": endpoint_of(place).startswith("http://"),
            "connect_timeout": timedelta(seconds=timeout),
            "read_timeout": timedelta(seconds=timeout),
            "timeout": timedelta(seconds=20 * timeout),
        },
        "retry_config": {"max_retries": 0},  # repeated in store_client.py, not in two layers
    }
    if place.scheme.startswith("http"):
        return stores.HTTPStore(place.root, **options)
    kind = {"s3": stores.S3Store, "gs": stores.GCSStore, "az": stores.AzureStore}[place.scheme]
    return kind(place.bucket, **options, **settings_of(place))


def _record(found: Any) -> ObjectRecord:
    modified = int(found["last_modified"].timestamp() * 10**9)
    etag = found["e_tag"] or ""
    if etag and not etag.endswith('"'):
        etag = f'"{etag}"'  # lists of Azure leave the quotes out
    return ObjectRecord(found["path"], found["size"], etag, modified)


def _failure(kind: str, error: Exception) -> StoreFailure:
    """The parts of a message that are no secret: status and code; texts may hold signatures."""
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        return StoreFailure("credentials")
    if "object was only" in text:  # said by obstore itself, of a range after the end
        return StoreFailure(kind, 416)
    if status:
        return StoreFailure(kind, int(status[1]), code[1] if code else "")
    return StoreFailure(kind, text=_short(text))


def _short(text: str) -> str:
    """The last part of the first line: what went wrong, without the address that was asked."""
    line = text.partition("\n")[0].rpartition(" - ")[2]
    return re.sub(r"https?://\S+", "the store", line)[-200:]
