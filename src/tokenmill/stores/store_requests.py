"""The requests that are sent to a store by obstore, which repeats those that fail.

What goes wrong is a `StoreFailure`: small, without secrets, and able to travel between processes.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple

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
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_VARIABLES = ("AWS_", "GOOGLE_", "AZURE_", "STORAGE_EMULATOR_HOST", "HOME")
_KINDS = {
    "AlreadyExistsError": "condition",
    "PreconditionError": "condition",
    "NotModifiedError": "condition",
    "PermissionDeniedError": "refused",
    "UnauthenticatedError": "refused",
    "NotSupportedError": "unsupported",
}
stores: dict[tuple[Any, ...], Any] = {}
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


class ObjectStat(NamedTuple):
    """What a store says about an object: it tells if it is still the one that was planned."""

    size: int
    etag: str
    modified_ns: int = 0
    key: str = ""

    @property
    def stamp(self) -> int:
        """The second of the change, less a part that comes from the ETag.

        S3 keeps whole seconds: so an object that is replaced within one is noticed.
        """
        seconds = self.modified_ns // 10**9 * 10**9
        return seconds - int(hashlib.sha256(self.etag.encode()).hexdigest(), 16) % 10**9


Part = tuple[bytes, ObjectStat]
"""Some bytes of an object, and which version of it they are from."""


def head(store: Any, key: str) -> ObjectStat:
    """Return size, ETag and time of change."""
    return _stat(store.head(key))


def get(store: Any, key: str, start: int, stop: int, etag: str) -> Part:
    """Return the bytes start..stop of the object with this ETag, or of any version if it is "".

    No bytes, where the object ends before them.
    """
    options: dict[str, Any] = {"range": (start, stop)}
    if etag and not etag.startswith("W/"):
        options["if_match"] = etag
    result = store.get(key, options=options)
    whole = _stat(result.meta)
    if whole.size < stop:
        return b"", whole
    if tuple(result.range) != (start, stop):
        raise StoreFailure("wrong", text=f"was not sent the bytes {start}-{stop - 1}")
    return _part(result, stop - start)


def get_tail(store: Any, key: str, count: int) -> Part:
    """Return the last bytes of an object, at most so many; an object of one byte or more."""
    if type(store).__name__ == "AzureStore":  # it knows no such ranges
        whole = _stat(store.head(key))
        return get(store, key, max(0, whole.size - count), whole.size, whole.etag)
    result = store.get(key, options={"range": {"suffix": count}})
    return _part(result, min(count, result.meta["size"]))


def get_all(store: Any, key: str, at_most: int) -> Part:
    """Return a whole object; no bytes of one that is larger than `at_most`."""
    result = store.get(key)
    whole = _stat(result.meta)
    return (b"", whole) if whole.size > at_most else _part(result, whole.size)


def _part(result: Any, length: int) -> Part:
    data = bytes(result.bytes())
    if len(data) != length:
        raise StoreFailure("wrong", text=f"{length - len(data):,} bytes are missing")
    return data, _stat(result.meta)


def put(store: Any, key: str, data: bytes, condition: str) -> None:
    """Write an object whole: always (""), only where there is none ("new"), or over this ETag."""
    mode: Any = {"": "overwrite", "new": "create"}.get(condition) or {"e_tag": condition}
    if isinstance(mode, dict) and type(store).__name__ == "GCSStore":
        # Google compares the generation of an object, not its ETag.
        there = store.head(key)
        if there["e_tag"] != condition:
            raise StoreFailure("condition", 412)
        mode = {"version": there["version"]}
    store.put(key, data, mode=mode, use_multipart=False)


def put_file(store: Any, key: str, path: str) -> None:
    """Write a large object from a file, in pieces."""
    with open(path, "rb") as file:
        store.put(key, file, use_multipart=True, chunk_size=_PIECE, max_concurrency=4)


def list_after(store: Any, key: str, after: str) -> tuple[list[ObjectStat], bool]:
    """Return the objects below the address whose keys come after `after`, in order; and True.

    False if a page did not arrive, and these are the objects of the pages before it.
    """
    records: list[ObjectStat] = []
    is_all = True
    try:
        for page in store.list(prefix=key or None, offset=after or None, chunk_size=100):
            records += map(_stat, page)
    except Exception:
        if not records or records != _sorted(records):
            raise
        is_all = False
    return _sorted(record for record in records if record.key > (after or key or "!")), is_all


def list_folder(store: Any, key: str) -> tuple[list[ObjectStat], list[str]]:
    """Return the objects right below the address, and the keys of the folders there."""
    result = store.list_with_delimiter(prefix=key or None)
    return _sorted(map(_stat, result["objects"])), sorted(result["common_prefixes"])


def _sorted(records: Iterable[ObjectStat]) -> list[ObjectStat]:
    return sorted(records, key=lambda record: record.key)


def delete(store: Any, key: str) -> None:
    """Remove an object; one that is not there is no error."""
    with suppress(FileNotFoundError):
        store.delete(key)


def delete_many(store: Any, _: str, keys: list[str]) -> None:
    """Remove objects, by few requests where the store can do that."""
    with suppress(FileNotFoundError):
        store.delete(keys)


REQUESTS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        *(head, get, get_tail, get_all, put, put_file),
        *(list_after, list_folder, delete, delete_many),
    )
}
_TIMEOUTS = {"put": UPLOAD_TIMEOUT, "put_file": UPLOAD_TIMEOUT}


def send(name: str, address: str, *args: Any) -> Any:
    """Send one of the requests above; what goes wrong becomes a StoreFailure."""
    global native_pid
    place = split(address)
    try:
        import obstore
    except ImportError as error:
        what = f"{place.scheme}:// addresses"
        raise MissingExtraError(what, package="obstore", extra="stores") from error
    native_pid = os.getpid()
    try:
        store = _store(place, _TIMEOUTS.get(name, RETRY.timeout))
        return REQUESTS[name](store, place.key, *args)
    except FileNotFoundError as error:
        raise _failure("missing", error) from None
    except (obstore.exceptions.BaseError, OSError, ValueError) as error:
        raise _failure(_KINDS.get(type(error).__name__, "failed"), error) from None


def _store(place: Address, timeout: float) -> Any:
    """The store with its connections; another one when the environment says otherwise."""
    variables = [item for item in os.environ.items() if item[0].startswith(_VARIABLES)]
    name = (place.root, timeout, RETRY, *variables)
    if (store := stores.get(name)) is None:
        store = stores[name] = _make_store(place, timeout)
    return store


def _make_store(place: Address, timeout: float) -> Any:
    from obstore import store as kinds

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
        return kinds.HTTPStore(place.root, **options)
    kind = {"s3": kinds.S3Store, "gs": kinds.GCSStore, "az": kinds.AzureStore}[place.scheme]
    return kind(place.bucket, **options, **settings_of(place))


def _stat(found: Any) -> ObjectStat:
    modified = int(found["last_modified"].timestamp() * 10**9)
    etag = found["e_tag"] or ""
    if etag and not etag.endswith('"'):
        etag = f'"{etag}"'  # lists of Azure leave the quotes out
    return ObjectStat(found["size"], etag, modified, found["path"])


def _failure(kind: str, error: Exception) -> StoreFailure:
    """The parts of a message that are no secret: status and code; texts may hold signatures."""
    text = str(error)
    status = _STATUS.search(text)
    code = _CODE.search(text)
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        return StoreFailure("credentials", text="no credentials were found")
    if "object was only" in text:  # said by obstore itself, of a range after the end
        return StoreFailure(kind, 416)
    if status:
        return StoreFailure(kind, int(status[1]), code[1] if code else "")
    # obstore repeats most HTTP errors, and says so; but no body that was cut short, and no removal
    # over a connection that the store has closed. Anything else is an answer that it cannot read.
    is_repeated = "HTTP error" in text and "retries" in text and "response body" not in text
    is_wrong = kind == "failed" and not is_repeated
    # The last part of the first line: what went wrong, without the address that was asked.
    line = text.partition("\n")[0].rpartition(" - ")[2].rpartition(" error: ")[2]
    shown = re.sub(r"https?://\S+", "the store", line)[-200:]
    return StoreFailure("wrong" if is_wrong else kind, text=shown)
