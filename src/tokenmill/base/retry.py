"""Waiting before the next try, and giving up.

Waits double, each shortened at random by up to a half, so that many ranks do not come back
together. What the server asks for with Retry-After is waited for in full.
"""

import email.utils
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from tokenmill.base.signals import RESUME_HINT
from tokenmill.errors import DownloadError, Stopped

LONGEST_RETRY_AFTER = 600.0  # seconds; a server that asks for more is answered with an error
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Retry:
    """When to try again."""

    attempts: int = 8
    """Tries of one request, or of one file."""
    first_wait: float = 1.0
    """Seconds before the second try."""
    longest_wait: float = 60.0
    """Seconds between two tries, at most, unless the server asks for more."""
    timeout: float = 30.0
    """Seconds without an answer or a byte after which a connection is given up."""
    deadline: float | None = None
    """Seconds for the whole call; None sets no limit."""

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; it must be 1 or more")
        for name in ("first_wait", "longest_wait", "timeout"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 0 or more")

    def wait(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row."""
        longest = min(self.longest_wait, self.first_wait * 2.0 ** (failures - 1))
        return longest * random.uniform(0.5, 1.0)


class Transient(Exception):  # noqa: N818 - not an error yet
    """A failure that may not come again; `after` is the seconds the server asked for, if any."""

    def __init__(self, what: str, after: float | None = None) -> None:
        super().__init__(what)
        self.after = after


class RetryClock:
    """The time of one call, shared by its threads; `stop()` ends all their waits."""

    def __init__(self, retry: Retry) -> None:
        self.retry = retry
        seconds = float("inf") if retry.deadline is None else retry.deadline
        self._deadline = time.monotonic() + seconds
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Make every thread of this call stop at its next chunk or wait."""
        self._stopped.set()

    def check(self, what: str) -> None:
        """Raise when the call was stopped or its time is over."""
        if self._stopped.is_set():
            raise Stopped(f"{what}: stopped", hint=RESUME_HINT)
        if time.monotonic() >= self._deadline:
            passed = f"the deadline of {self.retry.deadline:g} s has passed"
            raise DownloadError(f"{what}: {passed}", hint=RESUME_HINT)

    def pause(self, what: str, failures: int, reason: Transient) -> None:
        """Wait before try number `failures + 1`, or raise DownloadError if there is none."""
        wait = max(self.retry.wait(failures), reason.after or 0)
        why = None
        if failures >= self.retry.attempts:
            why = f"tried {failures} times"
        elif wait > max(LONGEST_RETRY_AFTER, self.retry.longest_wait):
            why = f"it asks to wait {wait:g} s"
        elif time.monotonic() + wait > self._deadline:
            why = f"no time is left before the deadline of {self.retry.deadline:g} s"
        if why:
            raise DownloadError(f"{what}: {reason} ({why})", hint=RESUME_HINT)
        self._stopped.wait(wait)
        self.check(what)


def seconds_asked_for(headers: Mapping[str, str]) -> float | None:
    """Seconds that Retry-After (seconds or a date) or the hub's RateLimit header asks to wait."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"\d{1,9}", value):
        return float(value)
    if value:
        try:
            return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
        except ValueError:
            return None
    if match := re.search(r";\s*r=0\s*;\s*t=(\d{1,9})", headers.get("ratelimit", "")):
        return float(match[1])
    return None
