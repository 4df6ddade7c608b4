"""Run tasks in processes of this machine.

A task is (function, arguments): the function importable, the arguments small. Workers are fresh
interpreters that talk over a socket pair: nothing is forked (safe beside threads), the caller's
script is not imported again (no `if __name__ == "__main__"` needed), and a worker that dies is
noticed immediately, with the task it had. Tasks must be harmless if run twice: a task whose worker
died is given to a new one, up to `ATTEMPTS` times.

A worker that hangs (in a network filesystem that does not answer) is waited for: a task may take
hours, since a compressed file is one. SIGTERM or Ctrl-C ends it with the run, and the same command
resumes.
"""

import atexit
import functools
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.executors.executor import Executor, Numbered, Task, TaskFunction, WorkerDiedError

ATTEMPTS = 3

# Tasks allocate and free the same few megabytes over and over; handing each back to the kernel
# and asking for it again, zeroed, took a fifth of the time. glibc reads these when it starts.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

# NumPy's threads for linear algebra wait for work by spinning; no task has any for them.
NO_BLAS_THREADS = {"OPENBLAS_NUM_THREADS": "1"}

# Where AMD's Zen 4 sorts with AVX-512, it takes five times as long as with AVX2: NumPy stores
# compressed vectors, which are slow there. These are the names of AVX-512 in NumPy's releases.
SORT_WITH_AVX2 = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX"}
ZEN_4 = re.compile(rb"AuthenticAMD\ncpu family\t: 25\n")


class _Attempt(NamedTuple):
    number: int
    task: Task
    tries: int
    """From 1 on."""


def _first_attempt(tasks: Iterator[Numbered]) -> _Attempt | None:
    for number, task in tasks:
        return _Attempt(number, task, 1)
    return None


class LocalExecutor(Executor):
    """A fixed number of worker processes; with one worker, tasks run in this process."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers is {workers}, but at least 1 is needed")
        self.workers = workers
        self._pool: list[_Worker] = []

    def get_ready(self, function: TaskFunction, num_tasks: int) -> None:
        """Start workers, which import while the caller does other things."""
        wanted = min(self.workers, num_tasks) if self.workers > 1 else 0
        self._pool += [_early.pop() if _early else _Worker() for _ in range(wanted)]
        _end_early()
        for worker in self._pool:
            worker.connection.send((function, None))

    def run(self, function: TaskFunction, tasks: Iterable[Numbered]) -> Iterator[tuple[int, Any]]:
        if self.workers == 1:
            for number, task in tasks:
                yield number, function(*task)
            return
        try:
            yield from self._run(function, iter(tasks))
        except BaseException:
            self.close()
            raise

    def _run(self, function: TaskFunction, tasks: Iterator[Numbered]) -> Iterator[tuple[int, Any]]:
        """Run tasks; the next one is asked for when a worker is free."""
        again: list[_Attempt] = []
        idle = list(self._pool)
        busy: dict[Any, tuple[_Worker, _Attempt]] = {}
        while True:
            while len(busy) < self.workers:
                attempt = again.pop() if again else _first_attempt(tasks)
                if attempt is None:
                    break
                worker = idle.pop() if idle else self._add_worker()
                with suppress(ConnectionError):  # it died idle: that shows when its answer is read
                    worker.connection.send((function, attempt.task))
                busy[worker.connection] = worker, attempt
            if not busy:
                return
            for ready in wait(list(busy)):
                worker, attempt = busy.pop(ready)
                try:
                    failed, value = worker.connection.recv()
                except (EOFError, ConnectionError):
                    self._pool.remove(worker)
                    how = worker.stop()
                    if attempt.tries == ATTEMPTS:
                        raise WorkerDiedError(
                            "a worker process", ATTEMPTS, how, function, attempt.number
                        ) from None
                    again.append(attempt._replace(tries=attempt.tries + 1))
                    continue
                idle.append(worker)
                if failed:
                    raise value
                yield attempt.number, value

    def _add_worker(self) -> "_Worker":
        self._pool.append(_Worker())
        return self._pool[-1]

    def close(self) -> None:
        """End all workers; what they had half written is lost."""
        for worker in self._pool:
            worker.stop()
        self._pool.clear()


def start_early(workers: int, module: str) -> None:
    """Start workers, which import this module while their caller still imports what it needs.

    The next executor uses them, or ends those that it does not need.
    """
    if not _early:
        atexit.register(_end_early)
    _early.extend(_Worker(module) for _ in range(workers))


def _end_early() -> None:
    while _early:
        _early.pop().stop()


@functools.cache
def _is_zen_4() -> bool:
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            return ZEN_4.search(file.read(1 << 12)) is not None
    except OSError:
        return False


class _Worker:
    def __init__(self, *modules: str) -> None:
        ours, theirs = socket.socketpair()
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]
        self.process = subprocess.Popen(
            # -P: files of the current folder must not shadow modules
            [
                sys.executable,
                "-P",
                "-m",
                "tokenmill.executors.worker",
                str(theirs.fileno()),
                *modules,
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={
                **KEEP_FREED_MEMORY,
                **NO_BLAS_THREADS,
                **(SORT_WITH_AVX2 if _is_zen_4() else {}),
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path for path in paths if path),
            },
        )
        theirs.close()
        self.connection = Connection(ours.detach())

    def stop(self) -> str:
        """End the process, if it has not ended by itself; return how it ended."""
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        code = self.process.wait()
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


_early: list[_Worker] = []
