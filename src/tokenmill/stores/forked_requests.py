"""Requests of a forked process: sent by a helper process, since obstore does not survive a fork.

A worker of torch's DataLoader is such a process: its parent opened the dataset, so obstore ran
there, and the threads of obstore are not in the copy. The first request starts the helper. It ends
when the connection to it does: with the process that started it.
"""

import itertools
import os
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

from tokenmill.stores import store_requests
from tokenmill.stores.request_threads import CONNECTIONS
from tokenmill.stores.store_requests import StoreFailure

_helpers: dict[int, "Helper"] = {}
_starting = threading.Lock()


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()  # another thread may have held it while we were forked


os.register_at_fork(after_in_child=_renew_lock)


def is_needed() -> bool:
    """Return True if obstore ran in a process that this one was forked from."""
    return store_requests.native_pid not in (None, os.getpid())


def send(name: str, *args: Any) -> Any:
    """Result of the request of this name in store_requests.py, or its error."""
    with _starting:
        helper = _helpers.get(os.getpid())
        if helper is None or not helper.is_alive:
            _helpers.clear()
            helper = _helpers[os.getpid()] = Helper()
    return helper.send(name, args)


class Helper:
    """A process that sends requests for this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # The path of modules is that of this process, however it came about.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            f"from tokenmill.stores.forked_requests import serve; serve({theirs.fileno()})"
        )
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
            )
        self._pipe = Connection(ours.detach())
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self.is_alive = True
        threading.Thread(target=self._listen, name="tokenmill-helper", daemon=True).start()

    def send(self, name: str, args: tuple[Any, ...]) -> Any:
        """Wait for the answer to one request."""
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            try:
                self._pipe.send((number, name, args))
            except OSError:
                self.is_alive = False
        if not self.is_alive:
            raise _ended()
        return answer.result()

    def _listen(self) -> None:
        try:
            while True:
                number, result, error = self._pipe.recv()
                answer = self._waiting.pop(number)
                answer.set_exception(error) if error is not None else answer.set_result(result)
        except (EOFError, OSError):
            self.is_alive = False
        while self._waiting:
            self._waiting.popitem()[1].set_exception(_ended())


def _ended() -> StoreFailure:
    return StoreFailure("wrong", text="the process that sends requests ended")


def serve(connection: int) -> None:
    """The helper: answer requests until the other end closes."""
    pipe = Connection(connection)
    lock = threading.Lock()

    def answer(number: int, name: str, args: tuple[Any, ...]) -> None:
        result = error = None
        try:
            result = store_requests.send(name, *args)
        except Exception as failed:
            error = failed
        with lock:
            pipe.send((number, result, error))

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        while True:
            try:
                threads.submit(answer, *pipe.recv())
            except (EOFError, OSError):
                return
