"""Run a command and say how long it took and how much memory of its own it used at most."""

import os
import platform
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Modules are compiled once, as they are where they are installed.
_ENVIRONMENT = {name: os.environ[name] for name in os.environ if "BYTECODE" not in name}


@dataclass(frozen=True)
class Run:
    """One run of one command."""

    seconds: float
    cpu_seconds: float
    """Of all its processes together, those that were waited for."""
    peak_mb: float
    """Memory of its own, all its processes together (RssAnon); mapped files do not count."""
    output: str


def run(command: list[str], *, cwd: Path | None = None, env: dict[str, str] | None = None) -> Run:
    """Run a command to its end; a failure is an error that shows the last lines it printed."""
    started, cpu_before = time.perf_counter(), _cpu_of_children()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**_ENVIRONMENT, **(env or {})},
    )
    watcher = _Watcher(process.pid)
    watcher.start()
    output, _ = process.communicate()
    seconds = time.perf_counter() - started
    watcher.stopped.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{command[:3]} failed with {process.returncode}:\n{output[-2000:]}")
    return Run(seconds, _cpu_of_children() - cpu_before, watcher.peak / 1e6, output)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _Watcher(threading.Thread):
    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.peak, self.stopped = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            self.peak = max(self.peak, own_memory(self.pid))


def own_memory(pid: int) -> int:
    """Anonymous resident bytes of a process and all its descendants."""
    total = 0
    for each in family(pid):
        try:
            status = Path(f"/proc/{each}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in status.splitlines():
            if line.startswith("RssAnon:"):
                total += int(line.split()[1]) * 1024
    return total


def family(pid: int) -> list[int]:
    """A process and all its descendants, in whatever session they are."""
    found, todo = [], [pid]
    while todo:
        current = todo.pop()
        try:
            for task in Path(f"/proc/{current}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.append(current)
    return found


def machine() -> dict[str, object]:
    """What a result should say about the machine it was measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": platform.processor() or platform.machine(),
        "python": sys.version.split()[0],
    }
