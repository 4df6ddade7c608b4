"""SIGTERM stops a command as Ctrl-C does: what was saved stays, and the exit code says so."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Inside, SIGTERM raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
