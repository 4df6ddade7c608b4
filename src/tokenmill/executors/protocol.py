"""What an executor is: something that runs tasks. It never sees text or tokens."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

Task = tuple[Any, ...]


class Executor(Protocol):
    """Runs tasks somewhere, in any order, each at least once."""

    def run(self, function: Callable[..., Any], tasks: Iterable[Task]) -> Iterator[tuple[int, Any]]:
        """Yield (number of the task, function(*task)) for all tasks, in the order they finish."""
