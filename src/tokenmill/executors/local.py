"""Run tasks in processes of this machine.

Workers are fresh interpreters that talk over a socket pair: nothing is forked (safe next to
threads), the caller's script is not imported again (no `if __name__ == "__main__"` needed), and a
worker that dies is noticed immediately. Its task, which must be harmless if run twice, is given to
a new one, up to `ATTEMPTS` times. A worker that hangs is waited for: a task may take hours.
"""

import atexit
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tokenmill.executors.executor import (
    Executor,
    Numbered,
    SizeOf,
    TaskFunction,
    WorkerDiedError,
    one,
    settle,
)

if TYPE_CHECKING:
    from tokenmill.executors.worker_process import WorkerProcess

ATTEMPTS = 3
_early: "list[WorkerProcess]" = []


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

    def run(
        self, function: TaskFunction, tasks: Iterable[Numbered], size: SizeOf = one
    ) -> Iterator[tuple[int, Any]]:
        if self.workers == 1:
            yield from self._run_here(function, tasks)
            return
        try:
            yield from self._run(function, iter(tasks))
        except BaseException:
            self.close()
            raise

    def _run_here(
        self, function: TaskFunction, tasks: Iterable[Numbered]
    ) -> Iterator[tuple[int, Any]]:
        settled = time.monotonic()
        try:
            for number, task in tasks:
                result = function(*task)
                if time.monotonic() - settled > 1:
                    settle()
                    settled = time.monotonic()
                yield number, result
        finally:
            settle()

    def _run(self, function: TaskFunction, tasks: Iterator[Numbered]) -> Iterator[tuple[int, Any]]:
        """Run tasks; the next one is asked for when a worker is free."""
        from multiprocessing.connection import wait

        again: list[Numbered] = []
        deaths: Counter[int] = Counter()  # by the number of the task
        idle = list(self._pool)
        busy: dict[Any, tuple[WorkerProcess, Numbered]] = {}
        while True:
            while len(busy) < self.workers:
                numbered = again.pop() if again else next(tasks, None)
                if numbered is None:
                    break
                if not idle:
                    self._pool.append(_start_worker())
                    idle.append(self._pool[-1])
                worker = idle.pop()
                with suppress(ConnectionError):  # it died idle: that shows when its answer is read
                    worker.connection.send((function, numbered[1]))
                busy[worker.connection] = worker, numbered
            if not busy:
                return
            for ready in wait(list(busy)):
                worker, (number, task) = busy.pop(ready)
                try:
                    failed, value = worker.connection.recv()
                except (EOFError, ConnectionError):
                    self._pool.remove(worker)
                    how = worker.stop()
                    deaths[number] += 1
                    if deaths[number] == ATTEMPTS:
                        who = "a worker process"
                        raise WorkerDiedError(who, ATTEMPTS, how, function, number) from None
                    again.append((number, task))
                    continue
                idle.append(worker)
                if failed:
                    raise value
                yield number, value

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
