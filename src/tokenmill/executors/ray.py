"""Run tasks on a Ray cluster. Numbers and receipts travel; text and tokens stay in files.

All nodes must see the work folder under the same path, or the bucket that it is in. Small tasks
travel in groups that take seconds: Ray hands over some thousand results a second, and a large
cluster needs more. What is lost with a node is run again elsewhere; a driver that was killed is
started again and finds the receipts. No more groups are handed to Ray than it has room for twice
over, so a plan of a million units costs no memory.
"""

import logging
import os
import site
import socket
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenmill.errors import MismatchError, PrepareError, TokenmillError
from tokenmill.executors.executor import (
    Executor,
    Numbered,
    SizeOf,
    TaskFunction,
    WorkerDiedError,
    one,
    run_group,
)
from tokenmill.version import __version__

RETRIES = 3
SECONDS_PER_GROUP = 2.0
MOST_PER_GROUP = 1000
SECONDS_BETWEEN_LOOKS = 5.0
"""Between two questions for the size of the cluster, which cost a millisecond each."""


class RayExecutor(Executor):
    """Tasks of one CPU each on the nodes of a cluster.

    `address` is that of `ray.init`: "auto" for the cluster this machine belongs to, None for a new
    one on this machine alone. `at_once` bounds the groups of tasks in progress (None:
    twice the CPUs). `shared` is a path that every node must see.
    """

    def __init__(
        self, address: str | None = None, *, at_once: int | None = None, shared: str = ""
    ) -> None:
        ray = _import_quietly()
        self._ray = ray
        self._shared = shared
        self._at_once = at_once
        self._ours = not ray.is_initialized()
        if self._ours:
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
            if not address:
                options["num_cpus"] = at_once
            try:
                _check_reachable(address)
                ray.init(address or "local", runtime_env=_runtime_env(), **options)
            except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise _explain(error, address) from error
        self._in_progress: dict[Any, list[Numbered]] = {}
        remote = ray.remote(max_retries=RETRIES, num_cpus=1, scheduling_strategy="SPREAD")
        self._run = remote(run_here)
        self._looked = -SECONDS_BETWEEN_LOOKS

    def run(
        self, function: TaskFunction, tasks: Iterable[Numbered], size: SizeOf = one
    ) -> Iterator[tuple[int, Any]]:
        groups = Groups(tasks, size)
        try:
            while True:
                limit = self._limit()
                while len(self._in_progress) < limit and (group := groups.next(limit)):
                    reference = self._run.remote(__version__, self._shared, function, group)
                    self._in_progress[reference] = group
                if not self._in_progress:
                    return
                for reference in self._ready():
                    group = self._in_progress.pop(reference)
                    done = self._result(reference, function, group)
                    if done is None:
                        groups.put_back(group)
                        continue
                    results, seconds = done
                    groups.measured(group, seconds)
                    yield from results
        finally:
            self._cancel()

    def _limit(self) -> int:
        """Return how many groups may be in progress: no node waits for the driver."""
        if self._at_once is not None:
            return self._at_once
        if time.monotonic() - self._looked >= SECONDS_BETWEEN_LOOKS:
            self._cpus = int(self._ray.cluster_resources().get("CPU", 1)) or 1
            self._looked = time.monotonic()
        return 2 * self._cpus

    def _ready(self) -> list[Any]:
        """Wait for one group; return all that are done."""
        waiting = list(self._in_progress)
        ready, left = self._ray.wait(waiting, num_returns=1)
        if left:
            more, _ = self._ray.wait(left, num_returns=len(left), timeout=0)
            ready += more
        return list(ready)

    def _result(
        self, reference: Any, function: TaskFunction, group: list[Numbered]
    ) -> tuple[list[tuple[int, Any]], float] | None:
        """Return the results of a group and its seconds; None if they are to be run one by one."""
        errors = self._ray.exceptions
        try:
            done: tuple[list[tuple[int, Any]], float] = self._ray.get(reference)
            return done
        except errors.RayTaskError as error:
            is_clear = isinstance(error.cause, TokenmillError)  # without pages of Ray's before it
            raise error.cause from None if is_clear else error
        except errors.RayError as e:
            if len(group) > 1:
                return None  # one of them may be what its worker dies of
            how = type(e).__name__
            number = group[0][0]
            raise WorkerDiedError("a Ray worker", RETRIES + 1, how, function, number) from None

    def _cancel(self) -> None:
        # Once only, and never after the end: Ray would start itself again to cancel a task.
        while self._in_progress:
            self._ray.cancel(self._in_progress.popitem()[0], force=True)

    def close(self) -> None:
        """Leave the cluster, unless it was joined before."""
        self._cancel()
        if self._ours:
            self._ray.shutdown()
            self._ours = False


