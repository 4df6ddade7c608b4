"""A polite request to stop (SIGTERM, or Ctrl-C) ends the work so that it can go on later."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tokenmill.errors import Stopped


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first SIGTERM or SIGINT into `Stopped`; a second one ends the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, _: Any) -> None:
        for known in before:
            signal.signal(known, signal.SIG_DFL)
        raise Stopped(
            f"stopped by {signal.Signals(number).name}",
            hint="the same command goes on where it stopped",
        )

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
