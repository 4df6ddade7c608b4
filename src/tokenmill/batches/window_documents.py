"""Where documents begin in windows: by the end-of-text id, or by an index.

The end-of-text id is looked for if it is known; it takes one comparison. A document that was cut
short where a shard ends may lack it, so the index is asked too about rows across such an edge. Data
without an id has an index, which is asked about all rows.
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.batches.document_masks import DocumentMarks, mark_windows
from tokenmill.dataset import TokenDataset
from tokenmill.order.spans import Spans

EndMark = tuple[int | None, str | None]
"""The end-of-text id of a source, and where it is: "before" documents, or at their end."""


class WindowDocuments:
    """Marks the documents in windows of one dataset, or of several by turns."""

    def __init__(self, datasets: Sequence[TokenDataset], max_documents: int | None) -> None:
        self._datasets = datasets
        self._max_documents = max_documents
        self._sources: dict[EndMark, list[int]] = {}  # the sources that have each mark
        for source, data in enumerate(datasets):
            mark = data.end_of_text_id, data.end_of_text_comes
            self._sources.setdefault(mark, []).append(source)

    def __call__(self, spans: Spans, tokens: np.ndarray) -> list[DocumentMarks]:
        """Return the fields of each batch; `tokens` are (batches, rows, length)."""
        rows = tokens.reshape(-1, tokens.shape[-1])
        flags = np.empty(-(-(rows.size + 1) // 8) * 8, bool)
        if len(self._sources) == 1:
            _fill(next(iter(self._sources)), rows, flags)
        else:
            for mark, sources in self._sources.items():
                of_mark = np.empty_like(flags)
                _fill(mark, rows, of_mark)
                chosen = np.isin(spans.source, sources)
                flags[: rows.size].reshape(rows.shape)[chosen] = of_mark[: rows.size].reshape(
                    rows.shape
                )[chosen]
        for source in range(len(self._datasets)):
            self._ask_index(source, spans, rows.shape[1], flags)
        return mark_windows(flags, tokens.shape, self._max_documents)

    def _ask_index(self, source: int, spans: Spans, length: int, flags: np.ndarray) -> None:
        """Add what the index of a source says, where the id does not suffice."""
        data = self._datasets[source]
        edges = data.shard_starts
        has_id = data.end_of_text_id is not None
        if has_id and (len(edges) == 2 or not data.has_index):
            return
        (rows,) = (spans.source == source).nonzero()
        starts = spans.start[rows]
        if has_id:
            across = edges[edges.searchsorted(starts, side="right")] < starts + length
            rows = rows[across]
            starts = starts[across]
        which, ends = data.document_ends_in_rows(starts, length)
        flags[rows[which] * length + (ends - starts[which])] = False


def _fill(mark: EndMark, rows: np.ndarray, flags: np.ndarray) -> None:
    """Set the flags of all tokens: False where one begins a document by its end-of-text id."""
    token_id, comes = mark
    if token_id is None:
        flags.fill(True)
        return
    # An id at the end of a document says that the token after it begins another.
    flagged = flags[: rows.size] if comes == "before" else flags[1 : rows.size + 1]
    np.not_equal(rows.reshape(-1), token_id, out=flagged)
