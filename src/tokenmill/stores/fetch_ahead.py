"""What an order needs next is fetched by threads before it is asked for."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

import numpy as np

from tokenmill.order.spans import Spans
from tokenmill.reading.span_reader import SpanReader

Key = tuple[int, ...]
Value = TypeVar("Value")

ROWS_LOOKED_AT = 8192
"""Rows to come for which is planned what to fetch."""
ROWS_BETWEEN_LOOKS = 1024


class FetchAhead(Generic[Value]):
    """Results of `fetch(*key)`: at most `limit` of them are fetched before they are taken."""

    def __init__(self, fetch: Callable[..., Value], limit: int) -> None:
        self._fetch = fetch
        self._limit = limit
        self._forget()

    def __reduce__(self) -> tuple[object, ...]:
        return FetchAhead, (self._fetch, self._limit)

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._begun: dict[Key, Future[Value]] = {}
        self._waiting: deque[Key] = deque()
        self._threads = ThreadPoolExecutor(self._limit, "tokenmill-ahead")

    def expect(self, keys: Iterable[Key]) -> None:
        """Fetch these, in this order, instead of what was expected before."""
        with self._locked():
            coming = dict.fromkeys(keys)
            for key in self._begun.keys() - coming.keys():
                self._begun.pop(key).cancel()
            self._waiting = deque(key for key in coming if key not in self._begun)
            self._begin_more()

    def __contains__(self, key: Key) -> bool:
        return key in self._begun

    def take(self, *key: int) -> Value:
        """Return the result for a key: wait for it, or fetch it now."""
        with self._locked():
            result = self._begun.pop(key, None) or self._threads.submit(self._fetch, *key)
            self._begin_more()
        return result.result()

    def _begin_more(self) -> None:
        while self._waiting and len(self._begun) < self._limit:
            key = self._waiting.popleft()
            self._begun[key] = self._threads.submit(self._fetch, *key)

    def _locked(self) -> threading.Lock:
        if self._process != os.getpid():  # threads do not survive a fork
            self._forget()
        return self._lock


class AheadReader(SpanReader):
    """A reader that asks, from time to time, which spans come next, and has them fetched."""

    def __init__(
        self,
        reader: SpanReader,
        ahead: FetchAhead[Value],
        keys_of: Callable[[Spans], Sequence[Key]],
        most: int,
    ) -> None:
        """`keys_of` returns what `reader` will take from `ahead`, of which `most` are planned."""
        self._reader = reader
        self._ahead = ahead
        self._keys_of = keys_of
        self._most = most
        self._coming: Callable[[], Spans] | None = None
        self._rows_left = 0  # rows to read before the next look at what comes

    def follow(self, coming: Callable[[], Spans]) -> None:
        self._coming = coming

    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        if self._rows_left <= 0:
            self._look_ahead(spans if self._coming is None else self._coming())
        self._rows_left -= spans.num_rows
        self._reader.read(spans, out, continues)

    def _look_ahead(self, coming: Spans) -> None:
        num_rows = min(coming.num_rows, ROWS_LOOKED_AT, 8 * self._most)
        keys = self._keys_of(coming.between(0, num_rows))
        planned: dict[Key, None] = {}
        num_seen = 0
        while num_seen < len(keys) and len(planned) < self._most:
            planned[keys[num_seen]] = None
            num_seen += 1
        self._ahead.expect(planned)
        num_covered = num_rows * num_seen // max(1, len(keys))  # about
        self._rows_left = min(num_covered // 2, ROWS_BETWEEN_LOOKS)
