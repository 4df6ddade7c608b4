"""The lines of many texts at once: where they are, which can be duplicates, which to cut out.

A text of n newlines has n + 1 lines. The texts of a chunk are joined, with a newline after each, so
that the lines of all of them are found in one pass, and numbered through.
"""

import io
from dataclasses import dataclass
from itertools import compress

import numpy as np

from tokenmill import kernel
from tokenmill.text.cleaning.dedup import HASH, hash_all

_NEWLINE = ord("\n")
_INSIDE_CHARACTERS = bytes(range(0x80, 0xC0))  # all bytes of a character but its first


@dataclass(frozen=True)
class Lines:
    """Some texts in one buffer, with a newline after each, and where their lines end in it."""

    whole: bytes
    stops: np.ndarray
    first_of_text: np.ndarray
    """The number of the first line of each text; at the end, the number of all lines."""

    def __len__(self) -> int:
        return len(self.stops)

    @property
    def starts(self) -> np.ndarray:
        return _after(self.stops)

    @property
    def ends(self) -> np.ndarray:
        """Where each text ends."""
        ends: np.ndarray = self.stops[self.first_of_text[1:] - 1]
        return ends

    @property
    def texts(self) -> list[bytes]:
        return _slices(self.whole, _after(self.ends), self.ends)

    def texts_with(self, numbers: np.ndarray) -> np.ndarray:
        """Return for each of these lines the number of its text."""
        return self.first_of_text.searchsorted(numbers, side="right") - 1


def find_lines(texts: list[bytes]) -> Lines:
    """All lines of the texts."""
    whole = b"\n".join([*texts, b""])
    (stops,) = (np.frombuffer(whole, np.uint8) == _NEWLINE).nonzero()
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(sizes + 1) - 1
    return Lines(whole, stops, np.concatenate(([0], stops.searchsorted(ends) + 1)))


def _after(stops: np.ndarray) -> np.ndarray:
    """Where what ends there begins: after the newline before it."""
    starts = np.zeros_like(stops)
    np.add(stops[:-1], 1, out=starts[1:])
    return starts


def lines_that_count(lines: Lines, min_chars: int, max_bytes: int) -> np.ndarray:
    """Which lines can be duplicates at all: not blank, of `min_chars` characters or more.

    Lines of more than `max_bytes` never are: they may have been cut, and are not known whole.
    """
    if kernel.compiled is not None:
        found = kernel.compiled.lines_that_count(lines.whole, lines.stops, min_chars, max_bytes)
        return np.frombuffer(bytearray(found), np.bool_)  # a bytearray, so that it can be changed
    return np.array(
        [_counts(line, min_chars, max_bytes) for line in io.BytesIO(lines.whole)], np.bool_
    )


def _counts(line: bytes, min_chars: int, max_bytes: int) -> bool:
    """True if this line, which ends with its newline, can be a duplicate."""
    if not 0 < len(line) - 1 <= max_bytes or line.isspace():
        return False
    return len(line.translate(None, _INSIDE_CHARACTERS)) - 1 >= min_chars


def hash_selected(lines: Lines, which: np.ndarray) -> np.ndarray:
    """The hashes of the lines that a mask selects, each with its newline."""
    if kernel.compiled is not None:
        return np.frombuffer(kernel.compiled.hash_lines(lines.whole, lines.stops, which), HASH)
    return hash_all(compress(io.BytesIO(lines.whole), which.tolist()))


def without_lines(lines: Lines, dropped: np.ndarray) -> list[bytes]:
    """The texts without the lines of these numbers, each going with its own newline.

    The last line of a text has none, and the newline before it stays.
    """
    firsts = lines.first_of_text
    text_of = lines.texts_with(dropped)
    begin = lines.starts[dropped]
    end = lines.stops[dropped] + (dropped != firsts[text_of + 1] - 1)
    starts, stops = np.append(0, end), np.append(begin, len(lines.whole))
    filled = starts < stops  # not between neighbours that both go
    left = b"".join(_slices(lines.whole, starts[filled], stops[filled]))
    gone = np.bincount(text_of, end - begin, len(lines.ends)).astype(np.int64)
    ends = lines.ends - np.cumsum(gone)
    return _slices(left, _after(ends), ends)


def _slices(whole: bytes, starts: np.ndarray, stops: np.ndarray) -> list[bytes]:
    return list(map(whole.__getitem__, map(slice, starts.tolist(), stops.tolist())))


def with_surplus_empty_lines(lines: Lines, dropped: np.ndarray, *, continues: bool) -> np.ndarray:
    """These numbers, and those of empty lines that then follow another empty line.

    So at most one in a row is left where there was at most one before (rule 7 of cleaning).
    `continues`: the first text does, so what is before its first line is not known.
    """
    firsts = lines.first_of_text
    left = np.ones(len(lines), np.bool_)
    left[dropped] = False
    kept = np.flatnonzero(left)
    empty = lines.starts == lines.stops
    empty[firsts[1:] - 1] = False  # the last line of a text has no newline to give
    if continues and len(kept) and kept[0] < firsts[1]:
        empty[kept[0]] = False
    follows = empty[kept][:-1] & empty[kept][1:]
    follows &= np.diff(firsts.searchsorted(kept, side="right")) == 0  # in the same text
    left[kept[1:][follows]] = False
    return np.flatnonzero(~left)
