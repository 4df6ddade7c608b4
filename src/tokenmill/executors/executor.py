"""Executors run tasks; `Engine` opens one by its name."""

import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from tokenmill.base.signals import RESUME_HINT
from tokenmill.base.suggest import one_of
from tokenmill.errors import MissingExtraError, PrepareError

ENGINES = ("local", "ray")

Task = tuple[Any, ...]
Numbered = tuple[int, Task]
"""A task with its number."""
TaskFunction = Callable[..., Any]
"""A function that can be sent elsewhere by its name."""


SizeOf = Callable[[int], int]


def one(number: int) -> int:
    """Return the size of a task where all are alike."""
    return 1


before_results: dict[str, Callable[[], None]] = {}
"""What a process does before it hands over results of tasks: such as to upload receipts."""


def settle() -> None:
    """Do that: the results that are handed over next outlast this process."""
    for do in list(before_results.values()):
        do()


def run_group(function: TaskFunction, group: Iterable[Numbered]) -> list[tuple[int, Any]]:
    """Run some tasks, where an engine has sent them, and see to it that their results last."""
    try:
        return [(number, function(*task)) for number, task in group]
    finally:
        settle()


class Tasks(NamedTuple):
    """All tasks of a stage, whose results are kept."""

    name: str
    function: TaskFunction
    arguments: Sequence[Task]
    missing: Callable[..., list[int]]
    """Numbers of the tasks that were not run before; takes `whose`, a function of a number.

    The files of tasks that `whose` chooses are looked at as well.
    """
    size: SizeOf = one


class Executor:
    """Runs tasks somewhere, in any order, each at least once. A `with` statement closes it."""

    def run(
        self, function: TaskFunction, tasks: Iterable[Numbered], size: SizeOf = one
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number of the task, function(*task)) for all tasks, in the order they finish.

        `size` is how much a task is, by its number: an engine may send several small ones at once.
        """
        raise NotImplementedError

    def get_ready(self, function: TaskFunction, num_tasks: int) -> None:
        """Start what takes time: `num_tasks` tasks of this function will come."""

    def run_missing(self, tasks: Tasks) -> Iterator[tuple[int, Any]]:
        """Yield the same for tasks that were not run before; for the others first, with None."""
        missing = set(tasks.missing())
        yield from done_before(missing, len(tasks.arguments))
        todo = ((n, tasks.arguments[n]) for n in sorted(missing))
        yield from self.run(tasks.function, todo, tasks.size)

    def close(self) -> None:
        """Let go of processes or of the cluster, if it has any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def done_before(missing: Collection[int], num_tasks: int) -> Iterator[tuple[int, None]]:
    """Yield the numbers of the other tasks."""
    return ((number, None) for number in range(num_tasks) if number not in missing)


class WorkerDiedError(PrepareError):
    """The process that ran a task died, again and again; `task` is the number of the task."""

    def __init__(self, who: str, times: int, how: str, function: TaskFunction, task: int) -> None:
        super().__init__(
            f"{who} died {times} times ({how}) at {function.__name__}",
            hint="SIGKILL usually means that memory ran out: lower workers= or "
            f"run=Run(max_ram=...); {RESUME_HINT}",
        )
        self.task = task


@dataclass(frozen=True)
class Engine:
    """Where tasks run, as it was asked for; what cannot be meant is refused."""

    kind: str | Executor = "local"
    workers: int | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.kind, str):
            one_of("engine", self.kind, ENGINES)
        if self.ray_address is not None and self.kind != "ray":
            raise ValueError(
                f'ray_address is {self.ray_address!r}, but engine is {self.kind!r}, not "ray"'
            )
        if self.kind == "ray" and importlib.util.find_spec("ray") is None:
            raise MissingExtraError("the engine ray", package="ray", extra="ray")

    def open(self, processes: int, shared: str) -> Executor:
        """Open `processes` workers here, or a cluster whose machines all see the path `shared`."""
        if isinstance(self.kind, Executor):
            return self.kind
        if self.kind == "ray":
            from tokenmill.executors.ray import RayExecutor

            return RayExecutor(self.ray_address, at_once=self.workers, shared=shared)
        from tokenmill.executors.local import LocalExecutor

        return LocalExecutor(processes)
