"""`python -m tokenmill` is the command `tokenmill`.

Ctrl-C is answered from here on, before anything else is imported: raised inside an import, it would
end in a traceback, be swallowed, or end the process by the signal. Where work is to end in order,
base/signals.py takes over.
"""

import gc
import os
import signal

STOPPED = 75  # as errors.Stopped


def stop_at_once(*_: object) -> None:
    """End the process with one line, whatever it does."""
    os.write(2, b"stopped\n")
    os._exit(STOPPED)


def run() -> None:
    """The command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as in a job
        signal.signal(signal.SIGINT, stop_at_once)
    # Imports make many objects and no garbage, which Python would look for again and again.
    gc.set_threshold(20_000)
    from tokenmill.cli import main

    main()


if __name__ == "__main__":
    run()
