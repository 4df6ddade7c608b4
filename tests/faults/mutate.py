"""Ways to damage a file: bits, cuts, numbers at their limits, and values of JSON."""

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = [0, 1, 2, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**64 - 1]
VALUES: list[Any] = [
    *NUMBERS, -1, -(2**63), 2**200, 0.5, -0.0, 1e308, None, True, False, "", "x", "../x", "/etc",
    "\x00", "\x1b[31m", "\ud800", "<script>", "a" * 5000, [], {}, [[]], [None], {"a": {}},
]  # fmt: skip


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Other bytes, made from these by up to three changes."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if data[:1] in b"{[" and chance.random() < 0.5:
            data = _change_json(data, chance)
        else:
            data = chance.choice(CHANGES)(data, chance)
    return data


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return b"\x00"
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _remove(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    return data[:start] + data[start + chance.choice((1, 2, 4, 8, 100, 1000)) :]


def _repeat(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    part = data[start : start + chance.choice((1, 2, 8, 100))]
    return data[:start] + part * chance.choice((1, 2, 50)) + data[start:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice((1, 2, 4, 8, 64))) + data[at:]


def _set_number(data: bytes, chance: random.Random) -> bytes:
    """A field of 1 to 8 bytes at its limits; often among the first, where headers are."""
    width = chance.choice((1, 2, 4, 8))
    number = chance.choice(NUMBERS) % 2 ** (8 * width)
    most = max(0, min(len(data), chance.choice((16, 64, 1100, len(data)))) - width)
    at = chance.randrange(most + 1)
    order = chance.choice(("little", "little", "big"))
    return data[:at] + number.to_bytes(width, order) + data[at + width :]


def _set_digits(data: bytes, chance: random.Random) -> bytes:
    """A decimal number of a text."""
    found = list(re.finditer(rb"\d+", data[:100_000]))
    if not found:
        return _flip(data, chance)
    place = chance.choice(found)
    number = str(chance.choice([*NUMBERS, -1, 10**30])).encode()
    return data[: place.start()] + number + data[place.end() :]


def _fill(data: bytes, chance: random.Random) -> bytes:
    """What a machine that lost its power leaves: the size is right, the bytes are zeros."""
    start = chance.randrange(len(data) + 1)
    stop = min(len(data), start + chance.choice((8, 512, 1 << 20)))
    return data[:start] + bytes(stop - start) + data[stop:]


def _swap(data: bytes, chance: random.Random) -> bytes:
    a, b = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
    return data[b:] + data[a:b] + data[:a]


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    *(_flip, _flip, _cut, _remove, _repeat, _insert, _set_number, _set_number),
    *(_set_digits, _fill, _swap),
]


def _change_json(data: bytes, chance: random.Random) -> bytes:
    """Another value somewhere in the tree, a key fewer or more, or a key twice."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, chance)
    places = places_of(tree)
    if not places:
        return _flip(data, chance)
    parent, key = chance.choice(places)
    kind = chance.random()
    if kind < 0.15 and isinstance(parent, dict):
        del parent[key]
    elif kind < 0.25 and isinstance(parent, dict):
        parent[f"{key}{chance.choice(('', '2', chr(0), '/..'))}"] = chance.choice(VALUES)
    elif kind < 0.3:
        return (
            json.dumps(tree)
            .replace(json.dumps(key), f"{json.dumps(key)}:1,{json.dumps(key)}", 1)
            .encode()
        )
    elif kind < 0.35:
        parent[key] = "nested"
        return json.dumps(tree).replace('"nested"', "[" * 3000 + "]" * 3000).encode()
    elif kind < 0.4:
        parent[key] = "bare"
        return (
            json.dumps(tree)
            .replace('"bare"', chance.choice(("NaN", "1e999", "-Infinity")))
            .encode()
        )
    else:
        parent[key] = chance.choice(VALUES)
    return json.dumps(tree).encode()


def places_of(tree: Any) -> list[tuple[Any, Any]]:
    """All (container, key) of a tree, up to a thousand."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting and len(found) < 1000:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))[:50]
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], dict | list):
                waiting.append(node[key])
    return found
