"""Requests of a forked process: sent by a helper process, since obstore does not survive a fork.

A worker of torch's DataLoader is such a process: its parent opened the dataset, so obstore ran
there, and the threads of obstore are not in the copy. The first request starts the helper. It ends
when its standard input does: with the process that started it.
"""

import itertools
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any

from tokenmill.stores import store_requests
from tokenmill.stores.request_threads import CONNECTIONS
from tokenmill.stores.store_requests import StoreFailure

_SIZE = 8
_helpers: dict[int, "Helper"] = {}
_starting = threading.Lock()


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()  # another thread may have held it while we were forked


os.register_at_fork(after_in_child=_renew_lock)


def is_needed() -> bool:
    """Whether obstore ran in a process that this one was forked from."""
    return store_requests.native_pid not in (None, os.getpid())


def send(name: str, *args: Any) -> Any:
    """What the request of this name in store_requests.py returns or raises."""
    with _starting:
        helper = _helpers.get(os.getpid())
        if helper is None or not helper.is_alive:
            _helpers.clear()
            helper = _helpers[os.getpid()] = Helper()
    return helper.send(name, args)


class Helper:
    """A process that sends requests for this one."""

    def __init__(self) -> None:
        # The path of modules is that of this process, however it came about.
        code = (
            f"import sys; sys.path[:] = {sys.path!r}; "
            "from tokenmill.stores.forked_requests import serve; serve()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._numbers, self._waiting = itertools.count(), dict[int, "Future[Any]"]()
        self._lock, self.is_alive = threading.Lock(), True
        threading.Thread(target=self._listen, name="tokenmill-helper", daemon=True).start()

    def send(self, name: str, args: tuple[Any, ...]) -> Any:
        """Wait for the answer to one request."""
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = answer
            assert self._process.stdin is not None
            try:
                _write(self._process.stdin, (number, name, args))
            except OSError:
                self.is_alive = False
        if not self.is_alive:
            raise StoreFailure("failed", text="the process that sends requests ended")
        return answer.result()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while (message := _read(self._process.stdout)) is not None:
            number, result, error = message
            answer = self._waiting.pop(number)
            answer.set_exception(error) if error is not None else answer.set_result(result)
        self.is_alive = False
        while self._waiting:
            lost = StoreFailure("failed", text="the process that sends requests ended")
            self._waiting.popitem()[1].set_exception(lost)


def serve() -> None:
    """The helper: answer requests from standard input until it ends."""
    answers, lock = os.fdopen(os.dup(1), "wb"), threading.Lock()
    os.dup2(2, 1)  # what a library prints must not get between the answers

    def answer(number: int, name: str, args: tuple[Any, ...]) -> None:
        result, error = None, None
        try:
            result = getattr(store_requests, name)(*args)
        except Exception as failed:
            error = failed
        with lock:
            _write(answers, (number, result, error))

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        while (request := _read(sys.stdin.buffer)) is not None:
            threads.submit(answer, *request)


def _write(pipe: IO[bytes], message: Any) -> None:
    data = pickle.dumps(message)
    pipe.write(len(data).to_bytes(_SIZE, "little") + data)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Any:
    size = pipe.read(_SIZE)
    return pickle.loads(pipe.read(int.from_bytes(size, "little"))) if len(size) == _SIZE else None
