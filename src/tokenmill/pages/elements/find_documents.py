"""Documents found with bounded work, whatever the size of the data.

With an index a document has a number. Without one its number could only be had by reading all
tokens before it, so it is named by the place of its first token, and looked for at most LOOK tokens
away. Where nothing says how documents end, windows of a fixed length take their place.

Lengths are those of all documents, or of evenly spaced stretches of a large dataset. With an index
8 bytes a document are read; without one the tokens themselves are looked through. The stretches
depend on the data alone, so the same dataset gets the same answer every time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenmill.batches.lookup import TokenPlace
from tokenmill.dataset import TokenDataset

LOOK = 4 << 20  # tokens looked through for the end of one document
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
        """What names it in an address."""
        return {"at": self.start} if self.number is None else {"n": self.number}


@dataclass(frozen=True)
class DocumentPage:
    """One page of a list, and the addresses of the pages before and after it."""

    extents: list[Extent]
    before: dict[str, int] | None
    after: dict[str, int] | None


class DocumentFinder:
    """Where the documents of a split are."""

    def __init__(self, data: TokenDataset, *, look: int = LOOK) -> None:
        self.data = data
        self.count = data.num_documents if data.knows_documents else None
        self.noun = "document" if data.knows_documents else "window"
        self._look = look

    def numbered(self, number: int) -> Extent:
        """Document `number`; needs an index."""
        if self.count is None:
            raise ValueError("documents of this data have no numbers: it has no index")
        if not 0 <= number < self.count:
            raise ValueError(f"there is no document {number:,}: it has {self.count:,}, from 0")
        return Extent(*self.data.document_range(number), number)

    def at(self, position: int) -> Extent:
        """The document that holds this token."""
        data = self.data
        if not 0 <= position < data.num_tokens:
            raise ValueError(f"there is no token {position:,}: it has {data.num_tokens:,}, from 0")
        if self.count is not None:
            return self.numbered(data.document_at(position))
        if not data.knows_documents:
            start = position - position % WINDOW
            return Extent(start, min(start + WINDOW, data.num_tokens), noun="window")
        start, begins = self._begin(position)
        stop, ends = self._end(position)
        return Extent(start, stop, whole=begins and ends)

    def beginning(self, position: int) -> Extent:
        """The document that begins at this token, named without looking for its end."""
        if self.count is not None or not self.data.knows_documents:
            return self.at(position)
        return Extent(position, position + 1, whole=False)

    def _begin(self, position: int) -> tuple[int, bool]:
        """The first token of the document, and whether it was found within `look` tokens."""
        for width in self._widths():
            low = max(0, position - width)
            ends = self.data.document_ends(low, position)
            if len(ends) or low == 0:
                return (int(ends[-1]) if len(ends) else 0), True
        return low, False

    def _end(self, position: int) -> tuple[int, bool]:
        """Where the document ends, and whether it was found within `look` tokens."""
        total = self.data.num_tokens
        for width in self._widths():
            high = min(position + width, total)
            ends = self.data.document_ends(position, high)
            if len(ends) or high == total:
                return (int(ends[0]) if len(ends) else total), True
        return high, False

    def _widths(self) -> list[int]:
        """Most documents end nearby: look a little first."""
        return [width for width in (1 << 13, 1 << 17) if width < self._look] + [self._look]

    def page(self, size: int, *, n: int | None = None, at: int | None = None) -> DocumentPage:
        """`size` documents from number n, or from the one at a token, on."""
        if self.count is not None:
            first = n or 0 if at is None else (self.at(at).number or 0)
            if self.count and not 0 <= first < self.count:
                raise ValueError(f"there is no document {first:,}: it has {self.count:,}, from 0")
            stop = min(first + size, self.count)
            return DocumentPage(
                [self.numbered(i) for i in range(first, stop)],
                {"n": max(0, first - size)} if first else None,
                {"n": stop} if stop < self.count else None,
            )
        if not self.data.num_tokens:
            return DocumentPage([], None, None)
        start = self.at(at or 0).start
        return self._windows(start, size) if self.noun == "window" else self._scan(start, size)

    def _windows(self, start: int, size: int) -> DocumentPage:
        total = self.data.num_tokens
        stop = min(start + size * WINDOW, total)
        return DocumentPage(
            [self.at(place) for place in range(start, stop, WINDOW)],
            {"at": max(0, start - size * WINDOW)} if start else None,
            {"at": stop} if stop < total else None,
        )

    def _scan(self, start: int, size: int) -> DocumentPage:
        total = self.data.num_tokens
        for width in self._widths():
            high = min(start + width, total)
            ends = self.data.document_ends(start, high)[:size]
            if len(ends) == size:
                break
        bounds = [start, *ends.tolist()]
        extents = [Extent(a, b) for a, b in pairwise(bounds)]
        if len(extents) < size and bounds[-1] < high:
            extents.append(Extent(bounds[-1], high, whole=high == total))
        stop = extents[-1].stop
        back = self.data.document_ends(max(0, start - self._look), max(0, start - 1))
        # The page before begins `size` documents earlier, or as far back as was looked.
        earlier = int(back[-size]) if len(back) >= size else max(0, start - self._look)
        return DocumentPage(
            extents, {"at": earlier} if start else None, {"at": stop} if stop < total else None
        )

    def place(self, position: int, extent: Extent | None = None) -> TokenPlace:
        """The file and the document of a token, without counting documents."""
        data = self.data
        shard = int(np.searchsorted(data.shard_starts, position, side="right")) - 1
        extent = extent or self.at(position)
        return TokenPlace(
            position=position,
            file=data.shards[shard].file,
            offset=position - data.shards[shard].start,
            document=extent.number,
            document_offset=position - extent.start if extent.noun == "document" else None,
        )


@dataclass(frozen=True)
class Survey:
    """The parts of a split whose documents are looked at."""

    data: TokenDataset
    ranges: list[tuple[int, int]]

    @property
    def is_whole(self) -> bool:
        return self.ranges == [(0, self.data.num_tokens)] or not self.data.num_tokens

    def stretches(self) -> Iterator[np.ndarray]:
        """Bounds of the whole documents in these parts, a block at a time.

        Document i of a stretch is from bounds[i] to bounds[i + 1].
        """
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
                    yield bounds

    def _block(self) -> int:
        # An index answers for many tokens at once; without one, tokens are read.
        return BLOCK_TOKENS << 8 if self.data.num_documents is not None else BLOCK_TOKENS << 2


def survey(
    data: TokenDataset, *, max_documents: int = MAX_DOCUMENTS, max_tokens: int = MAX_TOKENS
) -> Survey:
    """All of the data, or evenly spaced parts within these bounds."""
    documents = data.num_documents
    if documents is None:
        return Survey(
            data, _spread(data.num_tokens, BLOCK_TOKENS, max(1, max_tokens // BLOCK_TOKENS))
        )
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
    """(start, stop) of the longest or shortest documents; equal ones in their order."""
    sign = -1 if longest else 1
    best = np.empty((0, 3), np.int64)  # length with its sign, start, stop
    for bounds in looked_at.stretches():
        lengths = sign * np.diff(bounds)
        if len(lengths) > count:
            limit = np.partition(lengths, count - 1)[count - 1]
            below = np.flatnonzero(lengths < limit)
            picks = np.sort(np.append(below, np.flatnonzero(lengths == limit)[:count]))
        else:
            picks = np.arange(len(lengths))
        found = np.stack([lengths[picks], bounds[picks], bounds[picks + 1]], axis=1)
        best = np.concatenate([best, found])
        best = best[np.lexsort((best[:, 1], best[:, 0]))][:count]
    return [(int(start), int(stop)) for _, start, stop in best.tolist()]
