"""The threads that wait for stores: as many as there may be requests in progress.

Main threads wait for futures, which Ctrl-C can end. When Python ends, requests that have not begun
are dropped and the others are waited for: a thread inside obstore must not outlive the interpreter.
"""

import atexit
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

CONNECTIONS = 64
"""Requests in progress at the same time, in a process."""
FILES_AT_ONCE = 4
"""Files that are fetched ahead at the same time, in a process."""

Result = TypeVar("Result")
Work = tuple["Future[Any]", Callable[[], Any]]


class RequestThreads:
    """Threads that run functions in the order in which they come; made when needed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ended = False
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Result]) -> "Future[Result]":
        """Run this soon."""
        answer: Future[Result] = Future()
        self._queue.put((answer, work))
        if not self._idle.acquire(blocking=False):
            self._add_thread()
        return answer

    def end(self) -> None:
        """Drop what has not begun; wait for the rest."""
        self._ended = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _add_thread(self) -> None:
        with self._lock:
            if len(self._threads) < self._size:
                thread = threading.Thread(target=self._run, name="tokenmill-request", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while (request := self._queue.get()) is not None and not self._ended:
            answer, work = request
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(work())
                except BaseException as error:
                    answer.set_exception(error)
            del answer, work, request  # not kept while waiting
            self._idle.release()


_of_process: dict[tuple[int, int], RequestThreads] = {}


def request_threads() -> RequestThreads:
    """The threads of this process that send requests; a fork makes its own."""
    return _threads(CONNECTIONS)


def file_threads() -> RequestThreads:
    """The threads of this process that fetch files ahead, by requests."""
    return _threads(FILES_AT_ONCE)


def _threads(size: int) -> RequestThreads:
    key = (os.getpid(), size)
    if key not in _of_process:
        for old in [old for old in list(_of_process) if old[0] != key[0]]:
            _of_process.pop(old, None)
        _of_process.setdefault(key, RequestThreads(size))
    return _of_process[key]


@atexit.register
def _end() -> None:
    for size in (FILES_AT_ONCE, CONNECTIONS):
        if (threads := _of_process.get((os.getpid(), size))) is not None:
            threads.end()
