"""Inputs in a bucket: an object, everything below a prefix, or a glob; rules as in `sources.py`."""

import glob
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tokenmill.errors import PrepareError
from tokenmill.storage import check_address
from tokenmill.text.inputs import open_input
from tokenmill.text.inputs.file_kind import KIND_OF_SUFFIX, detect_kind, suffixes

REQUESTS_AT_ONCE = 16

_TOKEN = re.compile(r"(\*\*/)|(\*\*)|(\*)|(\?)|\[(!?)([^\]]+)\]|(.)", re.DOTALL)


def expand(text: str, passed_over: list[str]) -> list[str]:
    """Addresses of the objects that one input stands for."""
    from tokenmill.storage import objects

    address = check_address(text)
    if glob.has_magic(address):
        folder = re.split(r"[*?\[]", address)[0].rpartition("/")[0]
        matches = glob_pattern(address)
        paths = [path for path in objects.list_below(folder) if matches.fullmatch(path)]
    elif not text.endswith("/") and objects.find(address) is not None:
        return [address]
    else:
        below = objects.list_below(address)
        paths = [path for path in below if _is_taken(path.removeprefix(address))]
        passed_over += sorted(set(below) - set(paths), key=os.fsencode)
    if not paths:
        raise PrepareError(
            f"nothing that can be read is at {open_input.printable(text)}",
            hint="give an object, a prefix that holds .txt, .jsonl, .csv or .parquet, or a glob",
            source=open_input.printable(text),
        )
    return paths


def look_at(paths: list[str]) -> Iterator[tuple[str, open_input.FileStat, tuple[str, str | None]]]:
    """Size, stamp and kind of each object, many at a time: each costs three round trips."""
    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as pool:
        yield from pool.map(_look_at, paths)


def _look_at(path: str) -> tuple[str, open_input.FileStat, tuple[str, str | None]]:
    about = open_input.stat(path)
    return path, about, detect_kind(path, about.size)


def _is_taken(relative: str) -> bool:
    hidden = any(part.startswith(".") for part in relative.split("/"))
    return not hidden and suffixes(relative)[0] in KIND_OF_SUFFIX


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """A glob as for files: `*` and `?` stay inside a folder, `**/` goes through any number."""
    parts = []
    for deep, anything, star, one, negated, some, plain in _TOKEN.findall(pattern):
        if deep:
            parts.append("(?:[^/]+/)*")
        elif anything:
            parts.append(".*")
        elif star:
            parts.append("[^/]*")
        elif one:
            parts.append("[^/]")
        elif some:
            parts.append(f"[{'^' if negated else ''}{some.translate(_IN_SET)}]")
        else:
            parts.append(re.escape(plain))
    return re.compile("".join(parts), re.DOTALL)


_IN_SET = str.maketrans({"\\": r"\\", "[": r"\[", "^": r"\^"})
