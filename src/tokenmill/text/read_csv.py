"""CSV files, plain or compressed: a header row, and one column of it is the document.

Read with the standard library's parser in strict mode: quoted fields may hold newlines, an
unclosed quote is bad input, and behind a row that is left out the next line starts a new row. One
unit a file, since a newline inside quotes ends no row. For speed, convert to JSONL or parquet.
"""

import csv
from collections.abc import Iterator

from tokenmill.errors import BadInputError
from tokenmill.text.chunks import Chunk, ReadRules, bad_input
from tokenmill.text.read_text import EMPTY, NOT_UTF8
from tokenmill.text.sources import Source
from tokenmill.text.streams import Plain, Stream, open_stream

NOT_CSV, NO_FIELD = "not CSV", "missing field"


def read_csv(source: Source, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    """The documents of a CSV file; rows are counted from 1, the header is row 0."""
    before = csv.field_size_limit(rules.max_document_bytes)
    try:
        yield from _read(source, rules, chunk_bytes)
    finally:
        csv.field_size_limit(before)


def _read(source: Source, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    with open_stream(source.path, source.compression, source.name) as stream:
        rows = csv.reader(_lines(stream, source, rules), strict=True)
        column = _find_column(rows, source, rules)
        chunk, size, row, seen = Chunk([], offset=1), 0, 0, 0
        while True:
            row += 1
            try:
                values = next(rows)
            except StopIteration:
                break
            except csv.Error as error:
                if "field limit" in str(error):
                    raise _too_large(source, rules, row) from None
                _bad(chunk, source, rules, row, NOT_CSV, f"not CSV: {error}")
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
                _count(chunk, EMPTY)
            if size >= chunk_bytes:
                chunk.bytes_in, seen = stream.raw_position - seen, stream.raw_position
                yield chunk
                chunk, size = Chunk([], offset=row + 1), 0
        chunk.bytes_in = stream.raw_position - seen
        yield chunk


def _find_column(rows: Iterator[list[str]], source: Source, rules: ReadRules) -> int:
    try:
        header = next(rows)
    except StopIteration:
        raise _no_column(source, rules, "the file is empty") from None
    except csv.Error as error:
        raise bad_input(source, " in the header", f"not CSV: {error}") from None
    if header:
        header[0] = header[0].removeprefix("\ufeff")  # spreadsheets write one; it is not a name
    found = header.count(rules.text_field)
    if found != 1:
        names = ", ".join(ascii(name)[1:-1][:40] for name in header[:8])
        times = "no" if found == 0 else f"{found} times a"
        raise _no_column(source, rules, f"{times} such column; the header has: {names}")
    return header.index(rules.text_field)


def _no_column(source: Source, rules: ReadRules, what: str) -> BadInputError:
    hint = "name the column that holds the text with --text_field"
    return bad_input(source, "", f"column {rules.text_field!r}: {what}", hint)


def _too_large(source: Source, rules: ReadRules, row: int) -> BadInputError:
    """Always an error: what comes behind the limit would be taken for rows."""
    what = f"a field has more than {rules.max_document_bytes:,} characters"
    hint = "is a quote never closed? if not, raise the limit on memory"
    return bad_input(source, f", row {row:,}", what, hint)


def _lines(stream: Plain | Stream, source: Source, rules: ReadRules) -> Iterator[str]:
    """Lines for the parser, newlines kept; what is not UTF-8 comes as surrogate escapes."""
    rest = b""
    while data := stream.read(1 << 18):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape") + "\n"
        if len(rest) > rules.max_document_bytes:
            what = f"a line has more than {rules.max_document_bytes:,} bytes"
            raise bad_input(source, f" at byte {stream.position - len(rest):,}", what, "is it CSV?")
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


def _encode(value: str, chunk: Chunk, source: Source, rules: ReadRules, row: int) -> bytes | None:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raw = value.encode("utf-8", "surrogateescape")
    if rules.on_bad_input == "replace":
        chunk.replaced += 1
        return raw.decode("utf-8", "replace").encode()
    _bad(chunk, source, rules, row, NOT_UTF8, f"column {rules.text_field!r} is not UTF-8")
    return None


def _bad(chunk: Chunk, source: Source, rules: ReadRules, row: int, reason: str, what: str) -> None:
    if rules.on_bad_input == "error":
        raise bad_input(source, f", row {row:,}", what)
    _count(chunk, reason)


def _count(chunk: Chunk, reason: str) -> None:
    chunk.dropped[reason] = chunk.dropped.get(reason, 0) + 1
