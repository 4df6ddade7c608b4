"""What no span fills in rows of documents: begin tokens before documents, padding after them."""

from collections.abc import Callable, Sequence

import numpy as np

from tokenmill.base.histogram import Histogram
from tokenmill.dataset import TokenDataset
from tokenmill.errors import FormatError
from tokenmill.order.spans import Spans
from tokenmill.reading.span_reader import Cells, Flags, SpanReader


class PaddedReader(SpanReader):
    """Reads rows of documents, with begin tokens and padding around what another reader reads.

    Padding is the end-of-text id of the row's source, or 0 where there is none.
    """

    def __init__(
        self, reader: SpanReader, datasets: Sequence[TokenDataset], begin_token: int | None
    ) -> None:
        self._reader = reader
        self._datasets = datasets
        self._begin_token = begin_token
        self._ids = np.array([data.end_of_text_id or 0 for data in datasets], np.int64)

    def read(
        self, spans: Spans, out: np.ndarray, continues: Flags = None, cells: Cells = None
    ) -> None:
        first = int(spans.filled.min(initial=out.shape[1]))  # no column before it is padding
        ids = self._ids if len(self._ids) == 1 else self._ids[spans.row_sources]
        out[:, first:] = ids[:, None]
        self._reader.read(spans, out, continues, cells)
        if self._begin_token is None:
            return
        # One before each document; a document that begins with it by itself is refused.
        (after,) = spans.after_begin.nonzero()
        rows = spans.row[after]
        columns = spans.column[after]
        out[rows, columns - 1] = self._begin_token
        doubled = after[out[rows, columns] == self._begin_token]
        if len(doubled):
            data = self._datasets[int(spans.source[doubled[0]])]
            raise doubled_begin(data, int(spans.start[doubled[0]]))

    def follow(self, coming: Callable[[], Spans], fetches: Histogram) -> None:
        self._reader.follow(coming, fetches)


def check_begin_token(data: TokenDataset, begin_token: int, vocab_size: int | None) -> None:
    """Refuse an id that is not one of this data, or that its documents begin with already."""
    sizes = (data.stated_vocab_size, vocab_size)
    size = min((size for size in sizes if size is not None), default=None)
    largest = int(np.iinfo(data.dtype).max) if size is None else size - 1
    if not 0 <= begin_token <= largest:
        ids = f"{data.dtype} ids" if size is None else "its vocabulary"
        raise ValueError(
            f"begin_token is {begin_token:,}, which is not among {ids}: {data.path} has ids 0 "
            f"to {largest:,}"
        )
    if data.begin_token_id is not None:
        raise ValueError(
            f"begin_token is {begin_token:,}, but every document of {data.path} begins with the "
            f"begin token {data.begin_token_id:,} already: leave begin_token out"
        )
    if data.num_tokens and int(data[0]) == begin_token:
        raise doubled_begin(data, 0)


def doubled_begin(data: TokenDataset, position: int) -> FormatError:
    """The error for a document that begins with the begin token before one is put there."""
    return FormatError(
        f"document {data.document_at(position):,} of {data.path} begins with the begin token "
        f"{int(data[position])} already; one more would be put before it",
        hint="leave begin_token out: the files have it",
    )
