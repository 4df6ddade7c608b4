"""Several files at a time: threads that stop together, and one meter for all of them."""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from tokenmill.base.human import human_bytes, plural
from tokenmill.base.progress import Progress
from tokenmill.base.retry import RetryClock
from tokenmill.errors import Stopped
from tokenmill.hub.remote_files import HubFile

T = TypeVar("T")
SECONDS_TO_STOP = 2.0  # that threads get after Ctrl-C


class Transfers:
    """The progress of all files, as one meter of bytes."""

    def __init__(self, progress: Progress, files: list[HubFile]) -> None:
        total = sum(file.num_bytes for file in files)
        self.say = progress.say
        self._num_files = len(files)
        self._num_done = 0
        self._lock = threading.Lock()
        self.say(f"fetching {plural(len(files), 'file')}, {human_bytes(total)}")
        self._meter = progress.begin(self._title(), total, in_bytes=True)

    def advance(self, num_bytes: int) -> None:
        """More bytes have arrived."""
        with self._lock:
            self._meter.advance(num_bytes)

    def skip(self, num_bytes: int) -> None:
        """Bytes were here before or, below 0, have to come again."""
        with self._lock:
            self._meter.skip(num_bytes)

    def end(self, file: HubFile) -> None:
        """A file has arrived complete and correct."""
        with self._lock:
            self._num_done += 1
            self._meter.what = self._title()
            count = f"[{self._num_done}/{self._num_files}]"
        self.say(f"{count} {file.path}  {human_bytes(file.num_bytes)}, hash checked")

    def _title(self) -> str:
        return f"{self._num_done} of {plural(self._num_files, 'file')}"


def in_parallel(
    work: Callable[[T], None], items: Iterable[T], workers: int, clock: RetryClock
) -> None:
    """Do the work for every item; the first failure, or Ctrl-C, stops all and is raised.

    Plain threads rather than an executor: an executor waits for its threads before the process may
    end, and one that reads from a dead connection notices nothing for a whole timeout.
    """
    todo = iter(list(items))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run() -> None:
        while True:
            with lock:
                item = next(todo, None)
            if item is None or errors:
                return
            try:
                work(item)
            except BaseException as error:  # raised again by the caller
                errors.append(error)
                clock.stop()

    threads = [
        threading.Thread(target=run, daemon=True, name=f"tokenmill-{i}") for i in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        clock.stop()
        for thread in threads:
            thread.join(SECONDS_TO_STOP / len(threads))
        raise
    for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
        raise error  # the cause before those that it stopped
