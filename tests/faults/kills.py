"""Kill a command at any moment; the same command again must come to the same files.

Two ways. At a chosen system call: SIGKILL right before the N-th `write`, `rename`, ... of a child,
so that every state of the disk occurs. And at a chosen time: a real process with all its workers,
which may be inside anything.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from faults.case import Case
from faults.forks import ROOT, RUN, Forks
from faults.operations import OPERATIONS, serving_shards
from faults.tally import Tally

# Calls that change what is on the disk, and some between them.
CHANGES = (
    *("openat", "write", "writev", "pwrite64", "fsync", "fdatasync", "close", "ftruncate"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "unlink", "unlinkat"),
    *("mkdir", "mkdirat", "rmdir", "copy_file_range", "sendfile", "mmap", "getdents64", "recvfrom"),
)
MOST_KILLS_IN_A_ROW = 3


def kill_at_calls(tally: Tally, scratch: Path, names: Sequence[str], most: int) -> None:
    """Kill each operation at up to `most` of its system calls, chosen at random."""
    with serving_shards() as environ:
        for name in names:
            with Forks([name], environ) as forks:
                case = Case(OPERATIONS[name], scratch, forks)
                calls = case.calls()
                places = [(call, n + 1) for call in CHANGES for n in range(calls[call])]
                random.Random(f"{tally.seed} {name}").shuffle(places)
                while places and tally.counts.get(name, {}).get("kills", 0) < most:
                    _kill_and_resume(tally, case, places)


def _kill_and_resume(tally: Tally, case: Case, places: list[tuple[str, int]]) -> None:
    """One run, killed once or more in a row, then left alone."""
    case.fresh()
    name, killed_at = case.operation.name, []
    while places and len(killed_at) < MOST_KILLS_IN_A_ROW:
        call, number = places.pop()
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:signal=SIGKILL:when={number}"]
        ended = case.run(["-o", os.devnull, *inject])
        if ended.code != -signal.SIGKILL:
            tally.add(name, "ended first")
            break
        killed_at.append(f"{call} {number}")
        tally.add(name, "kills")
        if wrong := case.wrongly_visible():
            tally.fail(name, f"killed at {killed_at}: {wrong}")
        if number % 3:
            break
    ended = case.run()
    wrong = case.differences()
    if case.resumes(ended) and not wrong:
        tally.add(name, "came to the same files")
    else:
        said = ended.said[-300:] if ended.code else ""
        tally.fail(name, f"killed at {killed_at}, then again: {ended.code} {said} {wrong}")


def kill_at_times(tally: Tally, scratch: Path, names: Sequence[str], most: int) -> None:
    """Kill real processes, with two workers where there are any, after a random time."""
    chance = random.Random(f"{tally.seed} times")
    with serving_shards() as environ:
        for name in names:
            with Forks([name], environ) as forks:
                case = Case(OPERATIONS[name], scratch, forks)
            case.fresh()
            took = _run_process(case, environ, None)
            for _ in range(most):
                _kill_process_and_resume(tally, case, environ, took * chance.random())


def _kill_process_and_resume(
    tally: Tally, case: Case, environ: dict[str, str], after: float
) -> None:
    what = f"{case.operation.name}, whole process"
    case.fresh()
    killed = _run_process(case, environ, after) > 0
    tally.add(what, "kills" if killed else "ended first")
    wrong = case.wrongly_visible()
    _run_process(case, environ, None)
    wrong += case.differences()
    if wrong:
        tally.fail(what, f"killed after {after:.3f} s: {wrong}")
    else:
        tally.add(what, "came to the same files")


def _run_process(case: Case, environ: dict[str, str], kill_after: float | None) -> float:
    """The seconds it took; 0 if it ended by itself though it was to be killed."""
    arguments = list(case.operation.arguments)
    if "--workers" in arguments:
        arguments[arguments.index("--workers") + 1] = "2"
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "faults.forks", RUN, *arguments],
        cwd=case.folder,
        env={**os.environ, **environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        process.wait(kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return time.monotonic() - started
    return 0.0 if kill_after is not None else time.monotonic() - started
