"""Both ways between a batch and the data: what was in a step, and when does a document come."""

from collections.abc import Iterable
from typing import NamedTuple

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


def visits_of(
    order: SampleOrder,
    share: StepShare,
    source: int,
    tokens: tuple[int, int],
    epochs: Iterable[int],
    num_steps: int | None,
) -> list[Visit]:
    """The rows that train on tokens start .. stop-1 of a source, in the order they come."""
    start, stop = tokens
    num_tokens = order.sources[source].windows.num_tokens
    if not 0 <= start <= stop <= num_tokens:
        raise ValueError(
            f"tokens are {start} to {stop}; they must rise, within the {num_tokens:,} of the source"
        )
    found = sorted(
        (sample, epoch) for epoch, sample in order.samples_targeting(source, start, stop, epochs)
    )
    visits = [Visit(epoch, *share.taker_of(sample)) for sample, epoch in found]
    # Samples before the origin were served under another batch size; the tail is not served.
    return [v for v in visits if v.step >= 0 and (num_steps is None or v.step < num_steps)]
