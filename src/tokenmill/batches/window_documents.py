"""Where documents begin in windows: by an index, for many steps at once, or by looking for an id.

The end-of-text id is looked for if it is known; it takes one comparison. A document that was cut
short where a shard ends may lack it, so the index is asked too about rows across such an edge. Data
without an id has an index, which needs no tokens: it is asked when rows are located.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tokenmill.batches.document_masks import DocumentMarks, mark_documents, mark_spans
from tokenmill.dataset import TokenDataset
from tokenmill.order.spans import Spans


class RowBegins(NamedTuple):
    """The tokens of some rows that begin a document; each row begins with one, and so does the end.

    Counted over all rows, one after the other, and rising.
    """

    places: np.ndarray
    length: int
    """Tokens of a row."""

    def between(self, low: int, high: int) -> "RowBegins":
        """Those of the rows low .. high - 1, counted from the first of them."""
        first, stop = low * self.length, high * self.length
        i, j = self.places.searchsorted((first, stop))
        return RowBegins(self.places[i : j + 1] - first, self.length)


class EndMark(NamedTuple):
    """The id that is beside every document of a source."""

    token_id: int
    comes: str | None
    """"before": the first token of a document; else its last one."""

    def fill(self, rows: np.ndarray, flags: np.ndarray) -> None:
        """Set the flags of all rows, and those after them: False where a document begins."""
        flags[0] = True
        flags[rows.size :] = True
        # An id at the end of a document says that the token after it begins another.
        flagged = flags[: rows.size] if self.comes == "before" else flags[1 : rows.size + 1]
        np.not_equal(rows.reshape(-1), self.token_id, out=flagged)

    def fill_some(self, rows: np.ndarray, chosen: np.ndarray, flags: np.ndarray) -> None:
        """Set the flags of some rows; `chosen` is (rows,) bool."""
        of_all = np.empty(rows.size + 1, bool)
        self.fill(rows, of_all)
        of_rows = flags[: rows.size].reshape(rows.shape)
        of_rows[chosen] = of_all[:-1].reshape(rows.shape)[chosen]


class PieceFields:
    """Fields of rows of documents: every span is a document."""

    def __init__(self, max_documents: int | None) -> None:
        self._max_documents = max_documents

    def locate(self, spans: Spans) -> None:
        """Nothing: the spans say all."""

    def marks(
        self, spans: Spans, tokens: np.ndarray, begins: RowBegins | None
    ) -> list[DocumentMarks]:
        """The fields of each batch; `tokens` are (batches, rows, length)."""
        return mark_spans(spans, tokens.shape, self._max_documents)


class WindowFields:
    """Fields of windows of one length, of one dataset or of several by turns."""

    def __init__(
        self, datasets: Sequence[TokenDataset], length: int, max_documents: int | None
    ) -> None:
        self._length = length
        self._datasets = datasets
        self._max_documents = max_documents
        self._by_index = [s for s, data in enumerate(datasets) if data.end_of_text_id is None]
        self._by_id: dict[EndMark, list[int]] = {}  # the sources that have each mark
        for s, data in enumerate(datasets):
            if data.end_of_text_id is not None:
                mark = EndMark(data.end_of_text_id, data.end_of_text_comes)
                self._by_id.setdefault(mark, []).append(s)

    def locate(self, spans: Spans) -> RowBegins | None:
        """Where documents begin, as far as the index is asked; None if no source needs it."""
        if not self._by_index:
            return None
        starts = spans.start
        tables = [np.arange(len(starts) + 1) * self._length]
        for s in self._by_index:
            (rows,) = (spans.source == s).nonzero()
            which, ends = self._datasets[s].document_ends_in_rows(starts[rows], self._length)
            tables.append(ends + (rows * self._length - starts[rows])[which])
        places = np.concatenate(tables)
        places.sort(kind="stable")  # each table is in order: they are merged
        # Empty documents end where the one before them ends.
        return RowBegins(places[np.diff(places, prepend=-1) > 0], self._length)

    def marks(
        self, spans: Spans, tokens: np.ndarray, begins: RowBegins | None
    ) -> list[DocumentMarks]:
        """The fields of each batch; `tokens` are (batches, rows, length)."""
        rows = tokens.reshape(-1, self._length)
        flags, places = self._find(spans, rows, self.locate(spans) if begins is None else begins)
        shape = (*tokens.shape[:2], self._length)
        return mark_documents(flags, places, shape, self._max_documents)

    def _find(
        self, spans: Spans, rows: np.ndarray, begins: RowBegins | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Flags: True for each token of the rows that continues the document before it.

        With them, where they are False, if that is known; then the flag of the first token of a row
        is False, and otherwise it means nothing. There is a flag for the end, and whole words of 8.
        """
        flags = np.empty(-(-(rows.size + 1) // 8) * 8, bool)
        if begins is not None:
            flags.fill(True)
            flags[begins.places] = False
            if not self._by_id:
                return flags, begins.places
        for mark, sources in self._by_id.items():
            if len(sources) == len(self._datasets):
                mark.fill(rows, flags)
            else:
                have_it = np.zeros(len(self._datasets), bool)
                have_it[sources] = True
                mark.fill_some(rows, have_it[spans.source], flags)
            for s in sources:
                self._ask_at_edges(s, spans, flags)
        flags[rows.size :] = True
        return flags, None

    def _ask_at_edges(self, source: int, spans: Spans, flags: np.ndarray) -> None:
        """Add what the index of a source says about its rows across an edge of shards."""
        data = self._datasets[source]
        edges = data.shard_starts
        if len(edges) == 2 or not data.has_index:
            return
        length = self._length
        (mine,) = (spans.source == source).nonzero()
        starts = spans.start[mine]
        across = edges[edges.searchsorted(starts, side="right")] < starts + length
        which, ends = data.document_ends_in_rows(starts[across], length)
        flags[mine[across][which] * length + (ends - starts[across][which])] = False
