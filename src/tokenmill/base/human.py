"""Sizes, counts, rates, durations and text, written for reading.

Units are powers of ten, except for sizes of memory.
"""

import math
import re
from collections.abc import Iterable

_COUNT = re.compile(r"(-?\d[\d_,]*(?:\.\d+)?)\s*([kmbgt]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9, "t": 10**12}
# A query or a fragment may hold a signature (X-Amz-*, Policy, Key-Pair-Id): none is worth showing.
_ADDRESS = re.compile(
    r"([a-zA-Z][a-zA-Z0-9+.-]*://)(?:[^\s/@'\"<>]*@)?([^\s?#'\"<>]*)[?#]?[^\s'\"<>]*"
)
_SECRET = re.compile(r"\bhf_[A-Za-z0-9_]+|\b[Bb]earer\s+[^\s'\"]+|\bX-Amz-[A-Za-z-]+=[^\s&'\"]+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


def human_bytes(num_bytes: float) -> str:
    """Write a size.

    >>> [human_bytes(n) for n in (1, 12, 3_456, 200_001_024)]
    ['1 byte', '12 bytes', '3.5 kB', '200 MB']
    """
    if num_bytes < 1000:
        return plural(round(num_bytes), "byte")
    power = min(5, int(math.log10(num_bytes * 1.0005)) // 3)  # 999,950 is 1.0 MB, not 1000 kB
    size = num_bytes / 1000**power
    return f"{size:.{1 if size < 9.95 else 0}f} {'kMGTP'[power - 1]}B"


def human_rate(num_bytes: float, seconds: float) -> str:
    """Write a number of bytes per second.

    >>> human_rate(30e6, 2)
    '15 MB/s'
    """
    return f"{human_bytes(num_bytes / max(seconds, 1e-9))}/s"


def human_count(count: float) -> str:
    """Write a number of things, in three digits.

    >>> [human_count(n) for n in (950, 64_000, 1_540_000, 3e9)]
    ['950', '64k', '1.54M', '3B']
    """
    for size, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.3g}"


def parse_count(text: str) -> int:
    """Read a whole number: the inverse of `human_count`.

    >>> [parse_count(text) for text in ("950", "64k", "1.5M", "3B", "10_000", "1,000,000")]
    [950, 64000, 1500000, 3000000000, 10000, 1000000]
    """
    if match := _COUNT.fullmatch(text.strip()):
        whole, _, part = re.sub("[_,]", "", match[1]).partition(".")
        count, rest = divmod(int(whole + part) * _UNITS[match[2].lower()], int(10 ** len(part)))
    if match is None or rest:
        raise ValueError(f"{text!r} is not a whole number; write it like 5000, 64k or 10M")
    return count


def parse_bytes(size: int | str) -> int:
    """Read `512M`, `16GB`, `1.5g` or a number of bytes; units are powers of 1024, as for memory.

    >>> parse_bytes("1.5k"), parse_bytes("2GiB"), parse_bytes(7)
    (1536, 2147483648, 7)
    """
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size.strip())
    if match is None:
        raise ValueError(f"{size!r} is not a size; write it like 512M or 16G")
    return int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))


def human_duration(seconds: float) -> str:
    """Write hours, minutes and seconds.

    >>> human_duration(3725), human_duration(75), human_duration(4)
    ('1:02:05', '1:15', '0:04')
    """
    whole = int(max(0, round(seconds)))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def plural(count: int, noun: str) -> str:
    """Write a number with its noun.

    >>> plural(1, "file"), plural(1200, "file")
    ('1 file', '1,200 files')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def visible(text: str | bytes) -> str:
    r"""Make text printable: other characters, and bytes that are not UTF-8, as \xNN or \uNNNN.

    >>> print(visible(b"a\x1b[31m\xe2\x82 b"))
    a\x1b[31m\xe2\x82 b
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else _written_out(c) for c in text)


def one_line(text: str | bytes) -> str:
    """Make text printable, and put it on one line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def redact(text: str) -> str:
    """Cut access tokens, user names in addresses and query strings out of a text.

    >>> redact("GET https://ann:pw@cdn.example/x.bin?X-Amz-Signature=ab12 with hf_AbCdEf123")
    'GET https://cdn.example/x.bin with ***'
    """
    return _SECRET.sub("***", _ADDRESS.sub(r"\1\2", text))


def _written_out(c: str) -> str:
    # A byte that is not UTF-8, as surrogateescape keeps it, is written as a byte.
    return f"\\x{ord(c) - 0xDC00:02x}" if "\udc80" <= c <= "\udcff" else ascii(c)[1:-1]


def neighbour_runs(numbers: Iterable[int]) -> list[list[int]]:
    """Group rising numbers into runs of neighbours; return the first and last of each.

    >>> neighbour_runs([0, 3, 4, 5, 9])
    [[0, 0], [3, 5], [9, 9]]
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs
