"""JSON from strangers: no duplicate keys, no NaN, bounded depth, each field of the right type.

`parse_object` reads the bytes; `check_fields` compares the tree with its form. An error names the
field (`splits.train.shards[3].bytes`), what it holds and what it should hold.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import orjson

from tokenmill.errors import FormatError

MAX_DEPTH = 32
MAX_COUNT = 2**63 - 1
_HEX128 = re.compile(r"[0-9a-f]{32}")
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_UNUSUAL = re.compile(r"^\.|/\.|.{255}")  # names that need a closer look


@dataclass(frozen=True)
class Value:
    """A value that passes a test."""

    test: Callable[[Any], bool]
    expected: str


@dataclass(frozen=True)
class Maybe:
    """A field that may be missing."""

    form: "Form"


Form: TypeAlias = Value | Maybe | list[Any] | Mapping[str, Any]
"""What a value may be: one that passes a test, a list of values of one form, or an object with a
form for each of its fields."""


def is_plain_name(name: object) -> bool:
    """Return True if a file name is relative, plain and inside its folder."""
    return (
        isinstance(name, str)
        and _FILE_NAME.fullmatch(name) is not None
        and len(name) <= 1024
        and (_UNUSUAL.search(name) is None or _has_plain_parts(name))
    )


def _has_plain_parts(name: str) -> bool:
    return not any(part in (".", "..") or len(part) > 255 for part in name.split("/"))


def _is_shallow_object(tree: Any) -> bool:
    """Return True for an object of at most MAX_DEPTH levels."""
    level: list[Any] = [tree] if isinstance(tree, dict) else []
    for depth in range(MAX_DEPTH):
        if not level:
            return depth > 0
        children = [child for x in level for child in (x.values() if isinstance(x, dict) else x)]
        level = [child for child in children if isinstance(child, dict | list)]
    return not level


TEXT = Value(lambda value: isinstance(value, str) and bool(value), "a text")
HEX128 = Value(
    lambda value: isinstance(value, str) and _HEX128.fullmatch(value) is not None, "32 hex digits"
)
COUNT = Value(lambda value: type(value) is int and 0 <= value <= MAX_COUNT, "a whole number from 0")
COUNT_FROM_1 = Value(
    lambda value: type(value) is int and 1 <= value <= MAX_COUNT, "a whole number from 1"
)
FILE_NAME = Value(
    is_plain_name,
    "a plain name inside the dataset: letters, digits, '.', '_', '-' and '/', without '..'",
)
OBJECT = Value(_is_shallow_object, f"an object of at most {MAX_DEPTH} levels")


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Parse an object, or raise FormatError."""
    try:
        # Bytes as we write them, five times as fast. Written again they are the same, so no key
        # comes twice and nothing is lost.
        tree = orjson.loads(data)
        is_ours = data == orjson.dumps(tree, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except (ValueError, TypeError):  # TypeError: nested too deep for orjson to write
        is_ours = False
    try:
        if not is_ours:
            tree = json.loads(
                data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=no_constant
            )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not the JSON it should be: {error}") from None
    if not isinstance(tree, dict):
        raise FormatError(f"{where} holds a {type(tree).__name__}, not an object")
    return tree


def check_fields(
    value: Any, form: Form, where: str, field: str = "", *, others: bool = False
) -> None:
    """Refuse a value of another form; with `others`, fields that the form does not name may be."""
    if isinstance(form, Value):
        if not form.test(value):
            raise wrong(where, field, value, form.expected)
    elif isinstance(form, list):
        if not isinstance(value, list):
            raise wrong(where, field, value, "a list")
        for number, entry in enumerate(value):
            check_fields(entry, form[0], where, f"{field}[{number}]", others=others)
    elif isinstance(form, Maybe):
        check_fields(value, form.form, where, field, others=others)
    elif not isinstance(value, dict):
        raise wrong(where, field, value, "an object")
    else:
        before = f"{field}." if field else ""
        known = 0
        for key, inner in form.items():
            if key in value:
                check_fields(value[key], inner, where, before + key, others=others)
                known += 1
            elif not isinstance(inner, Maybe):
                raise FormatError(f"{where}: {before}{key} is missing")
        if known < len(value) and not others:
            extra = min(set(value) - set(form))
            raise FormatError(f"{where}: {before}{extra:.100} is not a known field")


def wrong(where: str, field: str, value: object, expected: str) -> FormatError:
    """Return the error for a field that holds something else than it should."""
    return FormatError(f"{where}: {field} is {value!r:.100}, not {expected}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {name!r:.100} comes twice")
    return fields


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON though Python reads them (`parse_constant`)."""
    raise ValueError(f"{name} is not a number of JSON")
