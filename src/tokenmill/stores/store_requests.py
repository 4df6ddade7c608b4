"""The requests that are sent to a store by obstore, which repeats those that fail.

What goes wrong is a `StoreFailure`: small, without secrets, and able to travel between processes.
"""

import os
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

from tokenmill.base.address import Address, split
from tokenmill.base.retry import Retry
from tokenmill.errors import MissingExtraError
from tokenmill.stores.store_settings import endpoint_of, settings_of

MULTIPART = 64 << 20
"""Larger files are uploaded in pieces of 16 MiB."""
_PIECE = 16 << 20
RETRY = Retry(attempts=10, first_wait=0.2, longest_wait=15.0, deadline=90.0)
"""When obstore sends a request again, and when it gives up."""
UPLOAD_TIMEOUT = 300.0
"""Seconds for the answer to a request that sends much."""
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
        """`missing`, `condition`, `refused`, `credentials`, `unsupported`, `failed`, or `wrong`: an
        answer that is not what was asked for, and may be if it is asked for again."""
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


def head(address: str) -> ObjectRecord:
    """Size, ETag and time of change."""
    return _ask(address, lambda api, store, key: _record(api.head(store, key)))


def get(address: str, start: int, stop: int, etag: str) -> Part:
    """The bytes start..stop of the object that has this ETag, or of any version where it is "".

    Of an object that ends before them, only what it is.
    """

    def read(api: Any, store: Any, key: str) -> Part:
        condition = {"if_match": etag} if etag and not etag.startswith("W/") else {}
        found = api.get(store, key, options={"range": (start, stop), **condition})
        if (whole := _record(found.meta)).size < stop:
            return Part(b"", whole.size, whole.etag)
        if tuple(found.range) != (start, stop):
            raise StoreFailure("wrong", text=f"was not sent the bytes {start}-{stop - 1}")
        data = bytes(found.bytes())
        if len(data) != stop - start:
            raise StoreFailure("wrong", text=f"{stop - start - len(data):,} bytes are missing")
        return Part(data, whole.size, whole.etag)

    return _ask(address, read)


def get_all(address: str, at_most: int) -> Part:
    """A whole object; of one that is larger than that, only what it is."""

    def read(api: Any, store: Any, key: str) -> Part:
        found = api.get(store, key)
        meta = _record(found.meta)
        data = bytes(found.bytes()) if meta.size <= at_most else b""
        if meta.size <= at_most and len(data) != meta.size:
            raise StoreFailure("wrong", text=f"{meta.size - len(data):,} bytes are missing")
        return Part(data, meta.size, meta.etag)

    return _ask(address, read)


def put(address: str, data: bytes, condition: str) -> None:
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

    _ask(address, write, UPLOAD_TIMEOUT)


def put_file(address: str, path: str) -> None:
    """Write a large object from a file, in pieces."""

    def write(api: Any, store: Any, key: str) -> None:
        with open(path, "rb") as file:
            api.put(store, key, file, use_multipart=True, chunk_size=_PIECE, max_concurrency=4)

    _ask(address, write, UPLOAD_TIMEOUT)


def list_all(address: str, another_way: bool) -> list[ObjectRecord]:
    """All objects below the address, in the order of their keys.

    `another_way` asks for the same with a request that is answered by other bytes.
    """

    def read(api: Any, store: Any, key: str) -> list[ObjectRecord]:
        offset = (key or "!") if another_way else None
        pages = api.list(store, prefix=key or None, offset=offset, chunk_size=1000)
        records = [_record(entry) for page in pages for entry in page]
        return sorted(record for record in records if record.key > (key or "!"))

    return _ask(address, read)


def list_folder(address: str) -> tuple[list[ObjectRecord], list[str]]:
    """The objects right below the address, and the keys of the folders there."""

    def read(api: Any, store: Any, key: str) -> tuple[list[ObjectRecord], list[str]]:
        found = api.list_with_delimiter(store, prefix=key or None)
        return sorted(map(_record, found["objects"])), sorted(found["common_prefixes"])

    return _ask(address, read)


def delete(address: str) -> None:
    """Remove an object; one that is not there is no error."""

    def remove(api: Any, store: Any, key: str) -> None:
        try:
            api.delete(store, key)
        except FileNotFoundError:
            return

    _ask(address, remove)


def forget_stores() -> None:
    """Make the stores again, with the credentials that are valid then."""
    _stores.clear()


def _ask(
    address: str, request: Callable[[Any, Any, str], Result], timeout: float | None = None
) -> Result:
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
        return request(obstore, _store(place, timeout or RETRY.timeout), place.key)
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
    name = (place.root, timeout, RETRY, *variables)
    if (store := _stores.get(name)) is None:
        store = _stores[name] = _make_store(place, timeout)
    return store


def _make_store(place: Address, timeout: float) -> Any:
    from obstore import store as stores

    options: dict[str, Any] = {
        "client_options": {
            "allow_http": endpoint_of(place).startswith("http://"),
            "connect_timeout": timedelta(seconds=RETRY.timeout),
            "read_timeout": timedelta(seconds=timeout),
            "timeout": timedelta(seconds=20 * timeout),
        },
        "retry_config": {
            "max_retries": RETRY.attempts - 1,
            "retry_timeout": timedelta(seconds=RETRY.deadline or 90.0),
            "backoff": {
                "init_backoff": timedelta(seconds=RETRY.first_wait),
                "max_backoff": timedelta(seconds=RETRY.longest_wait),
            },
        },
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
    # What obstore has repeated is an HTTP error; anything else is an answer that it cannot read.
    is_wrong = kind == "failed" and "HTTP error" not in text
    return StoreFailure("wrong" if is_wrong else kind, text=_short(text))


def _short(text: str) -> str:
    """The last part of the first line: what went wrong, without the address that was asked."""
    line = text.partition("\n")[0].rpartition(" - ")[2].rpartition(" error: ")[2]
    return re.sub(r"https?://\S+", "the store", line)[-200:]
