"""Texts that a caller holds: lists, iterators, data frames, Arrow tables, Hugging Face datasets.

Each becomes one file of JSON lines in the work folder, a document a line, written as it is
consumed. From there on it is an input like any other: cut, read in parallel, resumed.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any

import orjson

from tokenmill.base.address import is_address
from tokenmill.errors import BadInputError
from tokenmill.text.inputs.file_kind import suffixes
from tokenmill.text.inputs.tables import pyarrow_for
from tokenmill.text.reading.bad_input import NotReadableError
from tokenmill.text.reading.chunks import ReadRules
from tokenmill.text.reading.read_table import find_column

_ROWS = 1024  # that are written at a time
_LOOKED_AT = 100  # strings of a list
_TAKEN = (
    "give paths; or texts: a list or iterator of strings or of mappings, a data frame, an Arrow "
    'table, a Hugging Face dataset (of several splits, one: inputs["train"])'
)


def paths_or_texts(inputs: Any) -> Iterable[Any]:
    """Return paths as they are; anything that holds texts as the one item of a list.

    A list of strings holds texts if one of the first has a line break, or blanks and nothing of a
    file name, and none names a file. An iterator of strings always does.
    """
    if _is_table(inputs):
        return [inputs]
    if not isinstance(inputs, Iterable) or isinstance(inputs, bytes | Mapping):
        raise TypeError(f"inputs or val_input is of the type {_type(inputs)}; {_TAKEN}")
    items = iter(inputs)
    some = list(itertools.islice(items, _LOOKED_AT))
    strings = [item for item in some if isinstance(item, str)]
    path = next(filter(_names_a_file, strings), None)
    if path is not None and not isinstance(inputs, Sequence):
        what = f"inputs ({_type(inputs)}) has the text {path[:80]!r}, which names a file"
        raise ValueError(f"{what}; pass a list for paths")
    are_paths = not some or path is not None or any(isinstance(i, os.PathLike) for i in some)
    are_strings = isinstance(inputs, Sequence) and len(strings) == len(some)
    if are_paths or (are_strings and not any(map(_must_be_text, strings))):
        return itertools.chain(some, items)
    return [itertools.chain(some, items)]


def _must_be_text(text: str) -> bool:
    return "\n" in text or (" " in text and "/" not in text and not suffixes(text)[0][1:].isalnum())


def _names_a_file(text: str) -> bool:
    return text == "-" or is_address(text) or os.path.lexists(text)


def _is_table(data: Any) -> bool:
    """Return True for what gives Arrow tables: also `datasets.Dataset`, but not by a transform."""
    names = ("with_format", "iter", "__len__", "format")
    is_dataset = all(hasattr(data, name) for name in names) and data.format["type"] != "custom"
    return is_dataset or hasattr(data, "__arrow_c_stream__")


def _type(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")


def json_lines(data: Any, rules: ReadRules) -> Iterator[bytes]:
    """Yield the documents as JSON lines, many at a time."""
    first = 1
    start = b"{%s:" % orjson.dumps(rules.text_field)
    for rows in _batches(data, rules):
        try:
            if set(map(type, rows)) != {str} or rules.fields.is_template:
                raise TypeError
            yield start + (b"}\n" + start).join(map(orjson.dumps, rows)) + b"}\n"
        except TypeError:  # mappings; or a text with half of a surrogate pair
            yield b"".join(_line(row, rules, first + at) for at, row in enumerate(rows))
        first += len(rows)


def _line(row: Any, rules: ReadRules, number: int) -> bytes:
    """Return one row as a line: fields that are not asked for keep their names, for errors."""
    if isinstance(row, str | NoneType):
        row = {rules.text_field: row}
    if not isinstance(row, Mapping):
        what = f"item {number:,} of inputs or val_input is of the type {_type(row)}"
        raise BadInputError(what, hint='give strings, or mappings such as {"text": "..."}')
    fields = [*rules.fields.names]
    fields += list(rules.kept_fields.paths.values()) if rules.kept_fields else []
    names = {*fields, *(name.partition(".")[0] for name in fields)}
    kept = {str(name): value if name in names else None for name, value in row.items()}
    try:
        return orjson.dumps(kept, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError as error:
        if "surrogates" in str(error):  # the reader says where, or repairs it
            return json.dumps(kept).encode() + b"\n"
        raise BadInputError(f"item {number:,} of inputs: {error}") from None


def _batches(data: Any, rules: ReadRules) -> Iterator[Sequence[Any]]:
    if _is_table(data):
        for table in _tables(data, rules.text_field):
            yield from _rows_of(table, rules, _type(data))
        return
    rows = iter(data)
    while some := list(itertools.islice(rows, _ROWS)):
        yield some


def _tables(data: Any, text_field: str) -> Iterator[Any]:
    """Return tables, or record batches; a single column has the name that is asked for."""
    pyarrow = pyarrow_for(f"reading {_type(data)}")
    if not hasattr(data, "__arrow_c_stream__"):
        return iter(data.with_format("arrow").iter(_ROWS))
    try:
        return iter(pyarrow.RecordBatchReader.from_stream(data))
    except pyarrow.ArrowInvalid as error:
        if "non-struct" not in str(error):
            hint = 'pass the column of the text alone, such as data[["text"]]'
            raise BadInputError(f"the {_type(data)} cannot be read: {error}", hint=hint) from None
    return iter([pyarrow.table({text_field: pyarrow.chunked_array(data)})])


def _rows_of(table: Any, rules: ReadRules, kind: str) -> Iterator[Sequence[Any]]:
    """Yield the texts of a table, or mappings where several columns or structs are asked for."""
    try:
        paths = [find_column(table.schema, name) for name in rules.fields.names]
        kept = rules.kept_fields.paths.values() if rules.kept_fields else ()
        paths += [find_column(table.schema, name, is_text=False) for name in kept]
    except NotReadableError as bad:
        raise BadInputError(f"the {kind}: {bad.what}", hint=bad.hint) from None
    chosen = table.select(sorted({path[0] for path in paths}))
    is_one = len(paths) == 1 and len(paths[0]) == 1
    for start in range(0, chosen.num_rows, _ROWS):
        some = chosen.slice(start, _ROWS)
        if not is_one:
            yield some.to_pylist()
            continue
        texts = some.column(0).to_pylist()  # of bytes where it is binary, as Spark writes text
        yield [t.decode(errors="surrogateescape") if isinstance(t, bytes) else t for t in texts]
