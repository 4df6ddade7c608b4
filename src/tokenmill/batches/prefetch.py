"""A few batches made ready by one thread, which never outlives its owner.

The thread knows only the iterator and two queues, not the Prefetcher, so that dropping the loader
(or Ctrl-C, or the end of the program) closes the queues and ends the thread. Tickets bound how far
it runs ahead: it takes one before each batch, the owner hands one back for each batch taken. What
goes wrong in the thread is raised where the batch is asked for.

A fork copies no threads: the owner must make a new Prefetcher in the child (see `alive`).
"""

import os
import threading
import weakref
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Direct(Generic[T]):
    """The same without a thread: items are made when they are asked for."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def __next__(self) -> T:
        return next(self._items)

    def alive(self) -> bool:
        """Always: there is no thread that a fork could lose."""
        return True

    def close(self) -> None:
        """Nothing to end."""


class _End:
    """Put in the place of a batch when there are no more: why."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class Prefetcher(Generic[T]):
    """An iterator that another thread runs ahead of, by at most `depth` items."""

    def __init__(self, items: Iterator[T], depth: int) -> None:
        self._ready: SimpleQueue[T | _End] = SimpleQueue()
        self._tickets: SimpleQueue[None] = SimpleQueue()
        self._pid = os.getpid()
        for _ in range(depth):
            self._tickets.put(None)
        closed = threading.Event()
        self.thread = threading.Thread(
            target=_run,
            args=(items, self._ready, self._tickets, closed),
            name="tokenmill-prefetch",
            # The interpreter waits for other threads before it runs the finalizer that ends ours.
            daemon=True,
        )
        self._close = weakref.finalize(self, _close, self._tickets, closed, self.thread, self._pid)
        self.thread.start()

    def __iter__(self) -> "Prefetcher[T]":
        return self

    def __next__(self) -> T:
        item = self._ready.get()
        if isinstance(item, _End):
            self._ready.put(item)
            if item.error is None:
                raise StopIteration
            raise item.error
        self._tickets.put(None)
        return item

    def alive(self) -> bool:
        """Whether this process is the one that owns the thread."""
        return self._pid == os.getpid()

    def close(self) -> None:
        """End the thread and wait for it; what it had ready is dropped."""
        self._close()


def _run(
    items: Iterator[T],
    ready: "SimpleQueue[T | _End]",
    tickets: "SimpleQueue[None]",
    closed: threading.Event,
) -> None:
    try:
        while True:
            tickets.get()
            if closed.is_set():
                return
            ready.put(next(items))
    except StopIteration:
        ready.put(_End(None))
    except BaseException as error:  # raised again in the thread that asks for the batch
        ready.put(_End(error))


def _close(
    tickets: "SimpleQueue[None]", closed: threading.Event, thread: threading.Thread, pid: int
) -> None:
    if pid == os.getpid():
        closed.set()
        tickets.put(None)
        if thread.ident is not None and thread is not threading.current_thread():
            thread.join()
