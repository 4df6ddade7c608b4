"""Run tasks on a Ray cluster. Numbers and receipts travel; text and tokens stay in files.

All nodes must see the folder of the preparation under the same path. A task lost with its node is
run again elsewhere; a driver that was killed is started again and finds the receipts. No more tasks
are handed to Ray than it has room for twice over, so a plan of a million units costs no memory.
"""

import logging
import os
import site
import socket
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenmill.errors import MismatchError, PrepareError, TokenmillError
from tokenmill.executors.executor import Executor, Numbered, Task, TaskFunction, WorkerDiedError
from tokenmill.version import __version__

RETRIES = 3


class RayExecutor(Executor):
    """Tasks of one CPU each on the nodes of a cluster.

    `address` is that of `ray.init`: "auto" for the cluster this machine belongs to, None for a new
    one on this machine alone. `at_once` bounds the tasks in progress (None: twice the
    CPUs). `shared` is a path that every node must see.
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
        self._in_progress: dict[Any, int] = {}
        remote = ray.remote(max_retries=RETRIES, num_cpus=1, scheduling_strategy="SPREAD")
        self._run = remote(run_here)

    def run(self, function: TaskFunction, tasks: Iterable[Numbered]) -> Iterator[tuple[int, Any]]:
        waiting = iter(tasks)
        in_progress = self._in_progress
        try:
            while True:
                # Twice the CPUs there are now, so that no node waits for the driver.
                limit = self._at_once or 2 * int(self._ray.cluster_resources().get("CPU", 1)) or 2
                for number, task in waiting:
                    reference = self._run.remote(__version__, self._shared, function, task)
                    in_progress[reference] = number
                    if len(in_progress) >= limit:
                        break
                if not in_progress:
                    return
                ready, _ = self._ray.wait(list(in_progress), num_returns=1)
                for reference in ready:
                    number = in_progress.pop(reference)
                    yield number, self._result(reference, function, number)
        finally:
            self._cancel()

    def _result(self, reference: Any, function: TaskFunction, number: int) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(reference)
        except errors.RayTaskError as error:
            is_clear = isinstance(error.cause, TokenmillError)  # without pages of Ray's before it
            raise error.cause from None if is_clear else error
        except errors.RayError as e:
            how = type(e).__name__
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


def run_here(version: str, shared: str, function: TaskFunction, task: Task) -> Any:
    """On a node: run one task."""
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
    return function(*task)


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
