"""Both ways between a batch and the data: from a step to its tokens, from tokens to their steps."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.order.order import Order
from tokenmill.order.step_share import StepShare


class TokenPlace(NamedTuple):
    """The file, document and offset of one token of a dataset."""

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


class SamplePlaceWithFacts(SamplePlace):
    """The same in data that keeps facts of its documents."""

    facts: dict[str, Any]
    """Of the document: its file, row, url..."""

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, facts={self.facts!r})"


class Visit(NamedTuple):
    """One row of one step that trains on what was asked for."""

    epoch: int
    step: int
    rank: int
    row: int


def one_line_of(row: dict[str, Any]) -> str:
    """Return facts in one line, as `crawl.jsonl row 17, url https://...`."""
    known = {name: value for name, value in row.items() if name not in ("source", "row", "byte")}
    place = next((f" {name} {row[name]:,}" for name in ("row", "byte") if name in row), "")
    words = [f"{row['source']}{place}"] if "source" in row else []
    return ", ".join([*words, *(f"{name} {value}" for name, value in known.items())])


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
    datasets: Sequence[TokenDataset], order: Order, sample: int, column: int
) -> tuple[int, TokenPlace]:
    """The source of a sample, and where the token in a column of its row comes from."""
    spans = order.rows(np.array([sample]))
    filled = int(spans.filled[0])
    if column >= filled:
        raise IndexError(f"column {column} is padding; this row has tokens up to {filled - 1}")
    # A column that no span fills is a begin token, which belongs to the span after it.
    span = int(np.searchsorted(spans.column + spans.length, column, side="right"))
    inside = column - int(spans.column[span])
    source = int(spans.source[span])
    place = place_of(datasets[source], int(spans.start[span]) + max(0, inside))
    return source, place if inside >= 0 else place._replace(document_offset=-1)


def visits_of(
    targeting: list[tuple[int, int]], share: StepShare, num_steps: int | None
) -> list[Visit]:
    """The rows of these samples, (epoch, sample) each, as they come."""
    visits = [
        Visit(epoch, *share.taker_of(sample))
        for sample, epoch in sorted((sample, epoch) for epoch, sample in targeting)
    ]
    # Samples before the origin were served under another batch size; the tail is not served.
    return [v for v in visits if v.step >= 0 and (num_steps is None or v.step < num_steps)]
