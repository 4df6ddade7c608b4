"""JSON lines, plain or compressed: one object a line, one field of it is the document.

A line that holds nothing but spaces, tabs and CRs is no document. Lines are parsed one by one:
parsing many at once as one array takes longer, and accepts lines that are not JSON.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from tokenmill.text.inputs.decompress import InputStream
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.bad_input import (
    NO_FIELD,
    NO_STRING,
    NOT_JSON,
    NOT_UTF8,
    TOO_LARGE,
    bad_input,
    find_not_utf8,
    short_list,
)
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.cut_pieces import DocumentPieces, pieces_of
from tokenmill.text.reading.document_rules import ByLine

_SURROGATES = re.compile("[\ud800-\udfff]")


def read_jsonl(source: Source, unit: Unit, rules: ReadRules, chunk_bytes: int) -> Iterator[Chunk]:
    """The documents of one unit of a JSONL file; no document is ever left open."""
    parser = _Parser(source, rules)
    for pieces, bytes_in in pieces_of(source, unit, rules, ByLine(), None, chunk_bytes):
        chunk = Chunk([], bytes_in=bytes_in, offset=pieces.offset)
        for at in pieces.too_large:
            line = pieces.run.count(b"\n", 0, at - pieces.offset) + 1
            chunk.leave_out(TOO_LARGE, "line", line)
        chunk.lines = pieces.run.count(b"\n", 0, pieces.size)
        parser.parse(pieces, chunk)
        yield chunk


class _Parser:
    def __init__(self, source: Source, rules: ReadRules) -> None:
        self._source, self._rules = source, rules
        self._field = rules.text_field

    def parse(self, pieces: DocumentPieces, chunk: Chunk) -> None:
        """Fill the chunk with the texts of these lines."""
        loads, field = orjson.loads, self._field
        lines = pieces.texts
        if pieces.offset == 0 and lines and lines[0].startswith(b"\xef\xbb\xbf"):
            lines[0] = lines[0][3:]  # of the file, not of the text in it
        try:
            chunk.texts = [loads(line)[field].encode() for line in lines]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            chunk.texts = self._one_by_one(pieces, chunk)
        if b"" in chunk.texts:
            kept = [text for text in chunk.texts if text]
            chunk.leave_out_empty(len(chunk.texts) - len(kept))
            chunk.texts = kept

    def _one_by_one(self, pieces: DocumentPieces, chunk: Chunk) -> list[bytes]:
        """The same, for lines of which at least one needs care."""
        texts = []
        numbers = _line_numbers(pieces)
        for number, line in enumerate(pieces.texts):
            if not line.strip(b" \t\r"):
                continue
            try:
                texts.append(self._text(line, chunk, numbers[number]))
            except _BadLineError as bad:
                if self._rules.on_bad_input == "error":
                    raise self._error(pieces, number, bad) from None
                chunk.leave_out(bad.reason, "line", numbers[number])
        return texts

    def _text(self, line: bytes, chunk: Chunk, number: int) -> bytes:
        value: Any
        repaired = False
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            if self._rules.on_bad_input != "replace":
                reason = NOT_JSON if find_not_utf8(line) < 0 else NOT_UTF8
                raise _BadLineError(reason, f"{reason}: {error}") from None
            value, repaired = _repair(line), True
        value = self._value(value)
        if not isinstance(value, str):
            raise _BadLineError(NO_STRING, f"field {self._field!r} is {_kind(value)}, not a string")
        if repaired:
            chunk.repaired(NOT_UTF8, "line", number)
        return _SURROGATES.sub("\ufffd", value).encode()

    def _value(self, value: Any) -> Any:
        """The field: by its name, or, when there is no such name, by a dotted path."""
        if isinstance(value, dict) and self._field in value:
            return value[self._field]
        top = value
        for part in self._field.split("."):
            if not isinstance(value, dict) or part not in value:
                raise _BadLineError(NO_FIELD, f"no field {self._field!r} in {_shape(top)}")
            value = value[part]
        return value

    def _error(self, pieces: DocumentPieces, number: int, bad: "_BadLineError") -> Exception:
        line = _lines_before(self._source, pieces.offset) + number + 1
        hint = None
        if bad.reason == NO_FIELD:
            hint = "name the field that holds the text with --text_field"
        return bad_input(self._source, f":{line}", bad.what, hint)


class _BadLineError(Exception):
    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason, self.what = reason, what


def _line_numbers(pieces: DocumentPieces) -> list[int]:
    """The line of each text, from 1; lines that were too large are not among the texts."""
    if len(pieces.texts) == pieces.run.count(b"\n", 0, pieces.size) and not pieces.too_large:
        return list(range(1, len(pieces.texts) + 1))
    numbers = []
    lines = enumerate(pieces.run.split(b"\n"), 1)
    for text in pieces.texts:
        for number, line in lines:
            if line.endswith(text) and len(line) - len(text) in (0, 3):  # a byte order mark is off
                numbers.append(number)
                break
    return numbers


def _repair(line: bytes) -> Any:
    """Parse a line with U+FFFD for what is not UTF-8 and for lone surrogates."""
    text = line.decode("utf-8", "replace")
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _BadLineError(NOT_JSON, f"not JSON: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


def _shape(value: Any) -> str:
    if not isinstance(value, dict):
        return "a string" if isinstance(value, str) else _kind(value)
    names = short_list(list(value)) or "none"
    return f"an object with the fields: {names}" + (", ..." if len(value) > 8 else "")


def _lines_before(source: Source, offset: int) -> int:
    """How many lines end before a byte; the file is read again, since only errors ask."""
    lines = 0
    with InputStream(source.path, source.compression, source.name) as stream:
        while offset and (data := stream.read(min(offset, 1 << 20))):
            lines += data.count(b"\n")
            offset -= len(data)
    return lines
