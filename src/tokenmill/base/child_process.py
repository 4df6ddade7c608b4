"""Child processes that are talked to over a connection, on Linux, macOS and Windows."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any

PR_SET_PDEATHSIG = 1


def start_child(
    program: Sequence[str], more: Sequence[str], environment: Mapping[str, str]
) -> "tuple[subprocess.Popen[bytes], Any]":
    """Start a program, with the number of its end of a connection and then `more` as arguments."""
    ours, theirs = Pipe()
    number = theirs.fileno()
    command = [*program, str(number), *more]
    if sys.platform == "win32":
        os.set_handle_inheritable(number, True)
        startup = subprocess.STARTUPINFO(lpAttributeList={"handle_list": [number]})
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=environment, startupinfo=startup
        )
    else:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=environment, pass_fds=[number]
        )
    theirs.close()
    return process, ours


def connection_to_parent(number: str) -> Any:
    """Return the end of the connection that the parent gave to this process."""
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(int(number))
    return Connection(int(number))


def end_with_parent() -> None:
    """Ask the kernel to end this process with its parent, which may be killed.

    Only Linux does: elsewhere it ends when its task is done, and it finds nobody to answer to.
    """
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
