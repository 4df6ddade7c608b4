"""What each thread waits for: a wait that takes too long can then be named in the log."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_waits: dict[int, tuple[float, str]] = {}  # by thread: since when, and for what
os.register_at_fork(after_in_child=_waits.clear)  # their threads are not in the child
_PACKAGE = str(Path(__file__).parents[1])


@contextmanager
def waiting_for(what: str) -> Iterator[None]:
    """Say what this thread waits for while the block runs."""
    thread = threading.get_ident()
    before = _waits.get(thread)
    _waits[thread] = (time.monotonic(), what)
    try:
        yield
    finally:
        if before is None:
            del _waits[thread]
        else:
            _waits[thread] = before


def long_waits(least: float) -> list[str]:
    """Describe the waits of this process that take `least` seconds or more, longest first."""
    now = time.monotonic()
    waits = sorted((since, what, thread) for thread, (since, what) in list(_waits.items()))
    return [described(w, now - s, thread) for s, w, thread in waits if now - s >= least]


def described(what: str, seconds: float, thread: int | None) -> str:
    """Say for what, for how long, and at which line of tokenmill a thread waits."""
    frame = sys._current_frames().get(thread or 0)
    while frame is not None and not frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    where = "" if frame is None else f" at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return f"{what} for {seconds:.1f} s{where}"
