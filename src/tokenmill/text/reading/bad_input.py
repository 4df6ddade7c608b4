"""Bad input: why a document is left out, where it was, and the errors that say so.

Also the check for UTF-8. It is made in blocks that stay in the processor's cache: ASCII passes at
the speed of memory, other text at about 1 GB/s, and no copy of the whole is made.
"""

from dataclasses import dataclass

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.open_input import Source

# All reasons for which a document may be dropped, as they are in the manifest of a dataset.
EMPTY = "empty"
EMPTY_FILE = "empty file"
TOO_LARGE = "too large"
UNREADABLE = "unreadable"
DUPLICATE = "duplicate"
ONLY_REPEATED_LINES = "only repeated lines"
HELD_OUT = "held out for validation"
IN_TRAIN = "in train already"
NOT_UTF8 = "not UTF-8"
NOT_JSON = "not JSON"
NOT_CSV = "not CSV"
REST_NOT_CSV = "not CSV, with the rest of the file"
REST_TOO_LARGE = "too large, with the rest of the file"
NO_FIELD = "missing field"
NO_STRING = "field is not a string"
NO_COLUMN = "missing column"

MOST_PLACES = 20  # places of bad input that are reported; all of them are counted
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class BadInputPlace:
    """Where bad input was met that was dropped or repaired, and what it was."""

    kind: str
    """`line`, `byte` or `row`, or `file` for all of it."""
    number: int
    reason: str
    source: int = 0
    """Which of the files of the unit."""


def bad_document(source: Source, where: str, what: str, hint: str | None = None) -> BadInputError:
    """The error for one bad document: `where` is ":17" for a line, or " at byte 512"."""
    return BadInputError(
        f"{source.name}{where}: {what}",
        hint=hint
        or 'repair it, or continue without it: pass on_bad_input="skip" or on_bad_input="replace"',
        source=source.name,
    )


class TooLargeError(BadInputError):
    """A document that must be held whole, and has more than `most` bytes."""

    def __init__(self, source: Source, where: str, what: str, most: int, size: int) -> None:
        super().__init__(
            f"{source.name}{where}: {what} has more than {most:,} bytes",
            hint="allow larger documents, or cut the file into documents another way",
            source=source.name,
        )
        self.size = size
        """Of the document, or 0 where it is not known."""


class NotReadableError(Exception):
    """A line, or a whole file of columns, that has no text; an error or a count for the user."""

    def __init__(self, reason: str, what: str, hint: str | None = None) -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.hint = hint


def no_column(name: str, what: str) -> NotReadableError:
    """The error for a file of columns whose column of text is missing or holds no text."""
    hint = "name the column that holds the text with text_field="
    return NotReadableError(NO_COLUMN, f"column {name!r}: {what}", hint)


def short_list(names: list[str]) -> str:
    """The first names of fields or columns, each short and printable."""
    return ", ".join(ascii(name)[1:-1][:40] for name in names[:8])


def find_not_utf8(text: bytes) -> int:
    """The offset of the first byte that is not UTF-8, or -1."""
    return scan_utf8(text, len(text))[1]


def scan_utf8(text: bytes, size: int) -> tuple[int, int]:
    """The characters in the first `size` bytes, and the offset of one that is not UTF-8, or -1."""
    if text.isascii():
        return size, -1
    start = num_characters = 0
    while start < size:
        end = min(start + _BLOCK_BYTES, size)
        # Not inside a character: step back over at most three continuation bytes.
        for _ in range(3):
            if end < size and text[end] & 0xC0 == 0x80:
                end -= 1
        try:
            num_characters += len(text[start:end].decode())
        except UnicodeDecodeError as error:
            return num_characters, start + error.start
        start = end
    return num_characters, -1
