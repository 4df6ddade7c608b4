"""JSON from strangers: no duplicate keys, no NaN, bounded depth, each field of the right type.

A reader knows its place in the tree, so an error names the field (`splits.train.shards[3].bytes`),
what it holds and what it should hold.
"""

import json
import re
from collections import Counter
from collections.abc import Collection
from typing import Any, NoReturn

import orjson

from tokenmill.errors import FormatError

MAX_DEPTH = 32
MAX_COUNT = 2**63 - 1
_HEX128 = re.compile(r"[0-9a-f]{32}")
_FILE_NAME = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")


def check_name(name: object, where: str) -> str:
    """Return the name if it is relative, plain and inside its folder; else FormatError."""
    if (
        not isinstance(name, str)
        or _FILE_NAME.fullmatch(name) is None
        or any(part in (".", "..") or len(part) > 255 for part in name.split("/"))
        or len(name) > 1024
    ):
        raise FormatError(
            f"{where} names the file {name!r:.200}, which is not a plain name inside the dataset",
            hint="names are made of letters, digits, '.', '_', '-' and '/', without '..'",
        )
    return name


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


class Reader:
    """One object of a JSON tree; every field is asked for by name and type."""

    def __init__(self, fields: dict[str, Any], where: str, path: str = "") -> None:
        self.fields = fields
        self._where = where
        self._path = path
        self._asked: set[str] = set()

    def wrong(self, key: str, found: object, expected: str) -> FormatError:
        return FormatError(f"{self._where}: {self._path}{key} is {found!r:.100}, not {expected}")

    def text(self, key: str, among: Collection[str] | None = None) -> str:
        """Return a string that is not empty."""
        value = self._get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, value, "a text")
        if among is not None and value not in among:
            raise self.wrong(key, value, f"one of {', '.join(among)}")
        return value

    def count(self, key: str, least: int = 0) -> int:
        """Return a whole number that fits into 63 bits."""
        value = self._get(key)
        if type(value) is not int or not least <= value <= MAX_COUNT:
            raise self.wrong(key, value, f"a whole number from {least}")
        return value

    def hex128(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str) or _HEX128.fullmatch(value) is None:
            raise self.wrong(key, value, "32 hex digits")
        return value

    def file(self, key: str) -> str:
        """Return a name inside the dataset."""
        return check_name(self._get(key), f"{self._where}: {self._path}{key}")

    def checked_name(self, key: str) -> str:
        """Return a key that is itself a plain name, without folders."""
        check_name(key, f"{self._where}: {self._path.rstrip('.')}")
        if "/" in key:
            raise self.wrong(key, key, "a name without '/'")
        return key

    def object(self, key: str) -> "Reader":
        return self._child(key, self._get(key))

    def free_object(self, key: str) -> dict[str, Any]:
        """Return an object whose fields are not known here; only its depth is bounded."""
        value = self.object(key).fields
        _check_depth(value, f"{self._where}: {self._path}{key}")
        return value

    def objects(self, key: str) -> list["Reader"]:
        value = self._get(key)
        if not isinstance(value, list):
            raise self.wrong(key, value, "a list")
        return [self._child(f"{key}[{number}]", entry) for number, entry in enumerate(value)]

    def _child(self, key: str, value: Any) -> "Reader":
        if not isinstance(value, dict):
            raise self.wrong(key, value, "an object")
        return Reader(value, self._where, f"{self._path}{key}.")

    def names(self) -> list[str]:
        return list(self.fields)

    def no_more(self) -> None:
        """Refuse fields that nobody asked for: they would be lost or misread."""
        extra = sorted(set(self.fields) - self._asked)
        if extra:
            raise FormatError(f"{self._where}: {self._path}{extra[0]:.100} is not a known field")

    def _get(self, key: str) -> Any:
        self._asked.add(key)
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
