"""A unit of a text file becomes pieces of documents, block by block.

Blocks are read and split at document ends; the rest waits for the next block. When the rest is
longer than `long_line` it is returned as an open piece, cut at its last line end, or inside its
line where `cuts` allow. So memory stays near one block plus `long_line`, and text is touched
a few times only, always as whole buffers.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import align
from tokenmill.text.reading.align import CUT_BOUND, CUT_CONTEXT
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


class Splitter:
    """Splits runs of bytes of one source.

    Memory is bounded by `long_line`, or without `cuts` by `max_document_bytes`.
    """

    def __init__(
        self,
        source: Source,
        rules: ReadRules,
        documents: DocumentRule,
        cuts: re.Pattern[bytes] | None,
    ) -> None:
        self._source, self._rules, self._documents, self._cuts = source, rules, documents, cuts
        self._bytes_after = max(documents.bytes_after, CUT_CONTEXT)
        # A rest of more than this is surely of a line, or a document, that is longer than allowed.
        if cuts:
            self._hold = rules.long_line + self._bytes_after
        else:
            self._hold = rules.max_document_bytes + documents.end_bytes

    def pieces(
        self, read: Callable[[int], bytes], block: int, offset: int, first: Edge, last: Edge
    ) -> Iterator[DocumentPieces]:
        """All pieces of the run that `read` gives, from its edge `first` to its edge `last`."""
        edge, rest, skipping = first, b"", False
        searched = 0  # bytes of the rest that are known to hold no place to cut
        text, out = b"", None
        while True:
            if len(rest) <= self._rules.large_document_bytes < len(text):
                text, out = b"", None
                self._rules.on_large(False)
            if not (data := read(self._read_size(block, len(rest)))):
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
                    out.open, rest, searched = edge, rest[at:], 0
                else:
                    searched = len(rest) - self._bytes_after
            if skipping:
                rest = rest[-self._documents.bytes_before :]
            out.size = len(text) - len(rest)
            offset += out.size
            if out.size or out.too_large:
                yield out
        yield from self._end(rest, offset, edge, last, skipping)

    def _read_size(self, block: int, held: int) -> int:
        """Twice the rest that is held, so that a long document is not scanned again and again."""
        bound = self._hold if held <= self._hold else self._hold + CUT_BOUND
        return max(block, min(held, bound + 1 - held))

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
            raise align.no_place_to_cut(self._source, offset, len(rest))
        return None

    def _last_inside(self, rest: bytes, low: int, high: int) -> int:
        """The last place in low..high that `cuts` allow, or 0."""
        assert self._cuts is not None
        stop, size = high, _TAIL_BYTES
        while stop > low:
            start = max(low, stop - size)
            places: list[int] = []
            if align.may_cut_between(rest, start, stop):
                places = [
                    m.end() for m in self._cuts.finditer(rest, start, stop + self._bytes_after)
                ]
            for at in reversed(places):
                if (
                    at <= stop
                    and align.may_cut_inside(rest, at)
                    and self._documents.clear(rest, at)
                ):
                    return at
            stop, size = start, min(4 * size, _LARGEST_SEARCH_BYTES)
        return 0


def pieces_of(
    source: Source,
    unit: Unit,
    rules: ReadRules,
    documents: DocumentRule,
    cuts: re.Pattern[bytes] | None,
    chunk_bytes: int,
) -> Iterator[tuple[DocumentPieces, int]]:
    """Pieces of one unit with the bytes of the file that each covers."""
    splitter = Splitter(source, rules, documents, cuts)
    if source.compression:
        with InputStream(source.path, source.compression, source.name) as stream:
            seen = 0
            for pieces in splitter.pieces(stream.read, chunk_bytes, 0, Edge.NONE, Edge.NONE):
                yield pieces, stream.raw_position - seen
                seen = stream.raw_position
            if seen < stream.raw_position:
                end = DocumentPieces([], Edge.NONE, Edge.NONE, stream.position, b"")
                yield end, stream.raw_position - seen
        return
    aligner = align.Aligner(source, documents, cuts, rules.long_line)
    start, first = aligner.align(unit.start)
    stop, last = aligner.align(unit.stop)
    if start >= stop:
        return
    with open_input.open_binary(source.path) as file:
        file.seek(start)
        left = stop - start

        def read(size: int) -> bytes:
            nonlocal left
            data = open_input.read_full(file, min(size, left))
            left -= len(data)
            return data

        for pieces in splitter.pieces(read, chunk_bytes, start, first, last):
            yield pieces, pieces.size


def _size_of_document(source: Source, documents: DocumentRule, offset: int) -> int:
    """How large the document is that begins here; the file is read again, for errors only."""
    with InputStream(source.path, source.compression, source.name) as stream:
        stream.skip(offset)
        rest, before = b"", 0
        while data := stream.read(1 << 20):
            text = rest + data
            found, rest = documents.split(text, fresh=not before)
            if found:
                return before + len(found[0])
            rest = rest[-documents.bytes_before :]
            before += len(text) - len(rest)
        return before + len(rest)
