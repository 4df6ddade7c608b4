"""Several files at a time; the first failure, or Ctrl-C, stops all.

Plain threads rather than an executor: an executor waits for its threads before the process may end,
and one that reads from a line that went dead hears nothing for a whole timeout.
"""

import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

from tokenmill.base.retry import Patience
from tokenmill.errors import Stopped

T = TypeVar("T")
LAST_WORDS = 2.0  # seconds that the others get to stop after Ctrl-C


def in_parallel(
    work: Callable[[T], None], items: Iterable[T], workers: int, patience: Patience
) -> None:
    """Do the work for every item, in threads; raises the first error that was not a mere stop."""
    todo = iter(list(items))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def run() -> None:
        while True:
            with lock:
                item = next(todo, None)
            if item is None or errors:
                return
            try:
                work(item)
            except BaseException as error:  # carried to the caller
                errors.append(error)
                patience.stop()

    threads = [
        threading.Thread(target=run, daemon=True, name=f"tokenmill-{i}") for i in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        patience.stop()
        for thread in threads:
            thread.join(LAST_WORDS / len(threads))
        raise
    for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
        raise error  # the cause before those that it stopped
