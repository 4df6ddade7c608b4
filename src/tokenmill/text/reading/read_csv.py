"""CSV files, plain or compressed: a header row, and one column of it is the document.

The standard library's parser reads them in strict mode. After a row that is not CSV (a quote that
is not closed, or not closed as it should be) nobody can say where rows begin, and a row of more
than `max_document_bytes` is never held: either is an error, or, where bad input is skipped, ends
the file. A file is one unit, since a newline inside quotes ends no row.
"""

import csv
import io
import sys
from collections.abc import Iterator
from typing import Any

from tokenmill.text.inputs.open_input import InputStream, Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import NotReadableError
from tokenmill.text.reading.chunks import Chunk, ReadRules, RowReader

_BLOCK_BYTES = 1 << 18


def read_csv(source: Source, _unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """Yield the documents of a CSV file; rows are counted from 1, the header is row 0."""
    limit = csv.field_size_limit(sys.maxsize)  # the reader bounds whole rows
    try:
        with InputStream(source.path, source.compression, source.name) as stream:
            yield from _CsvReader(stream, source, rules).chunks()
    finally:
        csv.field_size_limit(limit)


class _RowTooLargeError(Exception):
    """The row that is being parsed has more bytes than are allowed."""


class _CsvReader(RowReader):
    """Rows of a file; a bad one is an error, or is counted in `chunk`."""

    def __init__(self, stream: InputStream, source: Source, rules: ReadRules) -> None:
        super().__init__(source, rules)
        self._stream = stream
        self._parser = csv.reader(self._lines(), strict=True)
        self._row = 0
        self._row_start = 0  # byte of the text at which the row starts
        self._row_bytes = 0  # as far as it was read
        self._kept: dict[int, dict[str, str | None]] = {}  # fields of the rows of the chunk

    def chunks(self) -> Iterator[Chunk]:
        try:
            columns = self._find_columns()
        except NotReadableError as bad:
            yield self.bad_file(bad, self.source.size)
            return
        text_bytes = 0
        bytes_done = 0
        for values in self._rows():
            text_bytes += self._take(values, columns)
            if text_bytes >= self.rules.chunk_bytes:
                yield self._finish_chunk(self._stream.raw_position - bytes_done)
                text_bytes = 0
                bytes_done = self._stream.raw_position
        yield self._finish_chunk(self.source.size - bytes_done)

    def _finish_chunk(self, bytes_in: int) -> Chunk:
        self.chunk.bytes_in = bytes_in
        done = self.finish(self._kept_values)
        self._kept = {}
        return done

    def _kept_values(self, rows: list[int]) -> Any:
        fields = self.rules.kept_fields
        assert fields is not None
        return fields.of_rows(
            [self._kept[row] for row in rows], lambda i: f"{self.source.name}, row {rows[i]:,}"
        )

    def _find_columns(self) -> list[int]:
        try:
            # Spreadsheets write a byte order mark; it is not part of a name.
            header = [
                name.encode("latin-1").decode("utf-8-sig", "replace") for name in next(self._parser)
            ]
        except StopIteration:
            what = "the file is empty: it has no header"
            raise NotReadableError(bad_input.EMPTY_FILE, what) from None
        except (csv.Error, _RowTooLargeError) as error:
            what = f"the header is not CSV: {error}"
            raise NotReadableError(bad_input.NOT_CSV, what) from None
        kept = self.rules.kept_fields
        self._columns = list(kept.paths.values()) if kept else []
        for field in (*self.rules.fields.names, *self._columns):
            count = header.count(field)
            if count != 1:
                found = f"{count} such columns" if count else "no such column"
                names = bad_input.short_list(header)
                raise bad_input.no_column(field, f"{found}; the header has: {names}")
        self._header = header
        return [header.index(field) for field in self.rules.fields.names]

    def _rows(self) -> Iterator[list[str]]:
        """Yield the values of each row, up to one that cannot be read."""
        while True:
            self._row += 1
            self._row_start += self._row_bytes
            self._row_bytes = 0
            starts = f"the row that starts on line {self._parser.line_num + 1:,}"
            try:
                yield next(self._parser)
            except StopIteration:
                return
            except csv.Error as error:
                hint = (
                    "is a quote not closed? inside quotes, a quote is written twice; "
                    'on_bad_input="skip" leaves out the file from this row on'
                )
                what = f"not CSV: {error}, in {starts}"
                return self.bad_row(self._row, bad_input.REST_NOT_CSV, what, hint)
            except _RowTooLargeError:
                if self.rules.on_bad_input == "error":
                    self.large_row(self._row, starts, _row_bytes(self.source, self._row_start))
                return self.chunk.leave_out(bad_input.REST_TOO_LARGE, "row", self._row)

    def _take(self, values: list[str], columns: list[int]) -> int:
        """Add the text of a row to the chunk and return its size; an empty line is not a row."""
        if len(values) > max(columns):
            texts = [values[column].encode("latin-1") for column in columns]
            text = self.rules.fields.join(texts)
            self.add(self._row, text)
            if self._columns:
                row = dict(zip(self._header, values, strict=False))
                self._kept[self._row] = {name: _fact(row.get(name)) for name in self._columns}
            return len(text)
        if values:
            last = self.rules.fields.names[columns.index(max(columns))]
            what = f"{len(values)} columns, but {last!r} is column {max(columns) + 1}"
            self.bad_row(self._row, bad_input.NO_FIELD, what)
        return 0

    def _lines(self) -> Iterator[str]:
        """Yield lines for the parser; it looks for ASCII alone, so bytes become Latin-1."""
        rest: list[bytes] = []  # of a line that is not whole yet
        while data := self._stream.read(_BLOCK_BYTES):
            end = data.rfind(b"\n") + 1
            if end:
                yield from self._lines_of(b"".join([*rest, data[:end]]))
                rest = []
            rest.append(data[end:])
            self._check_size(self._row_bytes + sum(map(len, rest)))
        yield from self._lines_of(b"".join(rest))

    def _lines_of(self, block: bytes) -> Iterator[str]:
        large = min(self.rules.large_document_bytes, self.rules.max_document_bytes)
        for line in io.StringIO(block.decode("latin-1"), newline="\n"):
            self._row_bytes += len(line)
            if self._row_bytes > large:
                self._check_size(self._row_bytes)
            yield line

    def _check_size(self, size: int) -> None:
        """Wait for the room that a large row takes; refuse one that is too large."""
        if size > self.rules.max_document_bytes:
            raise _RowTooLargeError(f"it has more than {self.rules.max_document_bytes:,} bytes")
        if size > self.rules.large_document_bytes:
            self.rules.on_large(True)


def _fact(value: str | None) -> str | None:
    return None if value is None else value.encode("latin-1").decode("utf-8", "replace")


def _row_bytes(source: Source, start: int) -> int:
    """Size of the row that starts at a byte of the text: up to a newline outside of quotes."""
    size = 0
    quotes = 0
    with InputStream(source.path, source.compression, source.name) as stream:
        stream.skip(start)
        while block := stream.read(_BLOCK_BYTES):
            for line in block.splitlines(keepends=True):
                size += len(line)
                quotes += line.count(b'"')
                if line.endswith(b"\n") and quotes % 2 == 0:
                    return size
    return size
