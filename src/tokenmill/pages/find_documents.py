"""Documents found with bounded work, whatever the size of the data.

With an index (8 bytes per document) a document has a number. Without one it is named by the place
of its first token, and looked for at most LOOK tokens away. Where nothing says how documents end,
windows of a fixed length take their place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.look.show import document_range
from tokenmill.look.token_sample import ranges_within

LOOK = 1 << 20  # tokens looked through for the end of one document, in both directions
WINDOW = 1024
MAX_DOCUMENTS = 8 << 20  # looked up in an index: 64 MB of it
MAX_TOKENS = 64 << 20  # looked through without one: 128 MB of uint16
BLOCK_TOKENS = 1 << 20

Ranges = list[tuple[int, int]]
Fields = dict[str, int]
"""The fields that name a document in an address."""


@dataclass(frozen=True)
class Extent:
    """A document, or a window that takes its place."""

    start: int
    stop: int
    number: int | None = None
    """Number of the document, with an index."""
    whole: bool = True
    """False when its beginning or end was not found within LOOK tokens."""
    noun: str = "document"

    @property
    def name(self) -> str:
        if self.number is not None:
            return f"document {self.number:,}"
        return f"{self.noun} at token {self.start:,}"

    @property
    def query(self) -> Fields:
        return {"at": self.start} if self.number is None else {"n": self.number}


def noun_of(data: TokenDataset) -> str:
    """What is listed of this data."""
    return "document" if data.knows_documents else "window"


def numbered(data: TokenDataset, number: int) -> Extent:
    """Document `number`; needs an index."""
    if data.num_documents is None:
        raise ValueError("documents of this data have no numbers: it has no index")
    return Extent(*document_range(data, number), number)


def holding(data: TokenDataset, position: int) -> Extent:
    """The document that holds this token."""
    total = data.num_tokens
    if not 0 <= position < total:
        raise ValueError(f"there is no token {position:,}: it has {total:,}, from 0")
    if data.num_documents is not None:
        return numbered(data, data.document_at(position))
    low = max(0, position - LOOK)
    high = min(position + LOOK, total)
    before = _ends(data, low, position)
    after = _ends(data, position, high)
    whole = (len(before) > 0 or low == 0) and (len(after) > 0 or high == total)
    start = int(before[-1]) if len(before) else low
    return Extent(start, int(after[0]) if len(after) else high, None, whole, noun_of(data))


def page_of(
    data: TokenDataset, size: int, *, n: int | None = None, at: int | None = None
) -> tuple[list[Extent], Fields | None, Fields | None]:
    """`size` documents from number n, or from a token, on; then the pages before and after."""
    total = data.num_tokens
    if not total:
        return [], None, None
    if data.num_documents is not None:
        first = n or 0 if at is None else data.document_at(at)
        numbered(data, first)  # an error, if there is none
        stop = min(first + size, data.num_documents)
        before = {"n": max(0, first - size)} if first else None
        after = {"n": stop} if stop < data.num_documents else None
        return [numbered(data, number) for number in range(first, stop)], before, after
    start = holding(data, at or 0).start
    noun = noun_of(data)
    high = min(start + LOOK, total)
    bounds = [start, *_ends(data, start, high)[:size].tolist()]
    extents = [Extent(a, b, noun=noun) for a, b in pairwise(bounds)]
    if len(extents) < size and bounds[-1] < high:
        extents.append(Extent(bounds[-1], high, whole=high == total, noun=noun))
    stop = extents[-1].stop
    # `size` documents earlier, or as far back as was looked.
    back = _ends(data, max(0, start - LOOK), max(0, start - 1))
    earlier = int(back[-size]) if len(back) >= size else max(0, start - LOOK)
    before = {"at": earlier} if start else None
    return extents, before, {"at": stop} if stop < total else None


def _ends(data: TokenDataset, low: int, high: int) -> np.ndarray:
    """Ends of documents, or of windows, after `low` and up to `high`."""
    if data.knows_documents:
        return data.document_ends(low, high)
    return np.arange(low - low % WINDOW + WINDOW, high + 1, WINDOW)


def survey(
    data: TokenDataset, *, max_documents: int = MAX_DOCUMENTS, max_tokens: int = MAX_TOKENS
) -> Ranges:
    """All of the data, or evenly spaced parts within these bounds."""
    total = data.num_tokens
    if not data.num_documents:
        return ranges_within(max_tokens, BLOCK_TOKENS, 0, total)
    tokens = -(-total * max_documents // data.num_documents)  # of that many documents
    return ranges_within(tokens, BLOCK_TOKENS << 4, 0, total)


def bounds_in(data: TokenDataset, ranges: Ranges) -> Iterator[np.ndarray]:
    """Bounds of the whole documents in these parts, a block at a time.

    Document i of a block is from bounds[i] to bounds[i + 1].
    """
    # An index answers for many tokens at once; without one, tokens are read.
    block = BLOCK_TOKENS << (2 if data.num_documents is None else 8)
    for start, stop in ranges:
        last = np.zeros(0 if start else 1, np.int64)  # where the first document begins
        for low in range(start, stop, block):
            high = min(low + block, stop)
            bounds = np.concatenate([last, data.document_ends(low, high)])
            if high == data.num_tokens and len(bounds) and bounds[-1] < high:
                bounds = np.append(bounds, high)  # a document that the split cut
            if len(bounds):
                last = bounds[-1:]
                yield bounds


def extremes(data: TokenDataset, ranges: Ranges, count: int, *, longest: bool) -> Ranges:
    """(start, stop) of the longest or shortest documents; equal ones in their order."""
    sign = -1 if longest else 1
    best = np.empty((0, 3), np.int64)  # length with its sign, start, stop
    for bounds in bounds_in(data, ranges):
        lengths = sign * np.diff(bounds)
        picks = np.argsort(lengths, kind="stable")[:count]
        found = np.stack([lengths[picks], bounds[picks], bounds[picks + 1]], axis=1)
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0]))][:count]
    return [(start, stop) for _, start, stop in best.tolist()]
