"""SIGTERM, SIGINT and SIGUSR1 ask a run to save and stop; a second one ends it at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

# SIGUSR1 is what Slurm sends ahead of a time limit (`--signal=B:USR1@60`).
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)


class StopRequest:
    """A context in which these signals set `.asked` instead of ending the process."""

    def __init__(self) -> None:
        self.asked: str | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets only the main thread listen
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked is not None:  # the second time: as if we were not here
            signal.signal(number, self._before[number])
            signal.raise_signal(number)
        self.asked = signal.Signals(number).name

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
