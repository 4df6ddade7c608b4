"""Run a share of the tasks: part K of N, as numbered jobs do that never talk to each other.

Part K runs the tasks K, K + N, K + 2N, ... of a stage. The results of the others are looked up
where those left them. If some are missing, also after `wait` seconds, the stage ends here with
`NotReady`, and the part is run again later. N may be another number each time, and two
parts may run the same task.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenmill.base.human import neighbour_runs
from tokenmill.executors.executor import Executor, Tasks, done_before

LONGEST_PAUSE = 5.0
"""Seconds between two looks at what others have done."""


@dataclass(frozen=True)
class JobPart:
    """One of `of` equal shares, counted from 0."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "JobPart":
        """`3/16` is the fourth of sixteen."""
        number, _, of = text.partition("/")
        if number.isdecimal() and of.isdecimal() and int(number) < int(of):
            return cls(int(number), int(of))
        raise ValueError(f"part is {text!r}; write it K/N, K counted from 0: 0/16 to 15/16")

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True)
class StageReport:
    """Tasks of one stage: all, and those that are missing."""

    name: str
    tasks: int
    missing: tuple[int, ...]
    """Tasks whose results are not there yet."""


class NotReady(Exception):  # noqa: N818 - the usual end of a part, not a fault
    """Some results of a stage are not there yet; what comes next needs all of them."""


class PartExecutor(Executor):
    """Runs one part with another executor; without a part it only looks at what is there.

    `wait` is how many seconds it waits for other parts, each time it needs them.
    """

    def __init__(self, executor: Executor, part: JobPart | None, *, wait: float = 0.0) -> None:
        self.executor = executor
        self.part = part
        self.wait = wait
        self.stages: list[StageReport] = []

    def run_missing(self, tasks: Tasks) -> Iterator[tuple[int, Any]]:
        """Yield what is done, and run those of this part; raise NotReady if others are missing."""
        missing = tasks.missing(whose=self._is_mine)
        yield from done_before(set(missing), len(tasks.arguments))
        mine = [number for number in missing if self._is_mine(number)]
        todo = ((n, tasks.arguments[n]) for n in mine)
        yield from self.executor.run(tasks.function, todo, tasks.size)
        left = [number for number in missing if not self._is_mine(number)]
        deadline = time.monotonic() + self.wait
        while left:  # others may have been at work meanwhile
            still_missing = set(tasks.missing(whose=lambda number: False))
            yield from ((number, None) for number in left if number not in still_missing)
            left = [number for number in left if number in still_missing]
            if not left or time.monotonic() >= deadline:
                break
            time.sleep(min(LONGEST_PAUSE, 0.05 + self.wait / 1000))
        self.stages.append(StageReport(tasks.name, len(tasks.arguments), tuple(left)))
        if left:
            raise NotReady(tasks.name)

    def _is_mine(self, number: int) -> bool:
        return self.part is not None and number % self.part.of == self.part.number


def to_array(numbers: Iterable[int]) -> str:
    """Write numbers as Slurm's --array takes them.

    >>> to_array([0, 3, 4, 5, 9])
    '0,3-5,9'
    """
    runs = neighbour_runs(sorted(set(numbers)))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
