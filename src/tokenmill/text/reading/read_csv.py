"""CSV files, plain or compressed: a header row, and one column of it is the document.

Read with the standard library's parser in strict mode; quoted fields may hold newlines. A bad row
of one line is left out, and the next row begins on the next line. After a quote that is never
closed, or not closed as it should be, nobody can say where rows begin: it is an error, and where
bad input is skipped it ends the file. A row of more than `max_document_bytes` is left out whole: it
is read to its end without being held.

One unit a file, since a newline inside quotes ends no row. For speed, convert to JSONL or parquet.
"""

import csv
import io
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack

from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader

_BLOCK_BYTES = 1 << 18
_FIELD_END = re.compile(rb"[,\n]")


def read_csv(source: Source, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    """The documents of a CSV file; rows are counted from 1, the header is row 0."""
    with ExitStack() as stack:
        # Fields may have any size: `_CsvLines` bounds whole rows.
        stack.callback(csv.field_size_limit, csv.field_size_limit(sys.maxsize))
        stream = stack.enter_context(InputStream(source.path, source.compression, source.name))
        reader = _CsvRows(_CsvLines(stream, rules), source, rules)
        try:
            column = reader.find_column()
        except NotReadableError as bad:
            yield reader.bad_file(bad, source.size)
            return
        size = seen = 0
        for values in reader.rows():
            size += reader.take(values, column)
            if size >= chunk_bytes:
                yield reader.finish_chunk(stream.raw_position - seen)
                size, seen = 0, stream.raw_position
        yield reader.finish_chunk(source.size - seen)


class _CsvRows(RowReader):
    """The rows that can be read; others are errors, or are counted in `chunk`."""

    def __init__(self, lines: "_CsvLines", source: Source, rules: ReadRules) -> None:
        super().__init__(source, rules)
        self._lines = lines
        self.row = 0

    def find_column(self) -> int:
        """Read the header: which column holds the text."""
        field = self.rules.text_field
        try:
            header = next(self._lines.parse())
        except StopIteration:
            what = "the file is empty: it has no header"
            raise NotReadableError(bad_input.EMPTY_FILE, what) from None
        except csv.Error as error:
            what = f"the header is not CSV: {error}"
            raise NotReadableError(bad_input.NOT_CSV, what) from None
        except _RowTooLargeError:
            what = f"the header has more than {self.rules.max_document_bytes:,} bytes"
            raise NotReadableError(bad_input.NOT_CSV, what) from None
        if header:
            header[0] = header[0].removeprefix("\ufeff")  # spreadsheets write one; it is not a name
        if (found := header.count(field)) != 1:
            times = "no" if found == 0 else f"{found} times a"
            names = bad_input.short_list(header)
            raise bad_input.no_column(field, f"{times} such column; the header has: {names}")
        return header.index(field)

    def rows(self) -> Iterator[list[str]]:
        """The values of each row that is CSV and not too large."""
        lines, parsed = self._lines, self._lines.parse()
        while True:
            self.row += 1
            lines.begin_row()
            try:
                values = next(parsed)
            except StopIteration:
                return
            except csv.Error as error:
                if lines.spans_lines or "unexpected end" in str(error):
                    return self._unclosed()
                self.bad_row(self.row, bad_input.NOT_CSV, f"not CSV: {error}")
                parsed = lines.parse()
            except _RowTooLargeError:
                if not lines.skip_row():
                    return self._unclosed()
                self.large_row(self.row, "the row", lines.row_bytes)
                parsed = lines.parse()
            else:
                if lines.is_too_large():
                    self.large_row(self.row, "the row", lines.row_bytes)
                else:
                    yield values

    def _unclosed(self) -> None:
        what = f"not CSV: a quote that opens on line {self._lines.line:,} is not closed"
        hint = 'close it; on_bad_input="skip" leaves out the file from there on'
        self.bad_row(self.row, bad_input.UNCLOSED_QUOTE, what, hint)

    def take(self, values: list[str], column: int) -> int:
        """Put the text of a row into the chunk; returns its size. An empty line is no row."""
        if len(values) > column:
            text = _encode(values[column])
            self.add(self.row, text)
            return len(text)
        if values:
            field = self.rules.text_field
            what = f"{len(values)} columns, but {field!r} is column {column + 1}"
            self.bad_row(self.row, bad_input.NO_FIELD, what)
        return 0

    def finish_chunk(self, bytes_in: int) -> Chunk:
        """The chunk, which covers so many bytes of the file; another one is begun."""
        done, self.chunk = self.chunk, Chunk([], offset=self.row + 1)
        done.bytes_in = bytes_in
        done.drop_empty()
        return done


class _RowTooLargeError(Exception):
    """The row that is being parsed has more bytes than are allowed."""


class _CsvLines:
    """The lines of a file as the parser takes them; what is not UTF-8 is surrogate escapes.

    What is done for each line costs as much as parsing it, so it is little: the size of a row is
    counted only when the row continues in the next block, or is in a block with a large line.
    """

    def __init__(self, stream: InputStream, rules: ReadRules) -> None:
        self._stream = stream
        self._max_bytes = rules.max_document_bytes
        self._large, self._on_large = rules.large_document_bytes, rules.on_large
        self._rest = b""  # read from the stream, not yet part of a block
        self._block = io.StringIO()  # whole lines
        self._large_block = False
        self._held: list[str] = []  # lines of the row that are not yet in `row_bytes`
        self._num_lines = 0  # of those that are
        self.row_bytes = 0
        self.line = 1
        """On which the row that is being parsed begins."""

    @property
    def spans_lines(self) -> bool:
        """Whether the row that is being parsed has more than one line so far."""
        return self._num_lines + len(self._held) > 1

    def parse(self) -> Iterator[list[str]]:
        """Parse from here on; to be called again after an error."""
        return csv.reader(self._lines(), strict=True)

    def _lines(self) -> Iterator[str]:
        held = self._held
        while True:
            for line in self._block:
                held.append(line)
                yield line
            self._count()
            if self.row_bytes > self._max_bytes:
                raise _RowTooLargeError
            if not (data := self._next_block()):
                return
            self._large_block = len(data) > self._max_bytes
            if self.row_bytes + len(data) > self._large:
                self._on_large(True)
            self._block = io.StringIO(data.decode("utf-8", "surrogateescape"), newline="\n")

    def _next_block(self) -> bytes:
        """Whole lines, or what is left at the end of the file."""
        parts, size = [self._rest], len(self._rest)
        while data := self._stream.read(_BLOCK_BYTES):
            cut = data.rfind(b"\n") + 1
            if cut:
                self._rest = data[cut:]
                return b"".join([*parts, data[:cut]])
            parts.append(data)
            size += len(data)
            if size > self._large:
                self._on_large(True)
            if size > self._max_bytes:
                self._rest = b"".join(parts)
                raise _RowTooLargeError
        self._rest = b""
        return b"".join(parts)

    def begin_row(self) -> None:
        """The lines given so far are done with."""
        if self.row_bytes > self._large:
            self._on_large(False)
        self.line += self._num_lines + len(self._held)
        self._held.clear()
        self._num_lines = self.row_bytes = 0

    def _count(self) -> None:
        self._num_lines += len(self._held)
        self.row_bytes += len(_encode("".join(self._held)))
        self._held.clear()

    def is_too_large(self) -> bool:
        """For a row that was parsed; one within a block of small lines is not even counted."""
        if self.row_bytes or self._large_block:
            self._count()
        return self.row_bytes > self._max_bytes

    def skip_row(self) -> bool:
        """Read to the end of a row that is too large, without holding it.

        False if a quote in it is not closed as it should be.
        """
        data, self._rest = self._rest, b""
        # Between two lines of a row, a quote is open.
        state = "quoted" if self._num_lines else "begin"
        while data or (data := self._stream.read(_BLOCK_BYTES)):
            state, at = _walk(state, data)
            self.row_bytes += at
            if state in ("end", "broken"):
                self._rest = data[at:]
                return state == "end"
            data = b""
        return state != "quoted"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _walk(state: str, data: bytes) -> tuple[str, int]:
    """The state of the strict parser after these bytes of a row, and how many of them are its."""
    at = 0
    while at < len(data):
        if state == "quoted":
            at = data.find(b'"', at) + 1
            if not at:
                break
            state = "quote"  # it closes the field, unless another quote follows
        elif state == "plain":
            end = _FIELD_END.search(data, at)
            if end is None:
                break
            at = end.end()
            if end[0] == b"\n":
                return "end", at
            state = "begin"  # of a field
        elif data[at] == ord('"'):
            state, at = "quoted", at + 1
        elif state == "quote" and data[at] not in b",\r\n":
            return "broken", at
        else:
            state = "plain"
    return state, len(data)
