"""Where a unit of text really begins: one answer for the unit that ends there and the next.

A unit is planned as a range of bytes without looking at them. `align` moves a planned place to
the first good one at or after it:

    1. a document end, if there is one within `long_line` bytes (the end of the file is one);
    2. else a line end, if there is one within `long_line` bytes;
    3. else, inside that over-long line, the first place that `cuts` allow;
    4. and if there is none within `long_line` bytes, whichever of the three comes first.

The answer depends on the bytes around the place only, and grows with it: units neither overlap
nor leave a gap. A tokenizer without `cuts` may never be cut, so then only 1 counts, at any
distance. Costs one small read a unit, unless lines or documents are long.
"""

import re
from collections.abc import Callable, Iterator

from tokenmill.errors import BadInputError
from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.open_input import Source, bad_file
from tokenmill.text.reading.chunks import Edge, ReadRules
from tokenmill.text.reading.document_rules import DocumentRule

CUT_BOUND = 64 << 20  # bytes beyond long_line in which a place to cut must turn up
CUT_CONTEXT = 64  # bytes on either side that `cuts` may look at
_FIRST_READ = 1 << 14
_LARGEST_READ = 1 << 22

# A text may be cut before these bytes: ASCII that is seen, or a Chinese character (U+5000 to
# U+8FFF). None of them is a blank, is removed by cleaning, or joins the character before it.
# Or before a space after what is seen. A pattern that begins with a set is quicker.
_PLACE = re.compile(rb"[\x20-\x7e\xe5-\xe8](?:(?<!\x20)|(?<=[\x21-\x7e]\x20))")

Find = Callable[[bytes, int, int], int]


def may_cut_inside(window: bytes, at: int) -> bool:
    """Return True if cleaning in two pieces, cut here, gives what cleaning the whole gives."""
    return at > 0 and _PLACE.match(window, at) is not None


def may_cut_between(window: bytes, low: int, high: int) -> bool:
    """Return True if `may_cut_inside` holds anywhere in low..high."""
    return _PLACE.search(window, low, high + 1) is not None


class Aligner:
    """Aligns places in one source, which is not compressed."""

    def __init__(
        self,
        source: Source,
        rules: ReadRules,
        documents: DocumentRule,
    ) -> None:
        self._source = source
        self._rules = rules
        self._documents = documents
        self._cuts = rules.cuts
        self._bytes_before = max(documents.bytes_before, CUT_CONTEXT)
        self._bytes_after = max(documents.bytes_after, CUT_CONTEXT)

    def align(self, place: int) -> tuple[int, Edge]:
        """The real place for a planned one, and how a document is left open there."""
        documents = self._documents
        cuts = self._cuts
        end = self._source.size
        long_line = self._rules.long_line
        if place <= 0:
            return 0, Edge.NONE
        place = self._first(documents.settled, place, end)
        if place < 0:
            return end, Edge.NONE
        # What ends a document is before the place where it has ended, and so is a newline.
        limit = place + long_line + documents.end_bytes if cuts else end
        if (at := self._first(documents.first_end, place, limit)) >= 0:
            return at, Edge.NONE
        if cuts is None or limit >= end:
            return end, Edge.NONE
        limit = place + long_line + 1
        if (at := self._first(self._line, place, limit)) >= 0:
            return at, Edge.LINE
        if (at := self._first(self._inside, place, limit)) >= 0:
            return at, Edge.INSIDE
        return self._whichever_is_first(place, limit)

    def _whichever_is_first(self, place: int, limit: int) -> tuple[int, Edge]:
        finders: dict[Edge, Find] = {
            Edge.NONE: self._documents.first_end,
            Edge.LINE: self._line,
            Edge.INSIDE: self._inside,
        }
        for base, window, low, high in self._windows(limit + 1, limit + CUT_BOUND):
            places = {edge: find(window, low, high) for edge, find in finders.items()}
            if found := [edge for edge in places if places[edge] >= 0]:
                edge = min(found, key=places.__getitem__)
                return base + places[edge], edge
        if limit + CUT_BOUND >= self._source.size:
            return self._source.size, Edge.NONE
        raise no_place_to_cut(self._source, place, limit + CUT_BOUND - place)

    def _line(self, window: bytes, low: int, high: int) -> int:
        """The first line end in low..high where a document may be left open, or -1."""
        at = window.find(b"\n", max(0, low - 1), high)
        while at >= 0 and not self._documents.clear(window, at + 1):
            at = window.find(b"\n", at + 1, high)
        return at + 1 if at >= 0 else -1

    def _inside(self, window: bytes, low: int, high: int) -> int:
        """The first place in low..high that `cuts` and cleaning allow, or -1."""
        assert self._cuts is not None
        if not may_cut_between(window, low, high):
            return -1
        best = high + 1
        match = self._cuts.search(window, max(0, low - CUT_CONTEXT))
        # From every start, not only after the last match: so the answer is the same for all `low`.
        while match and match.start() < best:
            at = match.end()
            if low <= at < best and self._may_cut(window, at):
                best = at
            match = self._cuts.search(window, match.start() + 1)
        return best if best <= high else -1

    def _may_cut(self, window: bytes, at: int) -> bool:
        return may_cut_inside(window, at) and self._documents.clear(window, at)

    def _first(self, find: Find, start: int, stop: int) -> int:
        for base, window, low, high in self._windows(start, stop):
            if (at := find(window, low, high)) >= 0:
                return base + at
        return -1

    def _windows(self, start: int, stop: int) -> Iterator[tuple[int, bytes, int, int]]:
        """Windows that cover start..stop (inclusive) step by step, each with its surroundings."""
        stop = min(stop, self._source.size - 1)
        step = _FIRST_READ
        while start <= stop:
            end = min(start + step, stop)
            base = max(0, start - self._bytes_before)
            window = open_input.read_range(self._source.path, base, end + self._bytes_after)
            yield base, window, start - base, end - base
            start = end + 1
            step = min(4 * step, _LARGEST_READ)


def no_place_to_cut(source: Source, offset: int, searched: int) -> BadInputError:
    """The error for a text without line ends or blanks for longer than we are ready to hold."""
    return bad_file(
        source.name,
        f"has no place to cut in {searched:,} bytes from byte {offset:,} on: "
        "no line end, and nowhere that the tokenizer allows",
        hint="is it text? if so, break its lines, or cut it into documents with separator=",
    )
