"""One client a process, and the one place where requests are repeated.

A request that fails for a reason that may not come again (503, 429, a timeout, a cut connection, a
body that is too short or of another range) is sent again, as `RETRY` says. All other failures, and
the last one, become a DownloadError that names bucket and key.

Clients are not carried over a fork: a new process makes its own.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from tokenmill.base.retry import TRANSIENT_STATUS, Retry, Transient, seconds_asked_for
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError, MissingExtraError
from tokenmill.storage.address import split

RETRY = Retry(attempts=6, first_wait=0.2, longest_wait=20.0)

_TRANSIENT_CODES = {"SlowDown", "RequestTimeout", "BadDigest", "IncompleteBody", "InternalError"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestTimeTooSkewed", "TokenRefreshRequired"}
_REFUSED = "these credentials may not do that; check AWS_PROFILE or the AWS_* variables"
_HINTS = {
    401: _REFUSED,
    403: _REFUSED,
    404: "check the name of the bucket and the key, and AWS_ENDPOINT_URL where one is set",
    412: "the object was replaced meanwhile; give the command again when nobody writes to it",
}

Result = TypeVar("Result")
Operation = Callable[[Any], Awaitable[Result]]
_filesystems: dict[int, Any] = {}


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
                "connect_timeout": RETRY.timeout,
                "read_timeout": RETRY.timeout,
                # Look-alikes of S3 answer a range with the checksum of the whole object.
                "response_checksum_validation": "when_required",
                "request_checksum_calculation": "when_required",
            },
        )
    return _filesystems[pid]


def call(operation: Operation[Result], what: str, address: str) -> Result:
    """Wait for an operation on the client, repeating it where that can help."""
    return begin(operation, what, address).result()


def begin(operation: Operation[Result], what: str, address: str) -> "Future[Result]":
    """Start an operation; a future of its result."""
    coroutine = _repeat(operation, what, address)
    return asyncio.run_coroutine_threadsafe(coroutine, filesystem().loop)


async def _repeat(operation: Operation[Result], what: str, address: str) -> Result:
    """Run an operation until it succeeds, fails for good, or has failed too often."""
    fs, attempt, refreshed = filesystem(), 0, False
    while True:
        attempt += 1
        try:
            return await operation(await fs.set_session())
        except DownloadError:
            raise
        except Exception as error:
            code, status = code_and_status(error)
            if code in _EXPIRED and not refreshed:
                refreshed = True
                await fs.set_session(refresh=True)
                continue
            if not _is_transient(error, code, status) or attempt >= RETRY.attempts:
                raise _failed(what, address, error, code, status, attempt) from None
            metadata = _answer(error).get("ResponseMetadata", {})
            asked = seconds_asked_for(metadata.get("HTTPHeaders", {})) or 0.0
        await asyncio.sleep(max(RETRY.wait(attempt), min(RETRY.longest_wait, asked)))


async def within_timeout(request: Awaitable[Result], seconds: float = 0.0) -> Result:
    """The answer to one request, or TimeoutError; `seconds` more where much is sent."""
    return await asyncio.wait_for(request, RETRY.timeout + seconds)


def code_and_status(error: BaseException) -> tuple[str, int]:
    """The code and the status of an answer; ("", 0) where there was none."""
    answer = _answer(error)
    code = answer.get("Error", {}).get("Code", "")
    return str(code), int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)


def _answer(error: BaseException) -> dict[str, Any]:
    answer = getattr(error, "response", None)
    return answer if isinstance(answer, dict) else {}


def _is_transient(error: BaseException, code: str, status: int) -> bool:
    if status:
        return status in TRANSIENT_STATUS or code in _TRANSIENT_CODES
    from botocore import exceptions  # type: ignore[import-untyped]

    if isinstance(error, (exceptions.NoCredentialsError, exceptions.ParamValidationError)):
        return False
    passing = (Transient, OSError, asyncio.TimeoutError, exceptions.BotoCoreError)
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, passing) or library in ("aiohttp", "httpx", "urllib3")


def _failed(
    what: str, address: str, error: BaseException, code: str, status: int, attempts: int
) -> DownloadError:
    bucket, key = split(address)
    reason = f"{status} {code}".strip() if status else str(error) or type(error).__name__
    tried = f" ({attempts} attempts)" if attempts > 1 else ""
    if type(error).__name__ == "NoCredentialsError":
        hint = "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    else:
        hint = _HINTS.get(status, f"the store or the network is failing; {RESUME_HINT}")
    return DownloadError(f"cannot {what} {key!r} in bucket {bucket!r}: {reason}{tried}", hint=hint)
