"""JSON from strangers: no duplicate keys, no NaN, bounded depth, each field of the right type.

A tree whose form is known is checked as a whole (`Fields`); a tree of which only some fields are
of interest is asked for them (`Reader`). An error names the field (`splits.train.shards[3].bytes`),
what it holds and what it should hold.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import orjson

from tokenmill.errors import FormatError

MAX_DEPTH = 32
MAX_COUNT = 2**63 - 1
_HEX128 = re.compile(r"[0-9a-f]{32}")
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_UNUSUAL = re.compile(r"^\.|/\.|.{255}")  # names that need a closer look


def check_name(name: object, where: str) -> str:
    """Return the name if it is relative, plain and inside its folder; else FormatError."""
    if (
        not isinstance(name, str)
        or _FILE_NAME.fullmatch(name) is None
        or len(name) > 1024
        or (_UNUSUAL.search(name) is not None and not _has_plain_parts(name))
    ):
        raise FormatError(
            f"{where} names the file {name!r:.200}, which is not a plain name inside the dataset",
            hint="names are made of letters, digits, '.', '_', '-' and '/', without '..'",
        )
    return name


def _has_plain_parts(name: str) -> bool:
    return not any(part in (".", "..") or len(part) > 255 for part in name.split("/"))


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """Parse an object, or raise FormatError."""
    if (tree := _parse_our_own(data)) is not None:
        return tree
    try:
        tree = json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=no_constant
        )
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{where} is not the JSON it should be: {error}") from None
    if not isinstance(tree, dict):
        raise FormatError(f"{where} holds a {type(tree).__name__}, not an object")
    return tree


def _parse_our_own(data: bytes) -> dict[str, Any] | None:
    """Parse bytes as we write them, five times as fast; return None for all others.

    Written again they are the same, so no key comes twice and nothing is lost.
    """
    try:
        tree = orjson.loads(data)
        same = orjson.dumps(tree, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE) == data
    except ValueError:
        return None
    return tree if same and isinstance(tree, dict) else None


def wrong(where: str, field: str, value: object, expected: str) -> FormatError:
    """Return the error for a field that holds something else than it should."""
    return FormatError(f"{where}: {field} is {value!r:.100}, not {expected}")


class Kind(Protocol):
    """What a field may hold."""

    def check(self, value: Any, where: str, field: str) -> None:
        """Refuse another value; `field` is its place in the tree."""


@dataclass(frozen=True)
class Value:
    """A value that passes a test."""

    test: Callable[[Any], bool]
    expected: str

    def check(self, value: Any, where: str, field: str) -> None:
        if not self.test(value):
            raise wrong(where, field, value, self.expected)


TEXT = Value(lambda value: isinstance(value, str) and bool(value), "a text")
HEX128 = Value(
    lambda value: isinstance(value, str) and _HEX128.fullmatch(value) is not None, "32 hex digits"
)
COUNT = Value(lambda value: type(value) is int and 0 <= value <= MAX_COUNT, "a whole number from 0")
COUNT_FROM_1 = Value(
    lambda value: type(value) is int and 1 <= value <= MAX_COUNT, "a whole number from 1"
)


class FileName:
    """The name of a file inside the dataset."""

    def check(self, value: Any, where: str, field: str) -> None:
        check_name(value, f"{where}: {field}")


class AnyObject:
    """An object whose fields are not known here; only its depth is bounded."""

    def check(self, value: Any, where: str, field: str) -> None:
        if not isinstance(value, dict):
            raise wrong(where, field, value, "an object")
        _check_depth(value, f"{where}: {field}")


@dataclass(frozen=True)
class Fields:
    """An object with these fields and no others, of which some may be missing."""

    kinds: Mapping[str, Kind]
    optional: Collection[str] = ()

    def check(self, value: Any, where: str, field: str = "") -> None:
        if not isinstance(value, dict):
            raise wrong(where, field, value, "an object")
        before = f"{field}." if field else ""
        missing = 0
        for key, kind in self.kinds.items():
            if key in value:
                kind.check(value[key], where, before + key)
            elif key in self.optional:
                missing += 1
            else:
                raise FormatError(f"{where}: {before}{key} is missing")
        if len(value) + missing > len(self.kinds):
            extra = min(set(value) - set(self.kinds))
            raise FormatError(f"{where}: {before}{extra:.100} is not a known field")


@dataclass(frozen=True)
class ListOf:
    """A list of values of one kind."""

    kind: Kind

    def check(self, value: Any, where: str, field: str) -> None:
        if not isinstance(value, list):
            raise wrong(where, field, value, "a list")
        for number, entry in enumerate(value):
            self.kind.check(entry, where, f"{field}[{number}]")


@dataclass(frozen=True)
class NamedValues:
    """An object whose keys are plain names without folders, with values of one kind."""

    kind: Kind

    def check(self, value: Any, where: str, field: str) -> None:
        if not isinstance(value, dict):
            raise wrong(where, field, value, "an object")
        for key, entry in value.items():
            check_name(key, f"{where}: {field}")
            if "/" in key:
                raise wrong(where, f"{field}.{key}", key, "a name without '/'")
            self.kind.check(entry, where, f"{field}.{key}")


class Reader:
    """One object of a JSON tree; every field is asked for by name and type."""

    def __init__(self, fields: dict[str, Any], where: str, path: str = "") -> None:
        self.fields = fields
        self._where = where
        self._path = path

    def _wrong(self, key: str, value: object, expected: str) -> FormatError:
        return wrong(self._where, self._path + key, value, expected)

    def text(self, key: str, among: Collection[str] | None = None) -> str:
        """Return a string that is not empty."""
        value = self._get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "a text")
        if among is not None and value not in among:
            raise self._wrong(key, value, f"one of {', '.join(among)}")
        return value

    def count(self, key: str, least: int = 0) -> int:
        """Return a whole number that fits into 63 bits."""
        value = self._get(key)
        if type(value) is not int or not least <= value <= MAX_COUNT:
            raise self._wrong(key, value, f"a whole number from {least}")
        return value

    def file(self, key: str) -> str:
        """Return a name inside the dataset."""
        return check_name(self._get(key), f"{self._where}: {self._path}{key}")

    def object(self, key: str) -> "Reader":
        return self._child(key, self._get(key))

    def objects(self, key: str) -> list["Reader"]:
        value = self._get(key)
        if not isinstance(value, list):
            raise self._wrong(key, value, "a list")
        return [self._child(f"{key}[{number}]", entry) for number, entry in enumerate(value)]

    def _child(self, key: str, value: Any) -> "Reader":
        if not isinstance(value, dict):
            raise self._wrong(key, value, "an object")
        return Reader(value, self._where, f"{self._path}{key}.")

    def names(self) -> list[str]:
        return list(self.fields)

    def _get(self, key: str) -> Any:
        if key not in self.fields:
            raise FormatError(f"{self._where}: {self._path}{key} is missing")
        return self.fields[key]


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the key {name!r:.100} comes twice")
    return fields


def no_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON though Python reads them (`parse_constant`)."""
    raise ValueError(f"{name} is not a number of JSON")


def _check_depth(tree: dict[str, Any], where: str) -> None:
    level: list[Any] = [tree]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise FormatError(f"{where} is nested deeper than {MAX_DEPTH} levels")
