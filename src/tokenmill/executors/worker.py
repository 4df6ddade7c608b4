"""The other end of `local.py`: a process that runs one task after another until its parent goes."""

import gc
import importlib
import pickle
import signal
import sys
import traceback

from tokenmill.base.child_process import connection_to_parent, end_with_parent
from tokenmill.executors.executor import run_group


def main() -> None:
    """Serve tasks from the connection that the first argument names; import the others first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    end_with_parent()
    gc.set_threshold(20_000)  # as in __main__.py
    connection = connection_to_parent(sys.argv[1])
    for module in sys.argv[2:]:
        importlib.import_module(module)
    while True:
        try:
            function, task = connection.recv()
        except (EOFError, ConnectionError):
            return
        if task is None:  # the function is imported now: tasks come later
            continue
        try:
            ((_, result),) = run_group(function, [(0, task)])
            answer = (False, result)
        except Exception as error:
            error.add_note(traceback.format_exc())
            answer = (True, error)
        try:
            connection.send(answer)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            connection.send((True, RuntimeError(f"cannot send {answer[1]!r}: {error}")))


if __name__ == "__main__":
    main()
