"""Run tasks in processes of this machine.

A task is (function, arguments): the function importable, the arguments small. Workers are fresh
interpreters that talk over a socket pair: nothing is forked (safe next to threads), the caller's
script is not imported again (no `if __name__ == "__main__"` needed), and a worker that dies is
noticed immediately, with the task it had. Tasks must be harmless if run twice: a task whose worker
died is given to a new one, up to `ATTEMPTS` times.

A worker that hangs (in a network filesystem that does not answer) is waited for: a task may take
hours, since a compressed file is one. SIGTERM or Ctrl-C ends it with the run, and the same command
resumes.
"""

import atexit
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmill.executors.executor import Executor, Numbered, Task, TaskFunction, WorkerDiedError

if TYPE_CHECKING:
    from tokenmill.executors.worker_process import WorkerProcess

ATTEMPTS = 3
_early: "list[WorkerProcess]" = []


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
        self._pool: list[WorkerProcess] = []

    def get_ready(self, function: TaskFunction, num_tasks: int) -> None:
        """Start workers, which import while the caller does other things."""
        wanted = min(self.workers, num_tasks) if self.workers > 1 else 0
        self._pool += [_early.pop() if _early else _start_worker() for _ in range(wanted)]
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
        from multiprocessing.connection import wait

        again: list[_Attempt] = []
        idle = list(self._pool)
        busy: dict[Any, tuple[WorkerProcess, _Attempt]] = {}
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

    def _add_worker(self) -> "WorkerProcess":
        self._pool.append(_start_worker())
        return self._pool[-1]

    def close(self) -> None:
        """End all workers; what they had half written is lost."""
        for worker in self._pool:
            worker.stop()
        self._pool.clear()


def _start_worker(*modules: str) -> "WorkerProcess":
    from tokenmill.executors.worker_process import WorkerProcess  # 10 ms, for several workers only

    return WorkerProcess(*modules)


def start_early(workers: int, module: str) -> None:
    """Start workers, which import this module while their caller still imports what it needs.

    The next executor uses them, or ends those that it does not need.
    """
    if not _early:
        atexit.register(_end_early)
    _early.extend(_start_worker(module) for _ in range(workers))


def _end_early() -> None:
    while _early:
        _early.pop().stop()
