"""Both ways between a batch and the data: what was in a step, and when does a document come."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.order.sample_order import SampleOrder
from tokenmill.order.step_share import StepShare


class TokenPlace(NamedTuple):
    """Where one token of a dataset is."""

    position: int
    """On the axis of its split: data.tokens(position, position + 1)."""
    file: str
    offset: int
    """Tokens of the file before this one."""
    document: int | None
    """Number of the document, None where nothing says where documents end."""
    document_offset: int | None
    """Tokens of the document before this one."""

    def __str__(self) -> str:
        place = f"{self.file}, token {self.offset:,}"
        if self.document is not None:
            place += f"; document {self.document:,}, token {self.document_offset:,}"
        return place


class SamplePlace(NamedTuple):
    """Where one token of a batch comes from; from `position` on, the fields of its TokenPlace."""

    source: str
    epoch: int
    sample: int
    """The global sample number of the row."""
    position: int
    file: str
    offset: int
    document: int | None
    document_offset: int | None


class Visit(NamedTuple):
    """One row of one step that trains on what was asked for."""

    epoch: int
    step: int
    rank: int
    row: int


def place_of(data: TokenDataset, position: int) -> TokenPlace:
    """The file and the document of a token of the axis."""
    shard = int(np.searchsorted(data.shard_starts, position, side="right")) - 1
    document = data.document_at(position) if data.knows_documents else None
    return TokenPlace(
        position=position,
        file=data.shards[shard].file,
        offset=position - data.shards[shard].start,
        document=document,
        document_offset=None if document is None else position - data.document_range(document)[0],
    )


def place_in_row(
    datasets: Sequence[TokenDataset], order: SampleOrder, sample: int, column: int
) -> tuple[int, TokenPlace]:
    """The source of a sample, and where the token in a column of its row comes from."""
    samples = np.array([sample])
    if not order.rows_of_sources:
        sources, starts = order.locate(samples)
        return int(sources[0]), place_of(datasets[int(sources[0])], int(starts[0]) + column)
    sources, pieces = order.locate_pieces(samples)
    data, filled = datasets[int(sources[0])], int(pieces.filled[0])
    if column >= filled:
        raise IndexError(f"column {column} is padding; this row has tokens up to {filled - 1}")
    piece = int(np.searchsorted(pieces.columns, column, side="right")) - 1
    inside = column - int(pieces.columns[piece]) - int(pieces.begins[piece])
    place = place_of(data, int(pieces.starts[piece]) + max(0, inside))
    return int(sources[0]), place if inside >= 0 else place._replace(document_offset=-1)


def tokens_to_find(
    data: TokenDataset, order: SampleOrder, tokens: tuple[int, int]
) -> tuple[Any, ...]:
    """Tokens start .. stop-1 of the axis, as the order is asked for the samples that target them.

    For windows they stay as they are. For rows of documents: of each document that has some of
    them its start and length, and the first and the last (exclusive) of them in the document.
    """
    start, stop = tokens
    if not 0 <= start <= stop <= data.num_tokens:
        raise ValueError(
            f"tokens are {start} to {stop}; they must rise, within the {data.num_tokens:,} of the "
            "source"
        )
    if not order.rows_of_sources:
        return tokens
    if start == stop:
        return (np.empty(0, np.int64),) * 4
    first, _ = data.document_range(data.document_at(start))
    _, last = data.document_range(data.document_at(stop - 1))
    edges = np.unique(np.concatenate([[first, last], data.document_ends(start, stop)]))
    starts, lengths = edges[:-1], np.diff(edges)
    return starts, lengths, np.maximum(start - starts, 0), np.minimum(stop - starts, lengths)


def visits_of(
    order: SampleOrder,
    share: StepShare,
    source: int,
    tokens: tuple[int, int],
    where: tuple[Any, ...],
    epochs: Iterable[int],
    num_steps: int | None,
) -> list[Visit]:
    """The rows that train on some tokens of a source (`tokens_to_find`), as they come."""
    found = sorted(
        (sample, epoch) for epoch, sample in order.samples_targeting(source, tokens, where, epochs)
    )
    visits = [Visit(epoch, *share.taker_of(sample)) for sample, epoch in found]
    # Samples before the origin were served under another batch size; the tail is not served.
    return [v for v in visits if v.step >= 0 and (num_steps is None or v.step < num_steps)]
