"""Pieces of files in memory: those that were used last, and those that are needed next.

A piece is a block of 1 MiB, or the bytes of one row. Pieces that come next are fetched in the order
of their need, several at a time; the next request starts when a piece was read.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import NamedTuple

from tokenmill.stores.stored_blocks import Block

MOST_BYTES = 96 << 20
MOST_UNREAD = 128
"""Pieces that are fetched before they are read; they take at most half of the memory."""
IN_PROGRESS = 48
"""Requests for such pieces at the same time."""


class Piece(NamedTuple):
    """Some bytes of the content of a file."""

    file: int
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


Begin = Callable[[Piece], "Future[Block]"]


class PiecesInMemory:
    """The pieces of one process; `begin` starts a request, `is_here` tells which need none."""

    def __init__(self, begin: Begin, is_here: Callable[[int], bool]) -> None:
        self._start_request = begin
        self._is_here = is_here
        self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._begun: OrderedDict[Piece, Future[Block]] = OrderedDict()
        self._waiting: deque[Piece] = deque()
        self._unread: set[Piece] = set()
        self._num_bytes = 0

    def expect(self, pieces: Iterable[Piece]) -> None:
        """Fetch these, in this order, instead of what was expected before."""
        with self._locked():
            coming = dict.fromkeys(pieces)
            self._unread &= coming.keys()
            self._waiting = deque(piece for piece in coming if piece not in self._begun)
            self._begin_more()

    def __contains__(self, piece: Piece) -> bool:
        with self._locked():
            return piece in self._begun

    def begin(self, piece: Piece) -> "Future[Block]":
        """Fetch a piece, if it is not here."""
        with self._locked():
            answer = self._begun.get(piece) or self._begin(piece)
            self._begun.move_to_end(piece)
            self._unread.discard(piece)
            self._begin_more()
            return answer

    def _locked(self) -> threading.Lock:
        if self._pid != os.getpid():
            self._forget()
        return self._lock

    def _begin_more(self) -> None:
        in_progress = sum(not self._begun[piece].done() for piece in self._unread)
        num_bytes = sum(piece.num_bytes for piece in self._unread)
        while (
            self._waiting
            and in_progress < IN_PROGRESS
            and len(self._unread) < MOST_UNREAD
            and 2 * num_bytes < MOST_BYTES
        ):
            piece = self._waiting.popleft()
            if piece not in self._begun and not self._is_here(piece.file):
                self._unread.add(piece)
                self._begin(piece)
                in_progress += 1
                num_bytes += piece.num_bytes

    def _begin(self, piece: Piece) -> "Future[Block]":
        answer = self._begun[piece] = self._start_request(piece)
        self._num_bytes += piece.num_bytes
        while self._num_bytes > MOST_BYTES:
            oldest = next(old for old in self._begun if old not in self._unread)
            del self._begun[oldest]
            self._num_bytes -= oldest.num_bytes
        return answer
