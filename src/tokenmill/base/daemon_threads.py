"""Threads for requests: the end of a program does not wait for an answer that does not come.

It waits for the threads of a ThreadPoolExecutor: for a store that hangs, until the last retry.
"""

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
_Tasks = SimpleQueue[tuple["Future[Any]", Callable[[], Any]] | None]


class DaemonThreads:
    """Calls functions in at most `limit` threads; what waits is dropped with this object."""

    def __init__(self, limit: int, name: str) -> None:
        self._name = name
        self._tasks: _Tasks = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._to_start = threading.Semaphore(limit)
        weakref.finalize(self, _end, self._tasks, limit).atexit = False

    def submit(self, function: Callable[[], T]) -> "Future[T]":
        """Call a function as soon as a thread is free; the future has its result."""
        future: Future[T] = Future()
        self._tasks.put((future, function))
        if not self._idle.acquire(blocking=False) and self._to_start.acquire(blocking=False):
            given = self._tasks, self._idle
            threading.Thread(target=_work, args=given, name=self._name, daemon=True).start()
        return future


def _work(tasks: _Tasks, idle: threading.Semaphore) -> None:
    while (task := tasks.get()) is not None:
        future, function = task
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function())
            except BaseException as error:  # raised again where the result is asked for
                future.set_exception(error)
        del task, future, function  # the result may be large, and the next task be long in coming
        idle.release()


def _end(tasks: _Tasks, limit: int) -> None:
    with suppress(Empty):
        while True:
            tasks.get_nowait()
    for _ in range(limit):
        tasks.put(None)
