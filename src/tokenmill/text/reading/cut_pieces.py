"""A unit of a text file becomes pieces of documents, block by block.

Blocks are read and split at document ends; the rest waits for the next block. When the rest is
longer than `long_line` it is returned as an open piece, cut at its last line end, or inside its
line where `cuts` allow. So memory stays near one block plus `long_line`, and text is touched
a few times only, always as whole buffers.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.align import CUT_BOUND, Aligner, may_cut_between, no_place_to_cut
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import Edge, ReadRules
from tokenmill.text.reading.document_rules import DocumentRule

_TAIL_BYTES = 1 << 12  # bytes at the end of a rest in which a place to cut is looked for first
# Then: every byte may be a place to look at, at 100 bytes of memory each.
_LARGEST_SEARCH_BYTES = 1 << 18


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


class Splitter(Aligner):
    """Splits runs of bytes of one source.

    Memory is bounded by `long_line`, or without `cuts` by `max_document_bytes`.
    """

    @cached_property
    def _hold(self) -> int:
        """A rest of more bytes is surely of a line, or a document, that is longer than allowed."""
        if self._cuts:
            return self._rules.long_line + self._bytes_after
        return self._rules.max_document_bytes + self._documents.end_bytes

    def pieces(
        self, read: Callable[[int], bytes], block: int, offset: int, first: Edge, last: Edge
    ) -> Iterator[DocumentPieces]:
        """All pieces of the run that `read` gives, from its edge `first` to its edge `last`."""
        edge = first
        rest = b""
        skipping = False
        searched = 0  # bytes of the rest that are known to hold no place to cut
        while True:
            # Twice the rest that is held, so that a long document is not scanned again and again.
            bound = self._hold if len(rest) <= self._hold else self._hold + CUT_BOUND
            if not (data := read(max(block, min(len(rest), bound + 1 - len(rest))))):
                break
            text = rest + data if rest else data
            out = DocumentPieces([], edge, Edge.NONE, offset, text)
            fresh = edge is Edge.NONE and not skipping
            out.texts, rest = self._documents.split(text, fresh=fresh)
            if len(rest) < len(text):
                searched = 0
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
                elif place := self._place_to_cut(rest, searched, offset + len(text) - len(rest)):
                    at, edge = place
                    out.texts.append(rest[:at])
                    out.open = edge
                    rest = rest[at:]
                    searched = 0
                else:
                    searched = len(rest) - self._bytes_after
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

    def _place_to_cut(self, rest: bytes, low: int, offset: int) -> tuple[int, Edge] | None:
        """Where to cut an over-long rest, after `low`; None when more of it must be seen."""
        high = len(rest) - self._bytes_after
        at = newline = rest.rfind(b"\n", 0, high)
        while at >= 0:
            if self._documents.clear(rest, at + 1):
                return at + 1, Edge.LINE
            at = rest.rfind(b"\n", 0, at)
        if newline < 0 and (at := self._last_inside(rest, low, high)) > 0:
            return at, Edge.INSIDE
        if len(rest) > self._hold + CUT_BOUND:
            raise no_place_to_cut(self._source, offset, len(rest))
        return None

    def _last_inside(self, rest: bytes, low: int, high: int) -> int:
        """The last place in low..high that `cuts` allow, or 0."""
        assert self._cuts is not None
        stop = high
        size = _TAIL_BYTES
        while stop > low:
            start = max(low, stop - size)
            if may_cut_between(rest, start, stop):
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
    splitter = Splitter(source, rules, documents)
    start = 0
    stop = sys.maxsize
    first = Edge.NONE
    last = Edge.NONE
    if source.compression is None:
        start, first = splitter.align(unit.start)
        stop, last = splitter.align(unit.stop)
    if start >= stop:
        return
    with InputStream(source.path, source.compression, source.name) as stream:
        stream.skip(start)
        seen = start  # bytes of the file, compressed or not

        def read(size: int) -> bytes:
            return stream.read(min(size, stop - stream.position))

        for pieces in splitter.pieces(read, rules.chunk_bytes, start, first, last):
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
