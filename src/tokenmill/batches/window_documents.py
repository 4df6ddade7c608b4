"""Which tokens of rows continue the document of the token before them.

In rows of documents the spans say it. In windows the end-of-text id does, if it is known: readers
look for it while they copy. A document that was cut short where a shard ends may lack it, so the
index is asked too about rows across such an edge. Data without an id has an index, which is asked
about all rows.
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.order.spans import Spans


def find_in_spans(spans: Spans, length: int) -> np.ndarray:
    """(rows, length) bool: False where a document begins, with its begin token, or padding is."""
    flags = np.ones((spans.num_rows, length), bool)
    filled = spans.filled
    first = int(filled.min(initial=length))  # no column before it is padding in any row
    flags[:, first:] = np.arange(first, length) < filled[:, None]
    flags.reshape(-1)[spans.row * length + spans.column - spans.after_begin] = False
    return flags


class FindByIndex:
    """Finds the documents of windows, as far as the index has to be asked."""

    def __init__(self, datasets: Sequence[TokenDataset]) -> None:
        self._datasets = {
            source: data
            for source, data in enumerate(datasets)
            if data.end_of_text_id is None or (len(data.shard_starts) > 2 and data.has_index)
        }

    def __call__(self, spans: Spans, length: int) -> np.ndarray:
        """(rows, length) bool: False where the index says that a document begins."""
        flags = np.ones((spans.num_rows, length), bool)
        for source, data in self._datasets.items():
            rows = np.flatnonzero(spans.source == source)
            starts = spans.start[rows]
            if data.end_of_text_id is not None:
                next_edges = data.shard_starts[data.shard_starts.searchsorted(starts, "right")]
                across = next_edges < starts + length
                rows = rows[across]
                starts = starts[across]
            if len(rows):
                which, ends = data.document_ends_in_rows(starts, length)
                flags[rows[which], ends - starts[which]] = False
        return flags
