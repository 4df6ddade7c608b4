"""Where documents begin and end inside a text: four rules (inputs.md) with one interface.

All questions are put to a window of bytes and are answered from at most `bytes_before` bytes before
and `bytes_after` bytes after a place, so that two readers who see different windows agree.
"""

import re

BLANK_LIMIT = 1000
_BLANK = rb"[ \t\r]{0,%d}" % BLANK_LIMIT
_BLANK_LINES = re.compile(rb"\n(?:" + _BLANK + rb"\n)+")
_LEADING_BLANK_LINES = re.compile(rb"(?:" + _BLANK + rb"\n)+")
_BLANK_END = re.compile(rb"\n(?=(" + _BLANK + rb"\n))")
_BLANK_LAST_LINE = re.compile(rb"(?:\A|\n)" + _BLANK + rb"\Z")
_NO_BLANK = re.compile(_BLANK + rb"[^ \t\r\n]|[ \t\r]{%d}" % (BLANK_LIMIT + 1))
SAMPLE_BYTES = 4096
RARE_BYTES = 1024  # a byte is rare that is there once in so many

CUT_TEXT_FILES = 'details=Details(document_is="line") or Details(document_is="paragraph")'
"""What errors and notes advise, where a text file is to be more than one document."""


class DocumentRule:
    """The rule `file`: only the end of the file ends a document. The others derive from it."""

    bytes_before = 1
    bytes_after = 1
    end_bytes = 1
    """At most so many bytes are between a document and the place where it has ended."""
    fixed_bytes = 0
    """Exactly so many bytes are between two documents; 0: it differs."""

    def first_end(self, window: bytes, low: int, high: int) -> int:
        """The first document end in low..high that can be seen from its surroundings, or -1."""
        return -1

    def settled(self, window: bytes, low: int, high: int) -> int:
        """The first place in low..high that is not inside a separator, or -1."""
        return low

    def clear(self, window: bytes, at: int) -> bool:
        """Return True if a document may be left open here: not inside or before what ends one."""
        return True

    def split(self, text: bytes, *, fresh: bool) -> tuple[list[bytes], bytes]:
        """The documents that end in the text, and the rest; `fresh`: none is open before it."""
        return [], text

    def last(self, rest: bytes, *, fresh: bool) -> bytes | None:
        """What the rest is when the file ends after it: the last document's end, or None."""
        return rest if rest or not fresh else None


class BySeparator(DocumentRule):
    """Text between separators; with a newline as separator, every line is a document.

    A separator like "\\n\\n" can overlap itself, and which of the overlapping ones count depends
    on where the run of them begins. Only the first of such a run can be found locally, so units
    are cut there and nowhere else in it; inside a unit the order of reading settles it.
    """

    def __init__(self, separator: bytes) -> None:
        self._separator = separator
        self._size = size = len(separator)
        self._overlaps = any(separator[:n] == separator[-n:] for n in range(1, size))
        self.bytes_before = 2 * size
        self.bytes_after = self.end_bytes = self.fixed_bytes = size

    def first_end(self, window: bytes, low: int, high: int) -> int:
        """After the first separator that no earlier one overlaps."""
        at = window.find(self._separator, max(0, low - self._size), high)
        while at >= 0:
            if not self._overlaps or self._around(window, at) < 0:
                return at + self._size
            at = window.find(self._separator, at + 1, high)
        return -1

    def settled(self, window: bytes, low: int, high: int) -> int:
        """After the run of overlapping separators that `low` is in."""
        at = low
        while at <= high:
            around = self._around(window, at)
            if around < 0:
                return at
            at = around + self._size
        return -1

    def _around(self, window: bytes, at: int) -> int:
        """Where the last separator begins that this place is inside of, or -1."""
        start = max(0, at - self._size + 1)
        return window.rfind(self._separator, start, at + self._size - 1)

    def clear(self, window: bytes, at: int) -> bool:
        """Not inside a separator, and not before one: there the document ends."""
        return self._around(window, at) < 0 and not window.startswith(self._separator, at)

    def split(self, text: bytes, *, fresh: bool) -> tuple[list[bytes], bytes]:
        parts = split_at(self._separator, text)
        return parts, parts.pop()


def split_at(separator: bytes, text: bytes) -> list[bytes]:
    """Return text.split(separator), in half the time where a byte of the separator is rare.

    Python looks for a single byte many at a time; each that is found takes some Python.
    """
    sample = text[:SAMPLE_BYTES]
    rare = min(set(separator), key=sample.count)
    num_tries = len(text) // RARE_BYTES if sample.count(rare) * RARE_BYTES <= len(sample) else 0
    before = separator.index(rare)
    parts = list[bytes]()
    done = 0
    at = before
    for _ in range(num_tries):
        at = text.find(rare, at)
        if at < 0:
            return [*parts, text[done:]]
        if text.startswith(separator, at - before):
            parts.append(text[done : at - before])
            done = at - before + len(separator)
            at = done + before
        else:
            at += 1
    return parts + text[done:].split(separator)


class ByParagraph(DocumentRule):
    """Text between blank lines."""

    bytes_before = bytes_after = end_bytes = BLANK_LIMIT + 2

    def first_end(self, window: bytes, low: int, high: int) -> int:
        """Right after the first blank line that follows another line."""
        for match in _BLANK_END.finditer(window, max(0, low - self.bytes_before)):
            end = match.end(1)
            if end > high:
                return -1
            if end >= low:
                return end
        return -1

    def clear(self, window: bytes, at: int) -> bool:
        """Not before a blank line, where the document ends."""
        return window[at - 1] != 10 or _NO_BLANK.match(window, at) is not None

    def split(self, text: bytes, *, fresh: bool) -> tuple[list[bytes], bytes]:
        """The paragraphs without their last newlines."""
        if fresh and (blank := _LEADING_BLANK_LINES.match(text)):
            text = text[blank.end() :]
        parts = _BLANK_LINES.split(text)
        return parts, parts.pop()

    def last(self, rest: bytes, *, fresh: bool) -> bytes | None:
        """Without its last newline; a blank rest is no document."""
        blank = _BLANK_LAST_LINE.search(rest, max(0, len(rest) - self.bytes_before))
        if blank and (fresh or blank.start() or rest[:1] == b"\n"):
            rest = rest[: blank.start()]
        return super().last(rest, fresh=fresh)
