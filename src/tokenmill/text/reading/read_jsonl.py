"""JSON lines, plain or compressed: one object a line, one field of it is the document.

A line that holds nothing but spaces, tabs and CRs is no document. Lines are parsed one by one:
parsing many at once as one array takes longer, and accepts lines that are not JSON.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from tokenmill.base.strict_json import no_constant
from tokenmill.text.inputs.open_input import InputStream, Source
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.chunks import Chunk, ReadRules
from tokenmill.text.reading.cut_pieces import DocumentPieces, pieces_of
from tokenmill.text.reading.document_rules import BySeparator

if TYPE_CHECKING:  # imported where facts are kept
    from tokenmill.text.reading.kept_facts import KeptFacts

_SURROGATES = re.compile("[\ud800-\udfff]")


def read_jsonl(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """The documents of one unit of a JSONL file; no document is ever left open."""
    loads = orjson.loads
    field = rules.text_field
    fields = rules.fields
    text_of_row = rules.text_of_row
    rules = replace(rules, cuts=None)  # a line is parsed whole
    lines_before = 0
    for pieces, bytes_in in pieces_of(source, unit, rules, BySeparator(b"\n")):
        chunk = Chunk([], bytes_in=bytes_in)
        for at in pieces.too_large:
            line = pieces.run.count(b"\n", 0, at - pieces.offset) + 1
            chunk.leave_out(bad_input.TOO_LARGE, "line", line)
        chunk.lines = pieces.run.count(b"\n", 0, pieces.size)
        lines = pieces.texts
        if pieces.offset == 0 and lines and lines[0].startswith(b"\xef\xbb\xbf"):
            lines[0] = lines[0][3:]  # of the file, not of the text in it
        rows: Iterable[Any]
        numbers: list[int] | None = None
        try:
            rows = map(loads, lines)
            if rules.keep:
                rows = list(rows)
            if text_of_row is not None:
                chunk.texts = list(map(text_of_row, rows))
            elif not fields.is_template:
                chunk.texts = [row[field].encode() for row in rows]
            else:
                chunk.texts = [fields.join([row[n].encode() for n in fields.names]) for row in rows]
        except (
            *(orjson.JSONDecodeError, KeyError, TypeError, AttributeError),
            bad_input.NotReadableError,
        ):
            numbers, rows = _read_with_care(pieces, chunk, source, rules)
        if rules.keeps_facts:
            if numbers is None:
                is_all = not pieces.too_large
                numbers = list(range(1, len(lines) + 1)) if is_all else _line_numbers(pieces)
            chunk.kept = _facts(source, rules, pieces, np.array(numbers), list(rows), lines_before)
        lines_before += chunk.lines
        chunk.drop_empty()
        yield chunk


def _facts(
    source: Source,
    rules: ReadRules,
    pieces: DocumentPieces,
    numbers: np.ndarray,
    rows: list[Any],
    lines_before: int,
) -> "KeptFacts":
    """Return the facts of documents; `numbers` are their lines in these pieces, from 1."""
    from tokenmill.text.reading.kept_facts import KeptFacts

    values = None
    if rules.kept_fields is not None:

        def name_of(i: int) -> str:
            return f"{source.name}:{_lines_before(source, pieces.offset) + int(numbers[i]):,}"

        values = rules.kept_fields.of_rows(rows, name_of)
    return KeptFacts.at(numbers + lines_before, values)


def _read_with_care(
    pieces: DocumentPieces, chunk: Chunk, source: Source, rules: ReadRules
) -> tuple[list[int], list[Any]]:
    """Fill the chunk with the texts of lines of which at least one is unusual.

    Returns the number of the line of each text, and what was parsed from it.
    """
    numbers, rows = [], []
    for line, number in zip(pieces.texts, _line_numbers(pieces), strict=True):
        if not line.strip(b" \t\r"):
            continue
        try:
            value, is_repaired = _parse(line, repair=rules.on_bad_input == "replace")
            if rules.text_of_row is not None:
                chunk.texts.append(rules.text_of_row(value))
            else:
                texts = [_find_text(value, name) for name in rules.fields.names]
                chunk.texts.append(rules.fields.join(texts))
            numbers.append(number)
            rows.append(value)
        except bad_input.NotReadableError as bad:
            if rules.on_bad_input == "error":
                where = f":{_lines_before(source, pieces.offset) + number}"
                raise bad_input.bad_document(source, where, bad.what, bad.hint) from None
            chunk.leave_out(bad.reason, "line", number)
        else:
            if is_repaired:
                chunk.repaired(bad_input.NOT_UTF8, "line", number)
    return numbers, rows


def _line_numbers(pieces: DocumentPieces) -> list[int]:
    """The line of each text, from 1; lines that were too large are not among the texts."""
    numbers = []
    lines = enumerate(pieces.run.split(b"\n"), 1)
    for text in pieces.texts:
        for number, line in lines:
            if line.endswith(text) and len(line) - len(text) in (0, 3):  # a byte order mark is off
                numbers.append(number)
                break
    return numbers


def _parse(line: bytes, *, repair: bool) -> tuple[Any, bool]:
    """The value, and whether U+FFFD is in it for what is not UTF-8 and for lone surrogates."""
    try:
        return orjson.loads(line), False
    except orjson.JSONDecodeError as error:
        if not repair:
            is_text = bad_input.find_not_utf8(line) < 0
            reason = bad_input.NOT_JSON if is_text else bad_input.NOT_UTF8
            raise bad_input.NotReadableError(reason, f"{reason}: {error}") from None
    try:
        text = line.decode("utf-8", "replace")
        return json.loads(text, parse_constant=no_constant), True
    except (ValueError, RecursionError) as error:
        raise bad_input.NotReadableError(bad_input.NOT_JSON, f"not JSON: {error}") from None


def _find_text(value: Any, field: str) -> bytes:
    """The field: by its name, or, when there is no such name, by a dotted path."""
    top = value
    path = [field] if isinstance(top, dict) and field in top else field.split(".")
    for part in path:
        if not isinstance(value, dict) or part not in value:
            hint = "name the field that holds the text with text_field="
            what = f"no field {field!r} in {_shape(top)}"
            raise bad_input.NotReadableError(bad_input.NO_FIELD, what, hint)
        value = value[part]
    if not isinstance(value, str):
        what = f"field {field!r} is {_kind(value)}, not a string"
        raise bad_input.NotReadableError(bad_input.NO_STRING, what)
    return _SURROGATES.sub("\ufffd", value).encode()


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _shape(value: Any) -> str:
    if not isinstance(value, dict):
        return _kind(value)
    names = bad_input.short_list(list(value)) or "none"
    return f"an object with the fields: {names}" + (", ..." if len(value) > 8 else "")


def _lines_before(source: Source, offset: int) -> int:
    """How many lines end before a byte; the file is read again, since only errors ask."""
    lines = 0
    with InputStream(source.path, source.compression, source.name) as stream:
        while offset and (data := stream.read(min(offset, 1 << 20))):
            lines += data.count(b"\n")
            offset -= len(data)
    return lines
