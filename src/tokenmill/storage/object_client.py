"""One client a process, and the one place where requests are repeated.

A request that fails for a reason that may pass (503, 429, a timeout, a cut connection, a body that
is too short or of another range) is sent again, up to `ATTEMPTS` times, waiting longer each time.
All other failures, and the last one, become a DownloadError that names bucket and key.

Clients are not carried over a fork: a new process makes its own.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tokenmill.errors import DownloadError, MissingExtraError
from tokenmill.storage.address import split

ATTEMPTS = 6
FIRST_WAIT = 0.2
LONGEST_WAIT = 20.0
TIMEOUT = 30.0
"""Seconds without a byte after which a connection is given up."""

_PASSING = {408, 425, 429, 500, 502, 503, 504}
_PASSING_CODES = {"SlowDown", "RequestTimeout", "BadDigest", "IncompleteBody", "InternalError"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestTimeTooSkewed", "TokenRefreshRequired"}

Result = TypeVar("Result")
Operation = Callable[[Any], Awaitable[Result]]
_filesystems: dict[int, Any] = {}


class TryAgain(Exception):  # noqa: N818 - a request, not a fault
    """An answer came, but not the one that was asked for."""


def filesystem() -> Any:
    """The s3fs file system of this process."""
    pid = os.getpid()
    if pid not in _filesystems:
        try:
            import s3fs
        except ImportError as error:
            raise MissingExtraError("s3:// addresses", package="s3fs", extra="s3") from error
        _filesystems.clear()
        _filesystems[pid] = s3fs.S3FileSystem(
            skip_instance_cache=True,
            use_listings_cache=False,
            config_kwargs={
                "retries": {"max_attempts": 0},  # repeated here, not in three layers at once
                "connect_timeout": TIMEOUT,
                "read_timeout": TIMEOUT,
                # Look-alikes of S3 answer a range with the checksum of the whole object.
                "response_checksum_validation": "when_required",
                "request_checksum_calculation": "when_required",
            },
        )
    return _filesystems[pid]


def call(operation: Operation[Result], what: str, address: str) -> Result:
    """Wait for an operation on the client, repeating it where that can help."""
    from fsspec.asyn import sync

    result: Result = sync(filesystem().loop, repeat, operation, what, address)
    return result


def begin(operation: Operation[Result], what: str, address: str) -> "Any":
    """Start an operation; a future of its result."""
    coroutine = repeat(operation, what, address)
    return asyncio.run_coroutine_threadsafe(coroutine, filesystem().loop)


def is_encrypted(s3: Any) -> bool:
    """Whether TLS makes sure that what comes is what was sent."""
    return str(s3.meta.endpoint_url).startswith("https://")


async def repeat(operation: Operation[Result], what: str, address: str) -> Result:
    """Run an operation until it succeeds or there is no point in going on."""
    fs = filesystem()
    refreshed = False
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await operation(await fs.set_session())
        except DownloadError:
            raise
        except Exception as error:
            code, status = _code(error)
            if code in _EXPIRED and not refreshed:
                refreshed = True
                await fs.set_session(refresh=True)
                continue
            if not _may_pass(error, code, status) or attempt == ATTEMPTS:
                raise _failed(what, address, error, code, status, attempt) from None
            wait = min(LONGEST_WAIT, FIRST_WAIT * 2 ** (attempt - 1)) * random.uniform(0.5, 1.0)
            wait = max(wait, _asked_to_wait(error))
        await asyncio.sleep(wait)
    raise AssertionError("unreachable")


def _code(error: BaseException) -> tuple[str, int]:
    """The code and the status of an answer; ("", 0) where there was none."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return "", 0
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return str(response.get("Error", {}).get("Code", "")), int(status or 0)


def _asked_to_wait(error: BaseException) -> float:
    """Seconds that the server asked for in Retry-After."""
    response = getattr(error, "response", None)
    if not isinstance(response, dict):
        return 0.0
    asked = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("retry-after", "")
    return min(LONGEST_WAIT, float(asked)) if str(asked).isdecimal() else 0.0


def _may_pass(error: BaseException, code: str, status: int) -> bool:
    if status:
        return status in _PASSING or code in _PASSING_CODES
    from botocore import exceptions  # type: ignore[import-untyped]

    if isinstance(error, (exceptions.NoCredentialsError, exceptions.ParamValidationError)):
        return False
    passing = (TryAgain, OSError, asyncio.TimeoutError, exceptions.HTTPClientError)
    return isinstance(error, (*passing, exceptions.BotoCoreError)) or _is_of_aiohttp(error)


def _is_of_aiohttp(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("aiohttp", "httpx", "urllib3")


def _failed(
    what: str, address: str, error: BaseException, code: str, status: int, attempts: int
) -> DownloadError:
    bucket, key = split(address)
    reason = f"{status} {code}".strip() if status else str(error) or type(error).__name__
    tried = f" ({attempts} attempts)" if attempts > 1 else ""
    return DownloadError(
        f"cannot {what} {key!r} in bucket {bucket!r}: {reason}{tried}", hint=_hint(error, status)
    )


def _hint(error: BaseException, status: int) -> str:
    if status == 404:
        return "check the name of the bucket and the key, and AWS_ENDPOINT_URL where one is set"
    if status in (401, 403):
        return "these credentials may not do that; check AWS_PROFILE or the AWS_* variables"
    if status == 412:
        return "the object was replaced meanwhile; give the command again when nobody writes to it"
    if type(error).__name__ == "NoCredentialsError":
        return "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return "the store or the network is failing; the same command goes on where it stopped"
