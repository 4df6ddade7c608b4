"""Commands of ours in forked children: they start in milliseconds, and faults can be put into them.

A server process imports the package and runs the wanted commands once; each request is then a fork
of it. A child that waits for its signal can be traced from its first system call on, so that the
N-th call is one of the command and not of Python's start. `python -m faults.forks NAME...` is the
server: a JSON object a line comes in, the process id and the exit code go out. `python -m
faults.forks --run ARGUMENTS...` is one command in a process of its own.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

ROOT = Path(__file__).parents[2]
HANGS_AFTER = 120.0  # seconds
PR_SET_PTRACER = 0x59616D61
RUN = "--run"
CRASHED = 70  # exit code of a child that ended with a traceback
# One thread each: a child of fork() has only the thread that forked.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    """Its exit code, or minus the number of the signal."""
    said: str
    """All that it printed."""


class Forks:
    """Runs commands, one at a time; a context manager."""

    def __init__(self, warm: Iterable[str], environ: dict[str, str] | None = None) -> None:
        """`warm`: names of operations that the server runs once, so that all is imported."""
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
        self._server = subprocess.Popen(
            [sys.executable, "-P", "-m", "faults.forks", *warm],
            env={**os.environ, **ONE_THREAD, **(environ or {}), "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: Sequence[str], folder: Path, strace: Sequence[str] = ()) -> Ended:
        """Run `tokenmill ARGUMENTS` in this folder, with these options of strace if there are."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with tempfile.TemporaryDirectory() as scratch:
            said = Path(scratch, "said")
            request = {
                "arguments": list(arguments), "folder": str(folder), "said": str(said),
                "waits": bool(strace),
            }  # fmt: skip
            self._server.stdin.write(json.dumps(request) + "\n")
            self._server.stdin.flush()
            pid = int(self._server.stdout.readline())
            watchdog = threading.Timer(HANGS_AFTER, os.kill, (pid, signal.SIGABRT))
            watchdog.start()
            tracer = _attach(pid, strace) if strace else None
            code = int(self._server.stdout.readline())
            watchdog.cancel()
            if tracer is not None:
                tracer.communicate()
            return Ended(code, said.read_text(errors="replace") if said.exists() else "")

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(10)


def _attach(pid: int, options: Sequence[str]) -> "subprocess.Popen[str]":
    """Trace a child that waits, then let it run."""
    command = ["strace", "-f", *options, "-p", str(pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    line = tracer.stderr.readline()
    assert "attached" in line, f"strace cannot trace: {line}"
    os.kill(pid, signal.SIGUSR1)
    return tracer


def serve(warm: Sequence[str]) -> None:
    """Run what is asked for on standard input, until it is closed."""
    from faults.operations import OPERATIONS

    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a command prints while warming up is no answer
    for name in warm:
        with tempfile.TemporaryDirectory() as folder:
            OPERATIONS[name].set_up(Path(folder))
            before = os.getcwd()
            os.chdir(folder)
            code = _command(OPERATIONS[name].arguments)
            assert code == 0, f"{name} ended with exit code {code} when nobody disturbed it"
            os.chdir(before)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line), answers)
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")


def _child(request: dict, answers: TextIO) -> NoReturn:
    os.chdir(request["folder"])
    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    if request["waits"]:
        # Some kernels let only a parent trace; this child may be traced by anybody.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
    answers.write(f"{os.getpid()}\n")
    if request["waits"]:
        signal.sigwait([signal.SIGUSR1])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
    try:
        code = _command(request["arguments"])
    except BaseException:
        traceback.print_exc()
        code = CRASHED
    sys.stdout.flush()
    os._exit(code)


def _command(arguments: list[str]) -> int:
    from faults.operations import PROGRAMS

    from tokenmill.cli import main
    from tokenmill.errors import TokenmillError

    try:
        if arguments[0] in PROGRAMS:
            PROGRAMS[arguments[0]]()
        else:
            main(arguments)
    except (TokenmillError, OSError, MemoryError) as error:  # of a program; `main` says its own
        print(f"error: {error}", file=sys.stderr)
        return getattr(error, "exit_code", 1)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    if sys.argv[1] == RUN:
        sys.exit(_command(sys.argv[2:]))
    serve(sys.argv[1:])
