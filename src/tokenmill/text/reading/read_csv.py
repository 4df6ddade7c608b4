"""CSV files, plain or compressed: a header row, and one column of it is the document.

The standard library's parser reads them in strict mode; quoted fields may hold newlines. After a
row that is not CSV (a quote that is not closed, or not closed as it should be) nobody can say where
rows begin, and a row of more than `max_document_bytes` is never held: either is an error, or, where
bad input is skipped, ends the file. A row without the column, or not UTF-8, costs that row alone.

A CSV file is one unit, since a newline inside quotes ends no row. For speed, convert to JSONL or
parquet.
"""

import csv
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader

_BLOCK_BYTES = 1 << 18


def read_csv(source: Source, _unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """Yield the documents of a CSV file; rows are counted from 1, the header is row 0."""
    with _open(source) as stream, _fields_of_any_size():
        reader = _CsvReader(stream, source, rules)
        try:
            column = reader.find_column()
        except NotReadableError as bad:
            yield reader.bad_file(bad, source.size)
            return
        text_bytes = 0
        bytes_done = 0
        for values in reader.rows():
            text_bytes += reader.take(values, column)
            if text_bytes >= rules.chunk_bytes:
                yield reader.finish_chunk(stream.raw_position - bytes_done)
                text_bytes = 0
                bytes_done = stream.raw_position
        yield reader.finish_chunk(source.size - bytes_done)


def _open(source: Source) -> InputStream:
    return InputStream(source.path, source.compression, source.name)


@contextmanager
def _fields_of_any_size() -> Iterator[None]:
    """Lift the parser's limit on fields: `_Lines` bounds whole rows."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(limit)


class _CsvReader(RowReader):
    """Rows of a file; a bad one is an error, or is counted in `chunk`."""

    def __init__(self, stream: InputStream, source: Source, rules: ReadRules) -> None:
        super().__init__(source, rules)
        self._lines = _Lines(stream, rules)
        self._parser = csv.reader(self._lines, strict=True)
        self.row = 0

    def find_column(self) -> int:
        """Read the header and return the number of the column that holds the text."""
        field = self.rules.text_field
        try:
            # Spreadsheets write a byte order mark; it is not part of a name.
            header = [_encode(name).decode("utf-8-sig", "replace") for name in next(self._parser)]
        except StopIteration:
            what = "the file is empty: it has no header"
            raise NotReadableError(bad_input.EMPTY_FILE, what) from None
        except (csv.Error, _RowTooLargeError) as error:
            what = f"the header is not CSV: {error}"
            raise NotReadableError(bad_input.NOT_CSV, what) from None
        count = header.count(field)
        if count != 1:
            times = "no" if count == 0 else f"{count} times a"
            names = bad_input.short_list(header)
            raise bad_input.no_column(field, f"{times} such column; the header has: {names}")
        return header.index(field)

    def rows(self) -> Iterator[list[str]]:
        """Yield the values of each row, up to one that cannot be read."""
        while True:
            self.row += 1
            self._lines.begin_row()
            first_line = self._parser.line_num + 1
            try:
                values = next(self._parser)
            except StopIteration:
                return
            except csv.Error as error:
                return self._not_csv(error, first_line)
            except _RowTooLargeError:
                return self._too_large(first_line)
            yield values

    def _not_csv(self, error: csv.Error, first_line: int) -> None:
        what = f"not CSV: {error}, in the row that starts on line {first_line:,}"
        hint = (
            "is a quote not closed? inside quotes, a quote is written twice; "
            'on_bad_input="skip" leaves out the file from this row on'
        )
        self.bad_row(self.row, bad_input.REST_NOT_CSV, what, hint)

    def _too_large(self, first_line: int) -> None:
        if self.rules.on_bad_input == "error":
            size = _row_bytes(self.source, self._lines.row_start)
            self.large_row(self.row, f"the row that starts on line {first_line:,}", size)
        self.chunk.leave_out(bad_input.REST_TOO_LARGE, "row", self.row)

    def take(self, values: list[str], column: int) -> int:
        """Add the text of a row to the chunk and return its size; an empty line is not a row."""
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
        """Return the chunk, which covers `bytes_in` bytes of the file, and start another."""
        done = self.chunk
        done.bytes_in = bytes_in
        done.drop_empty()
        self.chunk = Chunk([])
        return done


class _RowTooLargeError(Exception):
    """The row that is being parsed has more bytes than are allowed."""


class _Lines:
    """Lines of a file for the parser, with the bytes of the row they are in.

    Bytes become characters one by one (Latin-1): the parser looks for ASCII alone.
    """

    def __init__(self, stream: InputStream, rules: ReadRules) -> None:
        self._stream = stream
        self._rules = rules
        self._usual_bytes = min(rules.large_document_bytes, rules.max_document_bytes)
        self._lines = self._split()
        self._row_bytes = 0
        self.row_start = 0
        """The byte of the text at which the row starts."""

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def begin_row(self) -> None:
        """Release the row before."""
        if self._row_bytes > self._rules.large_document_bytes:
            self._rules.on_large(False)
        self.row_start += self._row_bytes
        self._row_bytes = 0

    def _split(self) -> Iterator[str]:
        for block in self._blocks():
            for line in io.StringIO(block.decode("latin-1"), newline="\n"):
                self._row_bytes += len(line)
                if self._row_bytes > self._usual_bytes:
                    self._announce(self._row_bytes)
                yield line

    def _blocks(self) -> Iterator[bytes]:
        """Yield whole lines, a block of the file at a time."""
        rest: list[bytes] = []
        rest_bytes = 0
        while data := self._stream.read(_BLOCK_BYTES):
            end = data.rfind(b"\n") + 1
            if end:
                yield b"".join([*rest, data[:end]])
                rest = []
                rest_bytes = 0
            rest.append(data[end:])
            rest_bytes += len(data) - end
            if rest_bytes > self._usual_bytes:
                self._announce(rest_bytes)
        yield b"".join(rest)

    def _announce(self, size: int) -> None:
        """Wait for the room that a large row takes; refuse one that is too large."""
        if size > self._rules.max_document_bytes:
            raise _RowTooLargeError(f"it has more than {self._rules.max_document_bytes:,} bytes")
        self._rules.on_large(True)


def _encode(text: str) -> bytes:
    return text.encode("latin-1")


def _row_bytes(source: Source, start: int) -> int:
    """Size of the row that starts at a byte of the text: up to a newline outside of quotes."""
    size = 0
    quotes = 0
    with _open(source) as stream:
        stream.skip(start)
        while block := stream.read(_BLOCK_BYTES):
            for line in block.splitlines(keepends=True):
                size += len(line)
                quotes += line.count(b'"')
                if line.endswith(b"\n") and quotes % 2 == 0:
                    return size
    return size
