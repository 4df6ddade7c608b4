"""Send requests by threads, read again what arrives wrong, and say what went wrong.

obstore repeats requests that fail (5xx, timeouts, cut connections). What arrives but is not what
was asked for is asked for again here. The last failure becomes a DownloadError that names bucket
and key, and never a secret.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from tokenmill.base.address import split
from tokenmill.base.daemon_threads import DaemonThreads
from tokenmill.base.human import redact
from tokenmill.base.signals import RESUME_HINT
from tokenmill.base.stalls import waiting_for
from tokenmill.errors import DownloadError
from tokenmill.stores import forked_requests, store_requests
from tokenmill.stores.store_requests import StoreFailure
from tokenmill.stores.store_settings import CREDENTIALS_HINT

CONNECTIONS = 64
"""Requests in progress at the same time, in a process."""
TRIES = 6
"""Times that an answer is asked for, if it is wrong."""
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestTimeTooSkewed", "TokenRefreshRequired"}
_DAMAGED = {"BadDigest", "IncompleteBody", "RequestTimeout"}

_threads: dict[int, DaemonThreads] = {}

Result = TypeVar("Result")


def call(operation: Callable[[], Result], what: str, address: str) -> Result:
    """Wait for an operation on a store."""
    return begin(operation, what, address).result()


def begin(operation: Callable[[], Result], what: str, address: str) -> "Future[Result]":
    """Start an operation in a thread: a main thread that waits for it can be interrupted."""
    process = os.getpid()
    if process not in _threads:
        _threads.clear()  # of the process that this one was forked from
    threads = _threads.setdefault(process, DaemonThreads(CONNECTIONS, "tokenmill-request"))
    return threads.submit(partial(_repeat, operation, what, address))


def ask(name: str, address: str, *args: Any) -> Any:
    """One request of store_requests.py, by obstore in this process or in a helper."""
    with waiting_for(f"the store: {name} {redact(address)}"):
        if store_requests.native_pid not in (None, os.getpid()):  # this process was forked
            return forked_requests.send(name, address, *args)
        return store_requests.send(name, address, *args)


def _repeat(operation: Callable[[], Result], what: str, address: str) -> Result:
    for attempt in range(1, TRIES + 1):
        try:
            return operation()
        except StoreFailure as failure:
            if failure.code in _EXPIRED and attempt == 1:
                store_requests.stores.clear()  # new ones have the credentials that are valid now
            elif attempt == TRIES or (failure.kind != "wrong" and failure.code not in _DAMAGED):
                raise _error(what, address, failure, attempt) from None
    raise AssertionError("the last try returns or raises")


def _error(what: str, address: str, failure: StoreFailure, attempts: int) -> DownloadError:
    where = split(address)
    name = f"{where.key!r} in bucket {where.bucket!r}" if where.key else f"bucket {where.bucket!r}"
    if where.scheme.startswith("http"):
        name = address
    reason = " ".join(filter(None, [str(failure.status or ""), failure.code]))
    tried = f" ({attempts} times)" if attempts > 1 else ""
    return DownloadError(
        f"cannot {what} {name}: {reason or failure.text or 'no answer'}{tried}",
        hint=_hint(where.scheme, failure),
    )


def _hint(scheme: str, failure: StoreFailure) -> str:
    variables = CREDENTIALS_HINT.get(scheme, "the address must be readable without a login")
    if failure.kind == "credentials":
        return variables
    if failure.kind == "refused" or failure.status in (401, 403) or failure.code in _EXPIRED:
        return f"these credentials do not allow that; {variables}"
    if failure.kind == "missing" or failure.status == 404:
        return "check the name of the bucket and the key, and the endpoint where one is set"
    if failure.kind == "condition":
        return "the object was replaced in the meantime; try again when no one writes to it"
    if failure.status in (301, 307, 400) and scheme == "s3":
        return "the bucket may be in another region: set AWS_REGION to it"
    return f"the store or the network is failing; {RESUME_HINT}"
