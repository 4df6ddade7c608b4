"""A request to stop (SIGTERM, Ctrl-C) ends the work in order, so that it can be resumed later."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from tokenmill.errors import Stopped

RESUME_HINT = "the same command resumes where it stopped"

Handler = Callable[[int, FrameType | None], None]
if sys.platform == "win32":  # Ctrl-Break is for a group of processes what SIGTERM is elsewhere
    STOPPING: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT, signal.SIGBREAK)
    WARNING: tuple[signal.Signals, ...] = ()
else:
    STOPPING = (signal.SIGTERM, signal.SIGINT)
    WARNING = (signal.SIGUSR1,)


@contextmanager
def handle_signals(numbers: Sequence[signal.Signals], handler: Handler) -> Iterator[dict[int, Any]]:
    """Inside, these signals call `handler`; yields the handlers that were there before.

    In other threads than the main one nothing changes: Python lets only that one handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield before
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first SIGTERM or SIGINT into `Stopped`; a second one ends the process."""

    def stop(number: int, _: FrameType | None) -> None:
        for handled in STOPPING:
            signal.signal(handled, signal.SIG_DFL)
        raise Stopped(f"stopped by {signal.Signals(number).name}", hint=RESUME_HINT)

    with handle_signals(STOPPING, stop):
        yield


class Interrupted(KeyboardInterrupt):
    """A signal asked to stop. Python itself ends a process by the signal, even after the exception
    was caught, if it is KeyboardInterrupt and meets one of the many `exec` of an import."""


def _interrupt(number: int, _: FrameType | None) -> None:
    raise Interrupted


interrupt_on_signals = partial(handle_signals, STOPPING, _interrupt)
"""Inside, SIGTERM and SIGINT (Ctrl-C) raise KeyboardInterrupt, so that files are cleaned up."""


@dataclass
class StopRequest:
    """Request of a signal to stop the work."""

    asked: str | None = None
    """Name of the signal; None if there was none."""


@contextmanager
def listen_for_stop() -> Iterator[StopRequest]:
    """Inside, SIGTERM, SIGINT and SIGUSR1 set `asked`; a second one ends the process as usual.

    SIGUSR1 is what Slurm sends ahead of a time limit (`--signal=B:USR1@60`).
    """
    request = StopRequest()

    def note(number: int, _: FrameType | None) -> None:
        if request.asked is not None:
            signal.signal(number, before[number])
            signal.raise_signal(number)
        request.asked = signal.Signals(number).name

    with handle_signals((*STOPPING, *WARNING), note) as before:
        yield request
