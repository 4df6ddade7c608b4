"""What is repeated, and what an error says: the one place for all stores.

A request that fails for a reason that may not come again (503, 429, a timeout, a cut connection, a
body that is too short or of another range) is sent again, as `RETRY` says. All other failures, and
the last one, become a DownloadError that names bucket and key, and never a secret.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tokenmill.base.address import split
from tokenmill.base.retry import TRANSIENT_STATUS, Retry, Transient
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError, Stopped
from tokenmill.stores import forked_requests, store_requests
from tokenmill.stores.request_threads import NOW, request_threads
from tokenmill.stores.store_requests import StoreFailure
from tokenmill.stores.store_settings import CREDENTIALS_HINT

RETRY = Retry(attempts=6, first_wait=0.2, longest_wait=20.0)
UPLOAD_TIMEOUT = 300.0
"""Seconds for the answer to a request that sends much."""

_TRANSIENT_CODES = {"SlowDown", "RequestTimeout", "BadDigest", "IncompleteBody", "InternalError"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestTimeTooSkewed", "TokenRefreshRequired"}
_FINAL = {"missing", "condition", "refused", "credentials", "unsupported"}

Result = TypeVar("Result")


def call(operation: Callable[[], Result], what: str, address: str) -> Result:
    """Wait for an operation on a store, repeating it where that can help."""
    return begin(operation, what, address).result()


def begin(
    operation: Callable[[], Result], what: str, address: str, deadline: float = NOW
) -> "Future[Result]":
    """Start an operation; a future of its result."""
    return request_threads().submit(lambda: _repeat(operation, what, address), deadline)


def ask(name: str, address: str, *args: Any, timeout: float | None = None) -> Any:
    """One request of store_requests.py, by obstore in this process or in a helper."""
    arguments = (address, RETRY.timeout if timeout is None else timeout, *args)
    if forked_requests.is_needed():
        return forked_requests.send(name, *arguments)
    return getattr(store_requests, name)(*arguments)


def _repeat(operation: Callable[[], Result], what: str, address: str) -> Result:
    """Run an operation until it succeeds, fails for good, or has failed too often."""
    attempt, refreshed, ended = 0, False, request_threads().ended
    while True:
        attempt += 1
        try:
            return operation()
        except Transient as error:
            failure = StoreFailure("failed", text=str(error))
        except StoreFailure as error:
            failure = error
        if failure.code in _EXPIRED and not refreshed:
            refreshed = True
            store_requests.forget_stores()
        elif not _may_pass(failure) or attempt >= _most_attempts(failure):
            raise _error(what, address, failure, attempt)
        elif ended.wait(RETRY.wait(attempt)):
            raise Stopped(f"cannot {what} {address}: Python ends", hint=RESUME_HINT)


def _most_attempts(failure: StoreFailure) -> int:
    """Twice as many where the store asks for patience: obstore does not show its Retry-After."""
    return RETRY.attempts * (2 if failure.status in (429, 503) else 1)


def _may_pass(failure: StoreFailure) -> bool:
    if failure.code in _TRANSIENT_CODES or failure.status in TRANSIENT_STATUS:
        return True
    return failure.kind not in _FINAL and not failure.status


def _error(what: str, address: str, failure: StoreFailure, attempts: int) -> DownloadError:
    place = split(address)
    where = f"{place.key!r} in bucket {place.bucket!r}" if place.key else f"bucket {place.bucket!r}"
    if place.scheme.startswith("http"):
        where = address
    reason = " ".join(filter(None, [str(failure.status or ""), failure.code]))
    tried = f" ({attempts} attempts)" if attempts > 1 else ""
    return DownloadError(
        f"cannot {what} {where}: {reason or failure.text or _REASONS[failure.kind]}{tried}",
        hint=_hint(place.scheme, failure),
    )


_REASONS = {
    "missing": "404",
    "condition": "412",
    "refused": "403",
    "credentials": "no credentials were found",
    "unsupported": "this store cannot do that",
    "failed": "no answer",
}


def _hint(scheme: str, failure: StoreFailure) -> str:
    variables = CREDENTIALS_HINT.get(scheme, "the address must be readable without a login")
    if failure.kind == "credentials":
        return variables
    if failure.kind == "refused" or failure.status in (401, 403) or failure.code in _EXPIRED:
        return f"these credentials may not do that; {variables}"
    if failure.kind == "missing" or failure.status == 404:
        return "check the name of the bucket and the key, and the endpoint where one is set"
    if failure.kind == "condition":
        return "the object was replaced meanwhile; give the command again when nobody writes to it"
    if failure.status in (301, 307, 400) and scheme == "s3":
        return "the bucket may be in another region: set AWS_REGION to it"
    return f"the store or the network is failing; {RESUME_HINT}"
