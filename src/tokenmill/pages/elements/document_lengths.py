"""Lengths of documents: of all of them, or of evenly spaced stretches of a large dataset.

With an index 8 bytes a document are read; without one the tokens themselves are looked through.
The stretches depend on the data alone, so the same dataset gets the same answer every time.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tokenmill.dataset import TokenDataset

MAX_DOCUMENTS = 8 << 20  # looked up in an index: 64 MB of it
MAX_TOKENS = 64 << 20  # looked through without one: 128 MB of uint16
BLOCK = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """Whole documents next to each other: document i is from bounds[i] to bounds[i + 1]."""

    bounds: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each document."""
        return np.diff(self.bounds)


@dataclass(frozen=True)
class Survey:
    """What is looked at."""

    data: TokenDataset
    ranges: list[tuple[int, int]]

    @property
    def is_whole(self) -> bool:
        """Whether that is everything."""
        return self.ranges == [(0, self.data.num_tokens)] or not self.data.num_tokens

    def stretches(self) -> Iterator[Stretch]:
        """The documents that lie whole in what is looked at, a block at a time."""
        for start, stop in self.ranges:
            last: int | None = 0 if start == 0 else None
            for low in range(start, stop, self._block()):
                high = min(low + self._block(), stop)
                bounds = self.data.document_ends(low, high)
                if last is not None:
                    bounds = np.concatenate([[last], bounds])
                if high == self.data.num_tokens and len(bounds) and bounds[-1] < high:
                    bounds = np.append(bounds, high)  # a document that the split cut
                if len(bounds):
                    last = int(bounds[-1])
                    yield Stretch(bounds)

    def _block(self) -> int:
        # An index answers for many tokens at once; without one, tokens are read.
        return BLOCK << 8 if self.data.num_documents is not None else BLOCK << 2


def survey(
    data: TokenDataset, *, max_documents: int = MAX_DOCUMENTS, max_tokens: int = MAX_TOKENS
) -> Survey:
    """All of the data, or evenly spaced parts within these bounds."""
    documents = data.num_documents
    if documents is None:
        return Survey(data, _spread(data.num_tokens, BLOCK, max(1, max_tokens // BLOCK)))
    if documents <= max_documents:
        return Survey(data, [(0, data.num_tokens)])
    per_shard = -(-documents // len(data.shards))
    chosen = np.linspace(0, len(data.shards) - 1, max(1, max_documents // per_shard)).astype(int)
    ranges = [(data.shards[i].start, data.shards[i].num_tokens) for i in np.unique(chosen).tolist()]
    # One enormous shard is looked at in part.
    most = max(1, data.num_tokens * max_documents // documents)
    return Survey(data, [(start, start + min(length, most)) for start, length in ranges])


def _spread(num_tokens: int, block: int, count: int) -> list[tuple[int, int]]:
    if num_tokens <= block * count:
        return [(0, num_tokens)]
    starts = np.linspace(0, num_tokens - block, count).astype(np.int64).tolist()
    return [(start, start + block) for start in starts]


def extremes(looked_at: Survey, count: int, *, longest: bool) -> list[tuple[int, int]]:
    """(start, stop) of the longest or shortest documents looked at; equals in their order."""
    sign = -1 if longest else 1
    best = np.empty((0, 3), np.int64)  # length with its sign, start, stop
    for stretch in looked_at.stretches():
        lengths = sign * stretch.lengths
        if len(lengths) > count:
            limit = np.partition(lengths, count - 1)[count - 1]
            below = np.flatnonzero(lengths < limit)
            picks = np.sort(np.append(below, np.flatnonzero(lengths == limit)[:count]))
        else:
            picks = np.arange(len(lengths))
        found = np.stack([lengths[picks], stretch.bounds[picks], stretch.bounds[picks + 1]], axis=1)
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0]))][:count]
    return [(int(start), int(stop)) for _, start, stop in best.tolist()]
