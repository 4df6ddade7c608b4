"""Documents found with bounded work, whatever the size of the data.

With an index a document has a number. Without one its number could only be had by reading all
tokens before it, so it is named by the place of its first token, and looked for at most LOOK tokens
away. Where nothing says how documents end, windows of a fixed length take their place.

Lengths are those of all documents, or of evenly spaced stretches of a large dataset. With an index
8 bytes per document are read; without one the tokens themselves are looked through. The stretches
depend on the data alone, so the same dataset gets the same answer every time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tokenmill.dataset import TokenDataset
from tokenmill.look.token_sample import ranges_within

LOOK = 1 << 20  # tokens looked through for the end of one document, in both directions
WINDOW = 1024
MAX_DOCUMENTS = 8 << 20  # looked up in an index: 64 MB of it
MAX_TOKENS = 64 << 20  # looked through without one: 128 MB of uint16
BLOCK_TOKENS = 1 << 20


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
    def query(self) -> dict[str, int]:
        """The field that names it in an address."""
        return {"at": self.start} if self.number is None else {"n": self.number}


class DocumentPage(NamedTuple):
    """Neighbouring documents, and the fields that name the pages around them in an address."""

    extents: list[Extent]
    before: dict[str, int] | None = None
    after: dict[str, int] | None = None


class DocumentFinder:
    """Finds the documents of a split."""

    def __init__(self, data: TokenDataset) -> None:
        self.data = data
        self.count = data.num_documents if data.knows_documents else None
        self.noun = "document" if data.knows_documents else "window"

    def numbered(self, number: int) -> Extent:
        """Document `number`; needs an index."""
        if self.count is None:
            raise ValueError("documents of this data have no numbers: it has no index")
        if not 0 <= number < self.count:
            raise ValueError(f"there is no document {number:,}: it has {self.count:,}, from 0")
        return Extent(*self.data.document_range(number), number)

    def at(self, position: int) -> Extent:
        """The document that holds this token."""
        total = self.data.num_tokens
        if not 0 <= position < total:
            raise ValueError(f"there is no token {position:,}: it has {total:,}, from 0")
        if self.count is not None:
            return self.numbered(self.data.document_at(position))
        low = max(0, position - LOOK)
        high = min(position + LOOK, total)
        before = self._ends(low, position)
        after = self._ends(position, high)
        whole = (len(before) > 0 or low == 0) and (len(after) > 0 or high == total)
        start = int(before[-1]) if len(before) else low
        return Extent(start, int(after[0]) if len(after) else high, whole=whole, noun=self.noun)

    def page(self, size: int, *, n: int | None = None, at: int | None = None) -> DocumentPage:
        """`size` documents from number n, or from the one at a token, on."""
        if not self.data.num_tokens:
            return DocumentPage([])
        if self.count is None:
            return self._page_from(self.at(at or 0).start, size)
        first = n or 0 if at is None else self.data.document_at(at)
        self.numbered(first)  # an error, if there is none
        stop = min(first + size, self.count)
        extents = [self.numbered(number) for number in range(first, stop)]
        before = {"n": max(0, first - size)} if first else None
        return DocumentPage(extents, before, {"n": stop} if stop < self.count else None)

    def _page_from(self, start: int, size: int) -> DocumentPage:
        """Documents without an index from this token on."""
        total = self.data.num_tokens
        high = min(start + LOOK, total)
        bounds = [start, *self._ends(start, high)[:size].tolist()]
        extents = [Extent(a, b, noun=self.noun) for a, b in pairwise(bounds)]
        if len(extents) < size and bounds[-1] < high:
            extents.append(Extent(bounds[-1], high, whole=high == total, noun=self.noun))
        stop = extents[-1].stop
        # `size` documents earlier, or as far back as was looked.
        back = self._ends(max(0, start - LOOK), max(0, start - 1))
        earlier = int(back[-size]) if len(back) >= size else max(0, start - LOOK)
        before = {"at": earlier} if start else None
        return DocumentPage(extents, before, {"at": stop} if stop < total else None)

    def _ends(self, low: int, high: int) -> np.ndarray:
        """Ends of documents, or of windows, after `low` and up to `high`."""
        if self.data.knows_documents:
            return self.data.document_ends(low, high)
        return np.arange(low - low % WINDOW + WINDOW, high + 1, WINDOW)


@dataclass(frozen=True)
class Survey:
    """The parts of a split whose documents are looked at."""

    data: TokenDataset
    ranges: list[tuple[int, int]]

    @property
    def is_whole(self) -> bool:
        return self.ranges == [(0, self.data.num_tokens)]

    def stretches(self) -> Iterator[np.ndarray]:
        """Bounds of the whole documents in these parts, a block at a time.

        Document i of a stretch is from bounds[i] to bounds[i + 1].
        """
        # An index answers for many tokens at once; without one, tokens are read.
        block = BLOCK_TOKENS << (2 if self.data.num_documents is None else 8)
        for start, stop in self.ranges:
            last = np.zeros(0 if start else 1, np.int64)  # where the first document begins
            for low in range(start, stop, block):
                high = min(low + block, stop)
                bounds = np.concatenate([last, self.data.document_ends(low, high)])
                if high == self.data.num_tokens and len(bounds) and bounds[-1] < high:
                    bounds = np.append(bounds, high)  # a document that the split cut
                if len(bounds):
                    last = bounds[-1:]
                    yield bounds


def survey(
    data: TokenDataset, *, max_documents: int = MAX_DOCUMENTS, max_tokens: int = MAX_TOKENS
) -> Survey:
    """All of the data, or evenly spaced parts within these bounds."""
    total = data.num_tokens
    if not data.num_documents:
        return Survey(data, ranges_within(max_tokens, BLOCK_TOKENS, 0, total))
    holding = -(-total * max_documents // data.num_documents)  # tokens of that many documents
    return Survey(data, ranges_within(holding, BLOCK_TOKENS << 4, 0, total))


def extremes(looked_at: Survey, count: int, *, longest: bool) -> list[tuple[int, int]]:
    """(start, stop) of the longest or shortest documents; equal ones in their order."""
    sign = -1 if longest else 1
    best = np.empty((0, 3), np.int64)  # length with its sign, start, stop
    for bounds in looked_at.stretches():
        lengths = sign * np.diff(bounds)
        picks = np.argsort(lengths, kind="stable")[:count]
        found = np.stack([lengths[picks], bounds[picks], bounds[picks + 1]], axis=1)
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0]))][:count]
    return [(start, stop) for _, start, stop in best.tolist()]
