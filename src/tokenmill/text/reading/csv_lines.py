"""The lines of a CSV file as its parser takes them, with a way back to where a row began.

A quote that is never closed makes the rest of the file one field. So the lines of the row that is
being parsed are held, up to a limit, and given once more when it turns out to be none. Beyond the
limit a row is only walked through, to find where it ends or that it does not, and then the file is
read again from there. No stretch is walked through twice: a walk ends at the next quote that is
no pair.
"""

import csv
import io
import re
from collections import deque
from collections.abc import Iterator

from tokenmill.text.inputs.decompress import Plain, Stream, open_stream
from tokenmill.text.inputs.sources import Source
from tokenmill.text.reading.chunks import ReadRules

_BLOCK = 1 << 18
_FIELD_END = re.compile(rb"[,\r\n]")


class RowTooLargeError(Exception):
    """The row that is being parsed has more bytes than are allowed."""


class CsvLines:
    """Lines with their newlines; what is not UTF-8 is surrogate escapes.

    What is done for each line costs as much as parsing it, so it is little: the size of a row is
    looked at when it goes on in the next block.
    """

    def __init__(self, source: Source, rules: ReadRules) -> None:
        self._source, self._most = source, rules.max_document_bytes
        self._large, self._on_large = rules.large_document_bytes, rules.on_large
        self._again: deque[str] = deque()
        self._held: list[str] = []  # the lines of the row that is being parsed
        self._counted = self._size = 0  # so many of them have been counted to so many bytes
        self._furthest = 0
        self._begin(0)

    def _begin(self, offset: int) -> None:
        self._stream = self._open(offset)
        self._blocks = self._read(self._stream)
        self._block = io.StringIO()
        self._block_end = offset
        self._large_block = self.may_be_too_large = False
        self._again.clear()
        self.begin_row()

    def __enter__(self) -> "CsvLines":
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.__exit__(*error)

    def rows(self) -> Iterator[list[str]]:
        """Parse from here on; to be called again after an error."""
        return csv.reader(self._lines(), strict=True)

    def _lines(self) -> Iterator[str]:
        held, again = self._held, self._again
        while True:
            while again:
                held.append(again.popleft())
                yield held[-1]
            for line in self._block:
                held.append(line)
                yield line
            if held:
                self.check_size()
            if (data := next(self._blocks, None)) is None:
                return
            self._block_end += len(data)
            self._large_block = len(data) > self._most
            self.may_be_too_large = bool(held) or self._large_block
            if self._size + len(data) > self._large:
                self._on_large(True)
            self._block = io.StringIO(data.decode("utf-8", "surrogateescape"), newline="\n")

    def begin_row(self) -> None:
        """The lines given so far are done with."""
        if self._size > self._large:
            self._on_large(False)
        self._held.clear()
        self._counted = self._size = 0

    @property
    def raw_position(self) -> int:
        """Bytes of the file that were read; reading some again counts once."""
        self._furthest = max(self._furthest, self._stream.raw_position)
        return self._furthest

    def go_on_behind_first(self) -> None:
        """What began on the first of the lines that are held was no row: the next begins one.

        Not for a row that was too large, of which not all is held.
        """
        self._again.extendleft(reversed(self._held[1:]))
        self.begin_row()

    def go_on_behind(self, offset: int) -> None:
        """All before this place is done with."""
        _ = self.raw_position
        self._stream.__exit__()
        self._begin(offset)

    @property
    def row_begin(self) -> int:
        """Where the row that is being parsed begins, in bytes of the text."""
        return self._block_end - _num_bytes([*self._held, *self._again, self._block.read()])

    def check_size(self) -> None:
        """Raise if the row is too large; to be called only if it may be."""
        self._size += _num_bytes(self._held[self._counted :])
        self._counted = len(self._held)
        if self._size > self._most:
            raise RowTooLargeError
        self.may_be_too_large = self._large_block

    def end_of_row(self, begin: int) -> int | None:
        """Where the row ends that begins here, however large; None if it is not CSV."""
        with self._open(begin) as stream:
            size = _size_of_row(stream)
            return None if size is None else begin + size

    def end_of_line(self, begin: int) -> int:
        """Where the line ends that begins here."""
        with self._open(begin) as stream:
            return begin + _size_of_line(stream)

    def _open(self, offset: int) -> Plain | Stream:
        stream = open_stream(self._source.path, self._source.compression, self._source.name)
        stream.skip(offset)
        return stream

    def _read(self, stream: Plain | Stream) -> Iterator[bytes]:
        """Blocks of whole lines."""
        parts: list[bytes] = []
        size = 0
        while data := stream.read(_BLOCK):
            cut = data.rfind(b"\n") + 1
            if cut:
                yield b"".join([*parts, data[:cut]])
                parts, size = [], 0
            parts.append(data[cut:])
            size += len(data) - cut
            if size > self._large:
                self._on_large(True)
            if size > self._most:
                raise RowTooLargeError
        if size:
            yield b"".join(parts)


def _num_bytes(lines: list[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogateescape")) for line in lines)


def _size_of_line(stream: Plain | Stream) -> int:
    size = 0
    while data := stream.read(_BLOCK):
        if (newline := data.find(b"\n")) >= 0:
            return size + newline + 1
        size += len(data)
    return size


def _size_of_row(stream: Plain | Stream) -> int | None:
    """Walk to the end of a row as the strict parser would, holding one block of it."""
    size, state = 0, "begin"
    while data := stream.read(_BLOCK):
        at = 0
        while at < len(data):
            if state == "quoted":
                at = data.find(b'"', at) + 1
                if not at:
                    break
                state = "quote"
            elif state == "plain":
                end = _FIELD_END.search(data, at)
                if end is None:
                    break
                at = end.end()
                if end[0] != b",":
                    return size + at + _size_of_newline(end[0], data[at:], stream)
                state = "begin"
            elif state == "quote" and data[at] == ord('"'):
                state, at = "quoted", at + 1
            elif state == "quote" and data[at] not in b",\r\n":
                return None
            elif state == "begin" and data[at] == ord('"'):
                state, at = "quoted", at + 1
            else:
                state = "plain"
        size += len(data)
    return None if state == "quoted" else size


def _size_of_newline(end: bytes, rest: bytes, stream: Plain | Stream) -> int:
    """What is left of the line end: the newline of a CR LF."""
    return int(end == b"\r" and (rest or stream.read(1))[:1] == b"\n")
