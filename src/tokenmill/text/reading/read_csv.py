"""CSV files, plain or compressed: a header row, and one column of it is the document.

Read with the standard library's parser in strict mode: quoted fields may hold newlines, an
unclosed quote is bad input, and behind a row that is left out the line after the one it began on
starts a new row (`csv_lines.py`). A row of more than `max_document_bytes` is left out whole where
its quotes are closed as they should be. One unit a file, since a newline inside quotes ends no row.
For speed, convert to JSONL or parquet.
"""

import csv
import sys
from collections.abc import Iterator

from tokenmill.text.inputs.sources import Source
from tokenmill.text.reading.bad_header import (
    NAME_COLUMN,
    NO_COLUMN,
    NO_FIELD,
    BadHeaderError,
    without_documents,
)
from tokenmill.text.reading.chunks import Chunk, ReadRules, TooLargeError, bad_input
from tokenmill.text.reading.csv_lines import CsvLines, RowTooLargeError
from tokenmill.text.reading.read_text import EMPTY, NOT_UTF8, TOO_LARGE

NOT_CSV, EMPTY_FILE = "not CSV", "empty file"


def read_csv(source: Source, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    """The documents of a CSV file; rows are counted from 1, the header is row 0."""
    before = csv.field_size_limit(sys.maxsize)  # whole rows are bounded, by `CsvLines`
    try:
        yield from _read(source, rules, chunk_bytes)
    finally:
        csv.field_size_limit(before)


def _read(source: Source, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    with CsvLines(source, rules) as lines:
        rows = lines.rows()
        try:
            column = _find_column(rows, source, rules)
        except BadHeaderError as bad:
            yield without_documents(bad, source.size, source, rules)
            return
        chunk, size, row, seen = Chunk([], offset=1), 0, 0, 0
        while True:
            row += 1
            lines.begin_row()
            try:
                values = next(rows)
                if lines.may_be_too_large:
                    lines.check_size()
            except StopIteration:
                break
            except csv.Error as error:
                _bad(chunk, source, rules, row, NOT_CSV, f"not CSV: {error}")
                lines.go_on_behind_first()
                rows = lines.rows()
                continue
            except RowTooLargeError:
                _leave_out_large(lines, chunk, source, rules, row)
                rows = lines.rows()
                continue
            if not values:
                continue
            if len(values) <= column:
                what = f"{len(values)} columns, but {rules.text_field!r} is column {column + 1}"
                _bad(chunk, source, rules, row, NO_FIELD, what)
                continue
            text = _encode(values[column], chunk, source, rules, row)
            if text:
                chunk.texts.append(text)
                size += len(text)
            elif text is not None:
                chunk.dropped[EMPTY] = chunk.dropped.get(EMPTY, 0) + 1
            if size >= chunk_bytes:
                chunk.bytes_in, seen = lines.raw_position - seen, lines.raw_position
                yield chunk
                chunk, size = Chunk([], offset=row + 1), 0
        chunk.bytes_in = lines.raw_position - seen
        yield chunk


def _find_column(rows: Iterator[list[str]], source: Source, rules: ReadRules) -> int:
    try:
        header = next(rows)
    except StopIteration:
        raise BadHeaderError(EMPTY_FILE, "the file is empty: it has no header") from None
    except csv.Error as error:
        raise BadHeaderError(NOT_CSV, f"the header is not CSV: {error}") from None
    except RowTooLargeError:
        what = f"the header has more than {rules.max_document_bytes:,} bytes"
        raise BadHeaderError(NOT_CSV, what) from None
    if header:
        header[0] = header[0].removeprefix("\ufeff")  # spreadsheets write one; it is not a name
    found = header.count(rules.text_field)
    if found != 1:
        names = ", ".join(ascii(name)[1:-1][:40] for name in header[:8])
        times = "no" if found == 0 else f"{found} times a"
        what = f"{times} such column; the header has: {names}"
        raise BadHeaderError(NO_COLUMN, f"column {rules.text_field!r}: {what}", NAME_COLUMN)
    return header.index(rules.text_field)


def _leave_out_large(
    lines: CsvLines, chunk: Chunk, source: Source, rules: ReadRules, row: int
) -> None:
    """Count a row over the limit, and go on behind it, or in it where a quote is not closed."""
    begin = lines.row_begin
    end = lines.end_of_row(begin)
    if end is None:
        what = "not CSV: a quote is not closed as it should be"
        _bad(chunk, source, rules, row, NOT_CSV, what)
        lines.go_on_behind(lines.end_of_line(begin))
        return
    if rules.on_bad_input == "error":
        raise _too_large(source, rules, f", row {row:,}", end - begin)
    chunk.leave_out(TOO_LARGE, "row", row)
    lines.go_on_behind(end)


def _too_large(source: Source, rules: ReadRules, where: str, size: int) -> TooLargeError:
    what = f"the row has more than {rules.max_document_bytes:,} bytes"
    return TooLargeError(source, where, what, size)


def _encode(value: str, chunk: Chunk, source: Source, rules: ReadRules, row: int) -> bytes | None:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raw = value.encode("utf-8", "surrogateescape")
    if rules.on_bad_input == "replace":
        chunk.mended(NOT_UTF8, "row", row)
        return raw.decode("utf-8", "replace").encode()
    _bad(chunk, source, rules, row, NOT_UTF8, f"column {rules.text_field!r} is not UTF-8")
    return None


def _bad(chunk: Chunk, source: Source, rules: ReadRules, row: int, reason: str, what: str) -> None:
    if rules.on_bad_input == "error":
        raise bad_input(source, f", row {row:,}", what)
    chunk.leave_out(reason, "row", row)
