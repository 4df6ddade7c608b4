"""What an executor is: something that runs tasks. It never sees text or tokens."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from tokenmill.errors import PrepareError

Task = tuple[Any, ...]


class TaskFunction(Protocol):
    """A function that can be sent elsewhere by its name, and whose results are kept."""

    __name__: str

    def __call__(self, *task: Any) -> Any:
        """Run a task, or find what it left when it was run before."""

    def find(self, *task: Any) -> Any | None:
        """What the task left when it was run before, or None; it is never run."""


class Executor(Protocol):
    """Runs tasks somewhere, in any order, each at least once."""

    def run(self, function: TaskFunction, tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the task, function(*task)) for all tasks, in the order they finish."""


class WorkerDiedError(PrepareError):
    """The process that ran a task died, again and again; `task` is the number of the task."""

    def __init__(self, what: str, *, task: int) -> None:
        super().__init__(
            what,
            hint="SIGKILL is usually memory: lower --workers or --max_ram; the same command goes "
            "on where it stopped",
        )
        self.task = task
