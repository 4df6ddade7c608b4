"""Tasks for the tests of executors; importable, as tasks must be."""

import os
import signal
from pathlib import Path

from tokenmill.errors import PrepareError


def square(number):
    return number * number


def who(_):
    return os.getpid()


def fail(number):
    if number == 3:
        raise PrepareError("three is bad", hint="leave it out", source="three.txt")
    return number


def cannot_travel(_):
    return lambda: None


def die_once(folder, number):
    """Die at the first attempt at task 2."""
    mark = Path(folder) / "died"
    if number == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return number


def die_always(folder, number):
    with open(Path(folder) / "attempts", "a") as file:
        file.write("x" * (number == 2))
    if number == 2:
        os._exit(42)
    return number


def memory_after(num_bytes):
    """Take so many bytes, in pieces, and give them back; the bytes that this process then has."""
    pieces = [b"\1" * (4 << 20) for _ in range(num_bytes >> 22)]
    del pieces
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
