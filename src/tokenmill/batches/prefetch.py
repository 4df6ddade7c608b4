"""A few batches made ready by one thread while the training loop is busy elsewhere.

Handing a batch from thread to thread costs about 30 us, half of what making one costs: a loop that
comes back immediately would be slowed by it. So owner and thread share one iterator under a lock:
the owner takes what is ready, or makes the next item itself; and it lets the thread run ahead, by
tickets, only when it was away for longer than `WORTH_A_THREAD`.

The thread knows only the iterator and the queues, not the Prefetcher, so that dropping the loader
(or Ctrl-C, or the end of the program) closes the queues and ends the thread. What goes wrong in it
is raised where the item is asked for. A fork copies no threads: a child makes a new one (`alive`).

Whichever of the two waits for the other looks from time to time at what that one waits for.
"""

import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from tokenmill.base.histogram import Histogram
from tokenmill.base.stalls import log_long_waits
from tokenmill.base.system import after_fork

T = TypeVar("T")

WORTH_A_THREAD = 200e-6  # seconds between two calls

_process = 0  # another number in each fork; os.getpid() is a system call, too slow for every batch


def _count_fork() -> None:
    global _process
    _process += 1


after_fork(_count_fork)


class _Shared(Generic[T]):
    """What owner and thread have in common."""

    def __init__(self, items: Iterator[T], stall_seconds: float) -> None:
        self.items = items
        self.stall_seconds = stall_seconds
        self.look_after = min(stall_seconds / 4, 3600.0)  # seconds of waiting for the other
        self.making = threading.Lock()  # held while an item is made, until it is in its place
        self.ready: deque[T] = deque()
        self.tickets: SimpleQueue[None] = SimpleQueue()
        self.closed = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None

    def lock(self) -> None:
        """Wait until no item is made; look from time to time why that takes so long."""
        while not self.making.acquire(timeout=self.look_after):
            self.look()

    def look(self) -> None:
        """Log waits that take too long, then not again for so long."""
        is_stalled = log_long_waits(self.stall_seconds)
        self.look_after = min(self.stall_seconds / (1 if is_stalled else 4), 3600.0)


class Prefetcher(Generic[T]):
    """An iterator that a thread runs ahead of, by at most `depth` items (0: there is no thread)."""

    def __init__(
        self, items: Iterator[T], depth: int, waits: Histogram | None = None, stall: float = 30.0
    ) -> None:
        """`waits` counts waits of the owner; those of `stall` seconds or more are logged."""
        self._shared = _Shared(items, stall)
        self._waits = waits or Histogram()
        self.queue_depth = 0.0  # items that are left when one was taken, a mean of the last ten
        self._depth = depth
        self._ahead = 0  # items that the thread has been given a ticket for and we have not taken
        self._left_at = 0.0
        self.seconds_waited = 0.0
        """How long the owner waited for items, those that it made itself included."""
        self._process = _process
        self._close = weakref.finalize(self, _close, self._shared, _process)

    def __iter__(self) -> "Prefetcher[T]":
        return self

    def __next__(self) -> T:
        asked = time.perf_counter()
        shared = self._shared
        if not shared.ready:
            if shared.thread is None and self._depth:
                # The interpreter waits for other threads before it runs the finalizer above.
                shared.thread = threading.Thread(
                    target=_run, args=(shared,), name="tokenmill-prefetch", daemon=True
                )
                shared.thread.start()
            if not shared.making.acquire(False):
                shared.lock()
            try:
                if not shared.ready:
                    if shared.error is not None:
                        raise shared.error
                    return self._leave(next(shared.items), asked)
            finally:
                shared.making.release()
        self._ahead -= 1
        return self._leave(shared.ready.popleft(), asked)

    def _leave(self, item: T, asked: float) -> T:
        if asked - self._left_at > WORTH_A_THREAD:
            shared = self._shared
            self.queue_depth += 0.1 * (len(shared.ready) - self.queue_depth)
            while self._ahead < self._depth:
                self._ahead += 1
                shared.tickets.put(None)
        now = time.perf_counter()
        if now - self._left_at > WORTH_A_THREAD:  # else counting would take more than 0.2 % of it
            self._waits.add(now - asked)
        self._left_at = now
        self.seconds_waited += now - asked
        return item

    def alive(self) -> bool:
        """Whether this process is the one that owns the thread."""
        return self._process == _process

    def close(self) -> None:
        """End the thread and wait for it; what it had ready is dropped."""
        self._close()


def _run(shared: _Shared[T]) -> None:
    while True:
        try:
            shared.tickets.get(timeout=shared.look_after)
        except Empty:
            shared.look()
            continue
        shared.lock()
        try:
            if shared.closed:
                return
            shared.ready.append(next(shared.items))
        except BaseException as error:  # raised again where the item is asked for
            shared.error = error
            return
        finally:
            shared.making.release()


def _close(shared: _Shared[T], process: int) -> None:
    thread = shared.thread
    if process == _process and thread is not None:
        shared.closed = True
        shared.tickets.put(None)
        # A Ctrl-C while it was being started leaves it to end by itself.
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join()
