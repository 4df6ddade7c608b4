"""A unit of a text file becomes pieces of documents, block by block.

A unit is planned as a range of bytes without looking at them. `align` moves a planned place to
the first good one at or after it: one answer for the unit that ends there and the next.

    1. a document end, if there is one within `long_line` bytes (the end of the file is one);
    2. else a line end, if there is one within `long_line` bytes;
    3. else the first of these, or a place inside a line that `cuts` allow, if that comes first.

The answer depends on the bytes around the place only, and grows with it: units neither overlap
nor leave a gap. A tokenizer without `cuts` may never be cut, so then only 1 counts, at any
distance. Costs one small read a unit, unless lines or documents are long.

Then blocks are read and split at document ends; the rest waits for the next block. When the rest is
longer than `long_line` it is returned as an open piece, cut at its last line end, or inside its
line where `cuts` allow. So memory stays near one block plus `long_line`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.open_input import InputStream, Source, bad_file, read_range
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.bad_input import TooLargeError
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
_TAIL_BYTES = 1 << 12  # bytes at the end of a rest in which a place to cut is looked for first
# Then: every byte may be a place to look at, at 100 bytes of memory each.
_LARGEST_SEARCH_BYTES = 1 << 18

Find = Callable[[bytes, int, int], int]


def may_cut_inside(window: bytes, at: int) -> bool:
    """Return True if cleaning in two pieces, cut here, gives what cleaning the whole gives."""
    return at > 0 and _PLACE.match(window, at) is not None


@dataclass
class DocumentPieces:
    """Pieces of documents cut from one run of bytes."""

    texts: list[bytes]
    continues: Edge
    open: Edge
    offset: int
    """Where they begin."""
    run: bytes
    """The bytes they were cut from, beginning at `offset`; more may follow them."""
    size: int = 0
    """Bytes that they cover, separators included."""
    too_large: list[int] = field(default_factory=list)
    """Where documents began that were left out: they had more than `max_document_bytes`."""


class TextCutter:
    """Cuts one source into pieces of documents; places are aligned if it is not compressed.

    Memory is bounded by `long_line`, or without `cuts` by `max_document_bytes`.
    """

    def __init__(self, source: Source, rules: ReadRules, documents: DocumentRule) -> None:
        self._source = source
        self._rules = rules
        self._documents = documents
        self._cuts = rules.cuts
        self._bytes_before = max(documents.bytes_before, CUT_CONTEXT)
        self._bytes_after = max(documents.bytes_after, CUT_CONTEXT)
        self._hold = rules.max_document_bytes + documents.end_bytes
        """A rest of more bytes is of a line, or a document, that is longer than allowed."""
        if self._cuts:
            self._hold = rules.long_line + self._bytes_after

    def align(self, place: int) -> tuple[int, Edge]:
        """The real place for a planned one, and how a document is left open there."""
        end = self._source.size
        if place <= 0:
            return 0, Edge.NONE
        settled = self._first({Edge.NONE: self._documents.settled}, place, end)
        if settled is None:
            return end, Edge.NONE
        place = settled[0]
        ends: dict[Edge, Find] = {Edge.NONE: self._documents.first_end}
        line: dict[Edge, Find] = {Edge.LINE: self._line}
        # What ends a document is before the place where it has ended, and so is a newline.
        limit = place + self._rules.long_line + 1
        searches = [
            (ends, limit - 1 + self._documents.end_bytes),
            (line, limit),
            ({**ends, **line, Edge.INSIDE: self._inside}, limit + CUT_BOUND),
        ]
        for finders, stop in searches if self._cuts else [(ends, end)]:
            if found := self._first(finders, place, stop):
                return found
            if stop >= end:
                return end, Edge.NONE
        raise _no_place_to_cut(self._source, place, limit + CUT_BOUND - place)

    def _line(self, window: bytes, low: int, high: int) -> int:
        """The first line end in low..high where a document may be left open, or -1."""
        at = window.find(b"\n", max(0, low - 1), high)
        while at >= 0 and not self._documents.clear(window, at + 1):
            at = window.find(b"\n", at + 1, high)
        return at + 1 if at >= 0 else -1

    def _inside(self, window: bytes, low: int, high: int) -> int:
        """The first place in low..high that `cuts` and cleaning allow, or -1."""
        assert self._cuts is not None
        if not _PLACE.search(window, low, high + 1):
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

    def _first(self, finders: dict[Edge, Find], start: int, stop: int) -> tuple[int, Edge] | None:
        for base, window, low, high in self._windows(start, stop):
            places = {edge: find(window, low, high) for edge, find in finders.items()}
            if found := [edge for edge in places if places[edge] >= 0]:
                edge = min(found, key=places.__getitem__)
                return base + places[edge], edge
        return None

    def _windows(self, start: int, stop: int) -> Iterator[tuple[int, bytes, int, int]]:
        """Windows that cover start..stop (inclusive) step by step, each with its surroundings."""
        stop = min(stop, self._source.size - 1)
        step = _FIRST_READ
        while start <= stop:
            end = min(start + step, stop)
            base = max(0, start - self._bytes_before)
            window = read_range(self._source.path, base, end + self._bytes_after)
            yield base, window, start - base, end - base
            start = end + 1
            step = min(4 * step, _LARGEST_READ)

    def pieces(
        self, read: Callable[[int], bytes], block: int, offset: int, first: Edge, last: Edge
    ) -> Iterator[DocumentPieces]:
        """All pieces of the run that `read` gives, from its edge `first` to its edge `last`."""
        edge = first
        rest = b""
        skipping = False
        while True:
            # Twice the rest that is held, so that a long document is not scanned again and again.
            bound = self._hold if len(rest) <= self._hold else self._hold + CUT_BOUND
            if not (data := read(max(block, min(len(rest), bound + 1 - len(rest))))):
                break
            text = rest + data if rest else data
            out = DocumentPieces([], edge, Edge.NONE, offset, text)
            fresh = edge is Edge.NONE and not skipping
            out.texts, rest = self._documents.split(text, fresh=fresh)
            if out.texts:
                edge = Edge.NONE
                if skipping:
                    del out.texts[0]
                    skipping = False
                self._leave_out_large(out)
            if self._cuts is None and len(rest) > self._rules.large_document_bytes and not skipping:
                self._rules.on_large(True)
            if len(rest) > self._hold and not skipping:
                if self._cuts is None:
                    self._too_large(out, offset + len(text) - len(rest))
                    skipping = True
                elif place := self._place_to_cut(rest, offset + len(text) - len(rest)):
                    at, edge = place
                    out.texts.append(rest[:at])
                    out.open = edge
                    rest = rest[at:]
            if skipping:
                rest = rest[-self._documents.bytes_before :]
            out.size = len(text) - len(rest)
            offset += out.size
            if out.size or out.too_large:
                yield out
        yield from self._end(rest, offset, edge, last, skipping)

    def _end(
        self, rest: bytes, offset: int, edge: Edge, last: Edge, skipping: bool
    ) -> Iterator[DocumentPieces]:
        out = DocumentPieces([], edge, last, offset, rest, len(rest))
        if last is not Edge.NONE:
            if rest or edge is not last:
                out.texts = [rest]
        elif not skipping:
            text = self._documents.last(rest, fresh=edge is Edge.NONE)
            out.texts = [] if text is None else [text]
            self._leave_out_large(out)
        if out.texts or out.size:
            yield out

    def _leave_out_large(self, out: DocumentPieces) -> None:
        most = self._rules.max_document_bytes
        if self._cuts is None and len(out.run) > most:
            for text in out.texts:
                if len(text) > most:
                    self._too_large(out, out.offset + out.run.find(text))
            out.texts = [text for text in out.texts if len(text) <= most]

    def _too_large(self, out: DocumentPieces, offset: int) -> None:
        """Leave out the document that begins here, or raise the error that it is too large."""
        if self._rules.on_bad_input == "error":
            most = self._rules.max_document_bytes
            size = _size_of_document(self._source, self._documents, offset)
            where = f" at byte {offset:,}"
            raise TooLargeError(self._source, where, "the document from here", most, size)
        out.too_large.append(offset)

    def _place_to_cut(self, rest: bytes, offset: int) -> tuple[int, Edge] | None:
        """Where to cut an over-long rest; None when more of it must be seen."""
        high = len(rest) - self._bytes_after
        at = newline = rest.rfind(b"\n", 0, high)
        while at >= 0:
            if self._documents.clear(rest, at + 1):
                return at + 1, Edge.LINE
            at = rest.rfind(b"\n", 0, at)
        if newline < 0 and (at := self._last_inside(rest, high)) > 0:
            return at, Edge.INSIDE
        if len(rest) > self._hold + CUT_BOUND:
            raise _no_place_to_cut(self._source, offset, len(rest))
        return None

    def _last_inside(self, rest: bytes, stop: int) -> int:
        """The last place up to `stop` that `cuts` allow, or 0."""
        assert self._cuts is not None
        size = _TAIL_BYTES
        while stop > 0:
            start = max(0, stop - size)
            if _PLACE.search(rest, start, stop + 1):
                found = self._cuts.finditer(rest, start, stop + self._bytes_after)
                for at in reversed([match.end() for match in found]):
                    if at <= stop and self._may_cut(rest, at):
                        return at
            stop = start
            size = min(4 * size, _LARGEST_SEARCH_BYTES)
        return 0


def pieces_of(
    source: Source, unit: Unit, rules: ReadRules, documents: DocumentRule
) -> Iterator[tuple[DocumentPieces, int]]:
    """Pieces of one unit with the bytes of the file that each covers."""
    cutter = TextCutter(source, rules, documents)
    start = 0
    stop = sys.maxsize
    first = Edge.NONE
    last = Edge.NONE
    if source.compression is None:
        start, first = cutter.align(unit.start)
        stop, last = cutter.align(unit.stop)
    if start >= stop:
        return
    with InputStream(source.path, source.compression, source.name) as stream:
        stream.skip(start)
        seen = start  # bytes of the file, compressed or not

        def read(size: int) -> bytes:
            return stream.read(min(size, stop - stream.position))

        for pieces in cutter.pieces(read, rules.chunk_bytes, start, first, last):
            covered = stream.raw_position - seen if source.compression else pieces.size
            yield pieces, covered
            seen += covered
        if seen < stream.raw_position:
            end = DocumentPieces([], Edge.NONE, Edge.NONE, stream.position, b"")
            yield end, stream.raw_position - seen


def _size_of_document(source: Source, documents: DocumentRule, offset: int) -> int:
    """How large the document is that begins here; the file is read again, for errors only."""
    with InputStream(source.path, source.compression, source.name) as stream:
        stream.skip(offset)
        rest = b""
        before = 0
        while data := stream.read(1 << 20):
            text = rest + data
            found, rest = documents.split(text, fresh=not before)
            if found:
                return before + len(found[0])
            rest = rest[-documents.bytes_before :]
            before += len(text) - len(rest)
        return before + len(rest)


def _no_place_to_cut(source: Source, offset: int, searched: int) -> BadInputError:
    """The error for a text without line ends or blanks for longer than we are ready to hold."""
    return bad_file(
        source.name,
        f"has no place to cut in {searched:,} bytes from byte {offset:,} on: "
        "no line end, and nowhere that the tokenizer allows",
        hint="is it text? if so, break its lines, or cut it into documents with separator=",
    )
