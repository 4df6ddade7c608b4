"""What an executor is: something that runs tasks. And which there are, by name."""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from tokenmill.base.signals import RESUME_HINT
from tokenmill.base.suggest import one_of
from tokenmill.errors import MissingExtraError, PrepareError

ENGINES = ("local", "ray")

Task = tuple[Any, ...]


class TaskFunction(Protocol):
    """A function that can be sent elsewhere by its name, and whose results are kept."""

    __name__: str

    def __call__(self, *task: Any) -> Any:
        """Run a task."""

    def missing(
        self, tasks: Sequence[Task], whose: Callable[[int], bool] = lambda number: True
    ) -> list[int]:
        """Which of these tasks were not run before; what those left that `whose` chooses is looked
        at closely."""


class Executor:
    """Runs tasks somewhere, in any order, each at least once. A `with` statement closes it."""

    def run(self, function: TaskFunction, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the task, function(*task)) for all tasks, in the order they finish."""
        raise NotImplementedError

    def get_ready(self, function: TaskFunction, num_tasks: int) -> None:
        """So many tasks will come, such as those of a function: what takes time may begin."""

    def run_missing(
        self, function: TaskFunction, tasks: Sequence[Task], turns: Iterable[int] | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the same for tasks that were not run before; for the others first, with None.

        `turns` gives the numbers of all tasks in the order to run them, each when it can be run.
        """
        missing = set(function.missing(tasks))
        yield from done_before(missing, len(tasks))
        order = range(len(tasks)) if turns is None else turns
        yield from self.run_some(function, tasks, (n for n in order if n in missing))

    def run_some(
        self, function: TaskFunction, tasks: Sequence[Task], numbers: Iterable[int]
    ) -> Iterator[tuple[int, Any]]:
        """Run the tasks of these numbers."""
        begun: list[int] = []

        def in_turn() -> Iterator[Task]:
            for number in numbers:
                begun.append(number)
                yield tasks[number]

        try:
            for at, result in self.run(function, in_turn()):
                yield begun[at], result
        except WorkerDiedError as died:
            died.task = begun[died.task]
            raise

    def close(self) -> None:
        """Let go of processes or of the cluster, if it has any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def done_before(missing: Iterable[int], num_tasks: int) -> Iterator[tuple[int, None]]:
    """The numbers of the other tasks."""
    left = set(missing)
    return ((number, None) for number in range(num_tasks) if number not in left)


class WorkerDiedError(PrepareError):
    """The process that ran a task died, again and again; `task` is the number of the task."""

    def __init__(self, who: str, times: int, how: str, function: TaskFunction, task: int) -> None:
        super().__init__(
            f"{who} died {times} times ({how}) at {function.__name__}",
            hint=f"SIGKILL is usually memory: lower workers= or max_ram=; {RESUME_HINT}",
        )
        self.task = task


@dataclass(frozen=True)
class Engine:
    """Where tasks run, as it was asked for: what cannot be meant is refused at once."""

    kind: str = "local"
    workers: int | None = None
    ray_address: str | None = None

    def __post_init__(self) -> None:
        one_of("engine", self.kind, ENGINES)
        if self.ray_address is not None and self.kind != "ray":
            raise ValueError(
                f'ray_address is {self.ray_address!r}, but engine is {self.kind!r}, not "ray"'
            )
        if self.kind == "ray" and importlib.util.find_spec("ray") is None:
            raise MissingExtraError("the engine ray", package="ray", extra="ray")

    def open(self, processes: int, shared: str) -> Executor:
        """So many processes of this machine, or a cluster whose machines all see this path."""
        if self.kind == "ray":
            from tokenmill.executors.ray import RayExecutor

            return RayExecutor(self.ray_address, at_once=self.workers, shared=shared)
        from tokenmill.executors.local import LocalExecutor

        return LocalExecutor(processes)