def _import_quietly() -> Any:
    """Import Ray so that it says nothing, unless the program has imported it before.

    When a worker dies, it prints a page for each attempt, on standard output, around our one error.
    Its own logs, in /tmp/ray on each node, have all of it.
    """
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")
        logging.getLogger("ray").setLevel(logging.ERROR)
    import ray

    return ray


class Groups:
    """Tasks in groups that take about `SECONDS_PER_GROUP`, by their sizes and what was measured."""

    def __init__(self, tasks: Iterable[Numbered], size: SizeOf) -> None:
        self._waiting = deque(tasks)
        self._alone: list[Numbered] = []
        self._size = size
        self._done = 0
        """Size of all that was measured."""
        self._seconds = 0.0

    def next(self, at_once: int) -> list[Numbered]:
        """Return the next group, smaller at the end, so that all `at_once` end about together."""
        if self._alone:
            return [self._alone.pop()]
        most = max(1, min(MOST_PER_GROUP, len(self._waiting) // (2 * at_once)))
        group: list[Numbered] = []
        room = SECONDS_PER_GROUP * self._done / self._seconds if self._seconds else 0.0
        while self._waiting and len(group) < most:
            room -= self._size(self._waiting[0][0])
            if group and room < 0:
                break
            group.append(self._waiting.popleft())
        return group

    def put_back(self, group: list[Numbered]) -> None:
        """Run the tasks of a group again, one by one."""
        self._alone += group

    def measured(self, group: list[Numbered], seconds: float) -> None:
        self._done += sum(self._size(number) for number, _ in group)
        self._seconds += seconds


def run_here(
    version: str, shared: str, function: TaskFunction, group: list[Numbered]
) -> tuple[list[tuple[int, Any]], float]:
    """On a node: run some tasks; return their results, and the seconds."""
    if version != __version__:
        raise MismatchError(
            f"the node {socket.gethostname()} runs tokenmill {__version__}, the driver {version}",
            hint="install the same version on every node",
        )
    if shared and not os.path.exists(shared):
        raise PrepareError(
            f"the node {socket.gethostname()} does not see {shared}",
            hint="the folder must be on a file system that all nodes share, under one path",
        )
    began = time.monotonic()
    return run_group(function, group), time.monotonic() - began


def _check_reachable(address: str | None) -> None:
    """OSError where nothing listens at HOST:PORT; Ray itself would try for minutes."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=20).close()


def _explain(error: Exception, address: str | None) -> PrepareError:
    if address is None:
        return PrepareError(
            f"Ray does not start on this machine: {error}",
            hint='leave run=Run(engine="ray") out, or start Ray by hand (ray start --head) to see '
            "why",
        )
    # Ray tries for 20 seconds, and then names the last refusal in the text of the cause only.
    if "AuthenticationError" in f"{type(error)} {error.__cause__}":
        return PrepareError(
            f"the Ray cluster at {address!r} asks for a token, and this process has no token or "
            "another one",
            hint="set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN to what `ray get-auth-token` prints "
            "on the head node",
        )
    return PrepareError(
        f"no Ray cluster answers at {address!r}: {error}",
        hint="start one (ray start --head), or leave the address out",
    )


def _runtime_env() -> dict[str, Any]:
    """An installed tokenmill is expected on every node; a source tree is sent along."""
    package = Path(__file__).parents[1]
    installed = [*site.getsitepackages(), site.getusersitepackages()]
    if any(package.is_relative_to(folder) for folder in installed):
        return {}
    return {"py_modules": [str(package)]}
