"""A few batches made ready by one thread while the training loop is busy elsewhere.

Handing a batch from thread to thread costs about 30 us, half of what making one costs: a loop that
comes back immediately would be slowed by it. So owner and thread share one iterator under a lock:
the owner takes what is ready, or makes the next item itself; and it lets the thread run ahead, by
tickets, only when it was away for longer than `WORTH_A_THREAD`.

The thread knows only the iterator and the queues, not the Prefetcher, so that dropping the loader
(or Ctrl-C, or the end of the program) closes the queues and ends the thread. What goes wrong in it
is raised where the item is asked for. A fork copies no threads: a child makes a new one (`alive`).

Each of the two notices when the other is stalled: it waits for the lock, or for a ticket, only so
long before it looks, and logs what the other is waiting for.
"""

import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from tokenmill.base.histogram import NOTICED
from tokenmill.base.stalls import described, long_waits
from tokenmill.batches.stage_times import StageTimes

T = TypeVar("T")
log = logging.getLogger("tokenmill")

WORTH_A_THREAD = 200e-6  # seconds between two calls

_process = 0  # another number in each fork; os.getpid() is a system call, too slow for every batch


def _count_fork() -> None:
    global _process
    _process += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class _Shared(Generic[T]):
    """What owner and thread have in common."""

    def __init__(
        self, items: Iterator[T], stall_seconds: float, describe: Callable[[], str]
    ) -> None:
        self.items = items
        self.stall_seconds = stall_seconds
        self.look_after = min(stall_seconds / 4, 3600.0)  # seconds
        self.describe = describe  # says what is being made
        self.began = 0.0  # when the last item was
        self.logged = 0.0  # when the last stall was
        self.owner = threading.get_ident()
        self.making = threading.Lock()  # held while an item is made, until it is in its place
        self.ready: deque[T] = deque()
        self.tickets: SimpleQueue[None] = SimpleQueue()
        self.closed = False
        self.error: BaseException | None = None
        self.thread: threading.Thread | None = None


class Prefetcher(Generic[T]):
    """An iterator that a thread runs ahead of, by at most `depth` items (0: there is no thread)."""

    def __init__(
        self,
        items: Iterator[T],
        depth: int,
        times: StageTimes | None = None,
        *,
        stall_seconds: float = 30.0,
        describe: Callable[[], str] = lambda: "a batch",
    ) -> None:
        self._shared = _Shared(items, stall_seconds, describe)
        self._times = times or StageTimes()
        self._depth = depth
        self._ahead = 0  # items that the thread has been given a ticket for and we have not taken
        self._left_at = 0.0
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
                _take_lock(shared, shared.thread.ident if shared.thread else None)
            try:
                if not shared.ready:
                    if shared.error is not None:
                        raise shared.error
                    shared.began = asked
                    return self._leave(next(shared.items), asked)
            finally:
                shared.making.release()
        self._ahead -= 1
        return self._leave(shared.ready.popleft(), asked)

    def _leave(self, item: T, asked: float) -> T:
        times = self._times
        if asked - self._left_at > WORTH_A_THREAD:
            shared = self._shared
            times.num_pauses += 1
            times.num_ready += len(shared.ready)
            while self._ahead < self._depth:
                self._ahead += 1
                shared.tickets.put(None)
        self._left_at = time.perf_counter()
        waited = self._left_at - asked
        times.seconds_waited += waited
        if waited > NOTICED:
            times.wait.add(waited)
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
            _log_stall(shared, shared.owner)
            continue
        _take_lock(shared, shared.owner)
        try:
            if shared.closed:
                return
            shared.began = time.perf_counter()
            shared.ready.append(next(shared.items))
        except BaseException as error:  # raised again where the item is asked for
            shared.error = error
            return
        finally:
            shared.making.release()


def _take_lock(shared: _Shared[T], holder: int | None) -> None:
    while not shared.making.acquire(timeout=shared.look_after):
        _log_stall(shared, holder)


def _log_stall(shared: _Shared[T], maker: int | None) -> None:
    """Log what is waited for, if that takes too long; `maker` is the thread that makes items."""
    now = time.perf_counter()
    limit = shared.stall_seconds
    taken = now - shared.began if shared.making.locked() else 0.0
    waits = long_waits(limit if taken < limit else limit / 2)  # it began some time after the item
    if not waits and taken >= limit:
        waits = [described(shared.describe(), taken, maker)]
    if waits and now - shared.logged >= limit:
        shared.logged = now
        log.warning("stalled: waiting for %s (waits of this process: %d)", waits[0], len(waits))


def _close(shared: _Shared[T], process: int) -> None:
    thread = shared.thread
    if process == _process and thread is not None:
        shared.closed = True
        shared.tickets.put(None)
        # A Ctrl-C while it was being started leaves it to end by itself.
        if thread.is_alive() and thread is not threading.current_thread():
            thread.join()
