"""What each thread waits for: a wait that takes too long is named in the log."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.base.system import after_fork

if TYPE_CHECKING:
    from tokenmill.base.histogram import Histogram

_waits: set["waiting_for"] = set()  # of all threads
after_fork(_waits.clear)  # their threads are not in the child
_PACKAGE = str(Path(__file__).parents[1])


class waiting_for:  # noqa: N801 - used as `with waiting_for(...)`
    """Says what this thread waits for, text or a function; `times` counts how long it does."""

    def __init__(self, what: str | Callable[[], str], times: "Histogram | None" = None) -> None:
        self.what = what
        self.times = times

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        self.since = time.monotonic()
        _waits.add(self)

    def __exit__(self, *error: object) -> None:
        _waits.discard(self)
        if self.times is not None:
            self.times.add(time.monotonic() - self.since)

    def __str__(self) -> str:
        what = self.what if isinstance(self.what, str) else self.what()
        frame = sys._current_frames().get(self.thread)
        while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        place = f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else ""
        return f"{what}, for {time.monotonic() - self.since:.1f} s{place}"


def log_long_waits(seconds: float) -> bool:
    """Log the waits of this process if one takes `seconds` or more; return True if so."""
    waits = sorted(list(_waits), key=lambda wait: wait.since)
    is_stalled = bool(waits) and time.monotonic() - waits[0].since >= seconds
    if is_stalled:
        text = "; ".join(map(str, waits[:3]))
        logging.getLogger("tokenmill").warning("%d stalled: waiting for %s", len(waits), text)
    return is_stalled
