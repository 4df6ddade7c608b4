"""Spans of files in a store: what comes next is fetched ahead, what is here is mapped."""

from collections.abc import Callable

import numpy as np

from tokenmill.order.order import Spread
from tokenmill.order.spans import Spans, runs
from tokenmill.reading.span_reader import FileReader, IdLimit, RunReader, SpanReader
from tokenmill.stores.store_reader import StoreReader

ROWS_AT_ONCE = 1024
"""Rows after which the reader looks again at what comes."""


class StoreSpans(SpanReader):
    """A reader that asks, from time to time, which spans come next, and has them fetched."""

    def __init__(
        self, reader: StoreReader, edges: np.ndarray, spread: Spread, ids: IdLimit
    ) -> None:
        dtype = reader.files[0].dtype
        self._reader = reader
        self._edges = edges
        self._spread = spread
        self._mapped = RunReader(edges, dtype, reader.array, reader.max_open, ids)
        self._by_range = FileReader(edges, dtype, reader.read_into, ids)
        self._coming: Callable[[], Spans] | None = None
        self._rows_left = 0  # rows to read before the next look at what comes

    def follow(self, coming: Callable[[], Spans]) -> None:
        self._coming = coming

    def read(self, spans: Spans, out: np.ndarray, continues: np.ndarray | None = None) -> None:
        if self._rows_left <= 0:
            self._fetch_ahead(spans if self._coming is None else self._coming())
        self._rows_left -= spans.num_rows
        files = set(self._parts(spans)[:, 0].tolist())
        is_mapped = self._reader.backend == "mmap" and self._reader.are_here(files)
        (self._mapped if is_mapped else self._by_range).read(spans, out, continues)

    def _fetch_ahead(self, coming: Spans) -> None:
        parts = self._parts(coming)
        all_here = not len(parts) or self._reader.expect(parts, self._spread)
        self._rows_left = coming.num_rows if all_here else min(coming.num_rows, ROWS_AT_ONCE)

    def _parts(self, spans: Spans) -> np.ndarray:
        """(parts, 3): file, first token in it, and tokens, of each span or part of a span."""
        stop = spans.start + spans.length
        first = np.searchsorted(self._edges, spans.start, side="right") - 1
        last = np.searchsorted(self._edges, stop, side="left") - 1
        span, file = runs(first, last - first + 1)
        low = np.maximum(spans.start[span], self._edges[file])
        high = np.minimum(stop[span], self._edges[file + 1])
        parts = np.stack([file, low - self._edges[file], high - low], axis=1)
        return parts[parts[:, 2] > 0]
