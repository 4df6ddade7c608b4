"""The threads that wait for stores: so many requests are under way at once, the most urgent first.

Main threads wait for futures, which Ctrl-C can end. When Python ends, what has not begun is dropped
and what is under way is waited for: a thread inside obstore must not outlive the interpreter.
"""

import atexit
import itertools
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

CONNECTIONS = 64
"""Requests under way at once, in a process."""
FILES_AT_ONCE = 4
"""Files that are fetched ahead at once, in a process."""
NOW = 0.0
"""The deadline of what somebody waits for."""

Result = TypeVar("Result")
Work = tuple[float, int, "Future[Any]", Callable[[], Any]]


class RequestThreads:
    """Threads that run functions by deadline; at most `size` of them, made when needed."""

    def __init__(self, size: int = CONNECTIONS) -> None:
        self.size = size
        self.ended = threading.Event()
        self._numbers = itertools.count()
        self._queue: queue.PriorityQueue[Work] = queue.PriorityQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Result], deadline: float = NOW) -> "Future[Result]":
        """Run this soon; what has the smaller deadline goes first, then what came first."""
        answer: Future[Result] = Future()
        self._queue.put((deadline, next(self._numbers), answer, work))
        if not self._idle.acquire(blocking=False):
            self._add_thread()
        return answer

    def end(self) -> None:
        """Drop what has not begun; wait for the rest."""
        self.ended.set()
        for _ in self._threads:
            self._queue.put((float("-inf"), next(self._numbers), Future(), lambda: None))
        for thread in self._threads:
            thread.join()

    def _add_thread(self) -> None:
        with self._lock:
            if len(self._threads) < self.size:
                thread = threading.Thread(target=self._run, name="tokenmill-request", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while True:
            _, _, answer, work = self._queue.get()
            if self.ended.is_set():
                return
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except BaseException as error:
                    answer.set_exception(error)
            del answer, work  # not kept while waiting
            self._idle.release()


_of_process: dict[tuple[int, str], RequestThreads] = {}


def request_threads() -> RequestThreads:
    """Those of this process that send requests; a fork makes its own."""
    return _threads("requests", CONNECTIONS)


def file_threads() -> RequestThreads:
    """Those of this process that fetch files ahead, by requests."""
    return _threads("files", FILES_AT_ONCE)


def _threads(kind: str, size: int) -> RequestThreads:
    pid = os.getpid()
    found = _of_process.get((pid, kind))
    if found is None:
        for key in [key for key in list(_of_process) if key[0] != pid]:
            _of_process.pop(key, None)
        found = _of_process.setdefault((pid, kind), RequestThreads(size))
    return found


@atexit.register
def _end() -> None:
    for kind in ("files", "requests"):
        if (found := _of_process.get((os.getpid(), kind))) is not None:
            found.end()
