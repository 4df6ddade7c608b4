"""Documents found with bounded work, whatever the size of the data.

With an index a document has a number. Without one its number could only be had by reading all
tokens before it, so it is named by the place of its first token, and looked for at most LOOK tokens
away. Where nothing says how documents end, windows of a fixed length take their place.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tokenmill.batches.lookup import TokenPlace
from tokenmill.dataset import TokenDataset

LOOK = 4 << 20  # tokens looked through for the end of one document
WINDOW = 1024


@dataclass(frozen=True)
class Extent:
    """Tokens that belong together."""

    start: int
    stop: int
    number: int | None = None
    """Number of the document, with an index."""
    whole: bool = True
    """False when its beginning or end was not found within LOOK tokens."""
    noun: str = "document"

    @property
    def name(self) -> str:
        """What a page calls it."""
        if self.number is not None:
            return f"document {self.number:,}"
        return f"{self.noun} at token {self.start:,}"

    @property
    def query(self) -> dict[str, int]:
        """What names it in an address."""
        return {"at": self.start} if self.number is None else {"n": self.number}


@dataclass(frozen=True)
class Listed:
    """One page of a list, and the addresses of the pages before and after it."""

    extents: list[Extent]
    before: dict[str, int] | None
    after: dict[str, int] | None


class Places:
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

    def page(self, size: int, *, n: int | None = None, at: int | None = None) -> Listed:
        """`size` documents from number n, or from the one at a token, on."""
        if self.count is not None:
            first = n or 0 if at is None else (self.at(at).number or 0)
            if self.count and not 0 <= first < self.count:
                raise ValueError(f"there is no document {first:,}: it has {self.count:,}, from 0")
            stop = min(first + size, self.count)
            return Listed(
                [self.numbered(i) for i in range(first, stop)],
                {"n": max(0, first - size)} if first else None,
                {"n": stop} if stop < self.count else None,
            )
        if not self.data.num_tokens:
            return Listed([], None, None)
        start = self.at(at or 0).start
        return self._windows(start, size) if self.noun == "window" else self._scan(start, size)

    def _windows(self, start: int, size: int) -> Listed:
        total = self.data.num_tokens
        stop = min(start + size * WINDOW, total)
        return Listed(
            [self.at(place) for place in range(start, stop, WINDOW)],
            {"at": max(0, start - size * WINDOW)} if start else None,
            {"at": stop} if stop < total else None,
        )

    def _scan(self, start: int, size: int) -> Listed:
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
        return Listed(
            extents, {"at": earlier} if start else None, {"at": stop} if stop < total else None
        )

    def spot(self, position: int, extent: Extent | None = None) -> TokenPlace:
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
