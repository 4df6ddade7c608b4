"""Requests of a forked process: sent by a helper process, since obstore does not survive a fork.

A worker of torch's DataLoader is such a process. The first request starts the helper. Each thread
has its own connection, of which the helper is sent the other end. It ends when the socket over
which it is sent these is closed: with the process that started it.
"""

import os
import socket
import subprocess
import sys
import threading
from collections import defaultdict
from multiprocessing.connection import Connection
from typing import Any

from tokenmill.stores import store_requests
from tokenmill.stores.store_requests import StoreFailure

_of_thread = threading.local()
_helpers: dict[int, socket.socket] = {}  # by process
# By process: another thread may have held that of the parent while it was forked.
_starting: dict[int, threading.Lock] = defaultdict(threading.Lock)


def send(name: str, *args: Any) -> Any:
    """Return the result of the request of this name in store_requests.py, or raise its error."""
    try:
        connection = _connection()
        connection.send((name, args))
        result, error = connection.recv()
    except (EOFError, OSError):
        _helpers.pop(os.getpid(), None)
        raise StoreFailure("wrong", text="the process that sends requests ended") from None
    if error is not None:
        raise error
    return result


def _connection() -> Connection:
    """Return the connection of this thread to the helper of this process; both are made once."""
    with _starting[os.getpid()]:
        if os.getpid() not in _helpers:
            _helpers[os.getpid()] = _start()
        helper = _helpers[os.getpid()]
    if sys.platform == "win32":
        raise OSError("Windows does not fork")
    if getattr(_of_thread, "helper", None) is not helper:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(helper, [b"."], [theirs.fileno()])
        _of_thread.helper = helper
        _of_thread.connection = Connection(ours.detach())
    connection: Connection = _of_thread.connection
    return connection


def _start() -> socket.socket:
    """Start the helper; return the socket over which it is sent connections."""
    ours, theirs = socket.socketpair()
    # The path of modules is that of this process, however it came about.
    code = (
        f"import sys; sys.path[:] = {sys.path!r}; "
        f"from tokenmill.stores.forked_requests import serve; serve({theirs.fileno()})"
    )
    with theirs:
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
    return ours


def serve(descriptor: int) -> None:
    """Be the helper: answer requests on each connection that is sent."""
    if sys.platform == "win32":
        raise OSError("Windows does not fork")
    control = socket.socket(fileno=descriptor)
    while descriptors := socket.recv_fds(control, 1, 1)[1]:
        connection = Connection(descriptors[0])
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()
    os._exit(0)  # without waiting for requests that nobody waits for


def _answer(connection: Connection) -> None:
    while True:
        try:
            name, args = connection.recv()
        except (EOFError, OSError):
            return
        result = error = None
        try:
            result = store_requests.send(name, *args)
        except Exception as failed:
            error = failed
        connection.send((result, error))
