"""Which tokens of rows continue the document of the token before them.

In rows of documents the spans say it. In windows the end-of-text id does, if it is known: readers
look for it while they copy. A document that was cut short where a shard ends may lack it, so the
index is asked too about rows across such an edge. Data without an id has an index, which is asked
about all rows.
"""

from collections.abc import Sequence

import numpy as np

from tokenmill.batches.batch import Located
from tokenmill.dataset import TokenDataset


def find_in_spans(located: Located, low: int, high: int, length: int) -> np.ndarray:
    """(rows, length) bool: False where a document begins, with its begin token, or padding is."""
    spans = located.copies_of(low, high)
    flags = np.ones((spans.num_rows, length), bool)
    filled = spans.filled
    first = int(filled.min(initial=length))  # no column before it is padding in any row
    flags[:, first:] = np.arange(first, length) < filled[:, None]
    flags.reshape(-1)[spans.row * length + spans.column - spans.after_begin] = False
    return flags


class FindByIndex:
    """Finds the documents of windows, as far as the index has to be asked: once for many steps."""

    def __init__(self, datasets: Sequence[TokenDataset]) -> None:
        self._datasets = {
            source: data
            for source, data in enumerate(datasets)
            if data.end_of_text_id is None or (len(data.shard_starts) > 2 and data.has_index)
        }
        self._latest: tuple[Located, np.ndarray] | None = None

    def __call__(self, located: Located, low: int, high: int, length: int) -> np.ndarray:
        """(rows, length) bool: False where the index says that a document begins."""
        if self._latest is None or self._latest[0] is not located:
            self._latest = located, self._begins(located, length)
        _, begins = self._latest
        first, end = (step * located.samples.shape[1] * length for step in (low, high))
        i, j = begins.searchsorted((first, end))
        flags = np.ones(end - first, bool)
        flags[begins[i:j] - first] = False
        return flags.reshape(-1, length)

    def _begins(self, located: Located, length: int) -> np.ndarray:
        """Where documents begin in the flat rows of all steps, ascending."""
        found = [np.empty(0, np.int64)]
        for source, data in self._datasets.items():
            rows = np.flatnonzero(located.spans.source == source)
            starts = located.spans.start[rows]
            if data.end_of_text_id is not None:
                next_edges = data.shard_starts[data.shard_starts.searchsorted(starts, "right")]
                across = next_edges < starts + length
                rows = rows[across]
                starts = starts[across]
            which, ends = data.document_ends_in_rows(starts, length)
            found.append(rows[which] * length + ends - starts[which])
        return np.sort(np.concatenate(found), kind="stable")
