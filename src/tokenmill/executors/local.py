"""Run tasks in processes of this machine.

A task is (function, arguments): the function importable, the arguments small. Workers are fresh
interpreters that talk over a socket pair: nothing is forked (safe beside threads), the caller's
script is not imported again (no `if __name__ == "__main__"` needed), and a worker that dies is
noticed at once, together with the task it had. Tasks must be harmless if run twice: a task whose
worker died is given to a new one, up to `ATTEMPTS` times.

A worker that hangs (in a network filesystem that does not answer) is waited for: a task may take
hours, since a compressed file is one. SIGTERM or Ctrl-C ends it with the run, and the same command
resumes.
"""

import os
import signal
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill.executors.executor import ClosedAtExit, Task, TaskFunction, WorkerDiedError

ATTEMPTS = 3

# Tasks allocate and free the same few megabytes over and over; handing each back to the kernel
# and asking for it again, zeroed, took a fifth of the time. glibc reads these when it starts.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(256 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


class LocalExecutor(ClosedAtExit):
    """A fixed number of worker processes; with one worker, tasks run in this process."""

    def __init__(self, workers: int) -> None:
        if workers < 1:
            raise ValueError(f"workers is {workers}, but at least 1 is needed")
        self.workers = workers
        self._pool: list[_Worker] = []

    def run(self, function: TaskFunction, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the task, function(*task)) for all tasks, in the order they finish."""
        if self.workers == 1:
            for number, task in enumerate(tasks):
                yield number, function(*task)
            return
        waiting = deque(_Job(number, task) for number, task in enumerate(tasks))
        try:
            yield from self._run(function, waiting)
        except BaseException:
            self.close()
            raise

    def _run(self, function: TaskFunction, waiting: "deque[_Job]") -> Iterator[tuple[int, Any]]:
        while len(self._pool) < min(self.workers, len(waiting)):
            self._pool.append(_Worker())
        busy: dict[Connection, _Worker] = {}
        while waiting or busy:
            for worker in self._pool:
                if waiting and worker.job is None:
                    worker.give(function, waiting.popleft())
                    busy[worker.connection] = worker  # one that died meanwhile is ready at once
            for ready in wait(list(busy)):
                worker = busy.pop(ready)  # type: ignore[call-overload]
                job, worker.job = worker.job, None
                assert job is not None
                try:
                    failed, value = worker.connection.recv()
                except (EOFError, ConnectionError):
                    code = worker.stop()
                    self._pool[self._pool.index(worker)] = _Worker()
                    if job.attempt == ATTEMPTS:
                        raise _died(function, job, code) from None
                    waiting.appendleft(_Job(job.number, job.task, job.attempt + 1))
                    continue
                if failed:
                    raise value
                yield job.number, value

    def close(self) -> None:
        """End all workers at once; what they had half written is lost."""
        for worker in self._pool:
            worker.stop()
        self._pool.clear()


class _Job(NamedTuple):
    number: int
    task: Task
    attempt: int = 1


class _Worker:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        source = str(Path(__file__).parents[2])
        inherited = os.environ.get("PYTHONPATH")
        self.process = subprocess.Popen(
            # -P: files of the current folder must not shadow modules
            [sys.executable, "-P", "-m", "tokenmill.executors.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={
                **KEEP_FREED_MEMORY,
                **os.environ,
                "PYTHONPATH": source if not inherited else source + os.pathsep + inherited,
            },
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self.job: _Job | None = None

    def give(self, function: TaskFunction, job: _Job) -> None:
        self.job = job
        with suppress(ConnectionError):  # it died idle: that shows when its answer is read
            self.connection.send((function, job.task))

    def stop(self) -> int:
        self.connection.close()
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()


def _died(function: TaskFunction, job: _Job, code: int) -> WorkerDiedError:
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return WorkerDiedError(
        f"a worker process died {ATTEMPTS} times ({how}) at {function.__name__}", task=job.number
    )
