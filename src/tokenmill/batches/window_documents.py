"""Which tokens of rows continue the document of the token before them.

In rows of documents the spans say it. In windows the end-of-text id does, if it is known: readers
look for it while they copy. A document that was cut short where a shard ends may lack it, so the
index is asked too about rows across such an edge. Data without an id has an index, which needs no
tokens: it is asked for many steps together, when rows are located.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.order.spans import Spans


class RowBegins(NamedTuple):
    """The tokens of some rows that begin a document, counted over all rows, and rising."""

    places: np.ndarray
    length: int
    """Tokens of a row."""

    def between(self, low: int, high: int) -> "RowBegins":
        """Those of the rows low .. high - 1, counted from the first of them."""
        first = low * self.length
        i, j = self.places.searchsorted((first, high * self.length))
        return RowBegins(self.places[i:j] - first, self.length)


class PieceFields:
    """Rows of documents: every span is a document, with the begin token before it."""

    looks_at_tokens = False

    def locate(self, spans: Spans) -> None:
        """Nothing: the spans say all."""

    def continues(self, spans: Spans, begins: RowBegins | None, length: int) -> np.ndarray:
        """(rows, length) bool: True for each token that continues the document before it."""
        flags = np.ones((spans.num_rows, length), bool)
        filled = spans.filled
        first = int(filled.min(initial=length))  # no column before it is padding in any row
        flags[:, first:] = np.arange(first, length) < filled[:, None]
        flags.reshape(-1)[spans.row * length + spans.column - spans.after_begin] = False
        return flags


class WindowFields:
    """Windows of one length, of one dataset or of several by turns."""

    def __init__(self, datasets: Sequence[TokenDataset], length: int) -> None:
        self._length = length
        self._datasets = datasets
        self._by_index = [s for s, data in enumerate(datasets) if data.end_of_text_id is None]
        self._with_edges = [
            s
            for s, data in enumerate(datasets)
            if data.end_of_text_id is not None and len(data.shard_starts) > 2 and data.has_index
        ]
        self.looks_at_tokens = len(self._by_index) < len(datasets)

    def locate(self, spans: Spans) -> RowBegins | None:
        """Where documents begin, as far as the index is asked; None if no source needs it."""
        if not self._by_index and not self._with_edges:
            return None
        places = [np.empty(0, np.int64)]
        for s in (*self._by_index, *self._with_edges):
            data = self._datasets[s]
            rows = np.flatnonzero(spans.source == s)
            if s in self._with_edges:
                next_edges = data.shard_starts[
                    data.shard_starts.searchsorted(spans.start[rows], "right")
                ]
                rows = rows[next_edges < spans.start[rows] + self._length]
            starts = spans.start[rows]
            which, ends = data.document_ends_in_rows(starts, self._length)
            places.append(ends + (rows * self._length - starts)[which])
        return RowBegins(np.sort(np.concatenate(places)), self._length)

    def continues(self, spans: Spans, begins: RowBegins | None, length: int) -> np.ndarray:
        """(rows, length) bool: False where the index says that a document begins."""
        flags = np.ones((spans.num_rows, length), bool)
        begins = self.locate(spans) if begins is None else begins
        if begins is not None:
            flags.reshape(-1)[begins.places] = False
        return flags
