"""One client a process, and the one place where requests are repeated.

A request that fails for a reason that may not come again (503, 429, a timeout, a cut connection, a
body that is too short or of another range) is sent again, as `RETRY` says. All other failures, and
the last one, become a DownloadError that names bucket and key.

Clients are not carried over a fork: a new process makes its own.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tokenmill.base.retry import TRANSIENT_STATUS, Retry, Transient, seconds_asked_for
from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError, MissingExtraError
from tokenmill.storage.address import split

RETRY = Retry(attempts=6, first_wait=0.2, longest_wait=20.0)

_TRANSIENT_CODES = {"SlowDown", "RequestTimeout", "BadDigest", "IncompleteBody", "InternalError"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestTimeTooSkewed", "TokenRefreshRequired"}

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
    from fsspec.asyn import sync

    result: Result = sync(filesystem().loop, repeat, operation, what, address)
    return result


def begin(operation: Operation[Result], what: str, address: str) -> "Any":
    """Start an operation; a future of its result."""
    coroutine = repeat(operation, what, address)
    return asyncio.run_coroutine_threadsafe(coroutine, filesystem().loop)


def is_encrypted(s3: Any) -> bool:
    """Whether TLS makes sure that what arrives is what was sent."""
    return str(s3.meta.endpoint_url).startswith("https://")


async def repeat(operation: Operation[Result], what: str, address: str) -> Result:
    """Run an operation until it succeeds, fails for good, or has failed too often."""
    fs = filesystem()
    refreshed = False
    for attempt in range(1, RETRY.attempts + 1):
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
            if not _is_transient(error, code, status) or attempt == RETRY.attempts:
                raise _failed(what, address, error, code, status, attempt) from None
            asked = seconds_asked_for(_metadata(error).get("HTTPHeaders", {})) or 0.0
        await asyncio.sleep(max(RETRY.wait(attempt), min(RETRY.longest_wait, asked)))
    raise AssertionError("unreachable")


async def within_timeout(request: Awaitable[Result], seconds: float = 0.0) -> Result:
    """The answer to one request, or TimeoutError; `seconds` more where much is sent."""
    return await asyncio.wait_for(request, RETRY.timeout + seconds)


def code_and_status(error: BaseException) -> tuple[str, int]:
    """The code and the status of an answer; ("", 0) where there was none."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return str(code), int(_metadata(error).get("HTTPStatusCode", 0) or 0)


def _metadata(error: BaseException) -> dict[str, Any]:
    response = getattr(error, "response", None)
    return response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}


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
    return f"the store or the network is failing; {RESUME_HINT}"
