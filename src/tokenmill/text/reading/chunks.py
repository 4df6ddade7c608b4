"""What goes into reading and what comes out of it: `ReadRules` and `Chunk`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tokenmill.errors import BadInputError
from tokenmill.text.inputs.sources import Source
from tokenmill.text.reading.document_rules import (
    ByFile,
    ByLine,
    ByParagraph,
    BySeparator,
    Documents,
)
from tokenmill.text.reading.edges import Edge

MAX_DOCUMENT_BYTES = 256 << 20
MOST_PLACES = 20  # of bad input that are told; all of it is counted


def _nobody_minds(is_large: bool) -> None:
    """The usual `on_large`."""


@dataclass(frozen=True)
class ReadRules:
    """How documents are found in files, and what is done about bad ones."""

    documents: str = "file"
    """What a document is in a text file: `file`, `line` or `paragraph`."""
    separator: str | None = None
    """Cut text files at this string instead."""
    text_field: str = "text"
    """The field of JSON lines, or the column of CSV and parquet, that holds the text."""
    on_bad_input: str = "error"
    """`error`, `skip` or `replace`."""
    long_line: int = 8 << 20
    """Bytes up to which lines and documents are never cut."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """Bytes up to which a document that must be held whole may go."""
    large_document_bytes: int = MAX_DOCUMENT_BYTES
    """Bytes beyond which such a document is announced by `on_large`."""
    on_large: Callable[[bool], None] = _nobody_minds
    """Called with True before a large document is held, with False when it is done with."""

    spool_dir: str | None = None
    """Where compressed parquet is unpacked to."""

    def __post_init__(self) -> None:
        if self.documents not in ("file", "line", "paragraph"):
            raise ValueError(f"documents is {self.documents!r}; known are: file, line, paragraph")
        if self.on_bad_input not in ("error", "skip", "replace"):
            raise ValueError(
                f"on_bad_input is {self.on_bad_input!r}; known are: error, skip, replace"
            )
        if self.separator is not None and self.documents != "file":
            raise ValueError(
                f"separator {self.separator!r} and documents {self.documents!r} both say where "
                "documents end; give one of them"
            )
        if self.separator == "":
            raise ValueError("separator is empty; leave it out to keep each file one document")
        if not self.text_field:
            raise ValueError("text_field is empty; name the field that holds the text")
        if self.long_line < 1 or self.max_document_bytes < 1:
            raise ValueError(
                f"long_line ({self.long_line}) and max_document_bytes "
                f"({self.max_document_bytes}) must be at least 1"
            )

    def document_rule(self) -> Documents:
        """The rule for documents in text files."""
        if self.separator is not None:
            return BySeparator(self.separator.encode())
        rules: dict[str, Documents] = {
            "file": ByFile(),
            "line": ByLine(),
            "paragraph": ByParagraph(),
        }
        return rules[self.documents]


class Place(NamedTuple):
    """Where bad input was met that was dropped or mended, and what it was."""

    kind: str
    """`line`, `byte` or `row`, or `file` for all of it."""
    number: int
    reason: str


@dataclass
class Chunk:
    """Some documents of a source, in order, the first and the last perhaps in part."""

    texts: list[bytes]
    """UTF-8; the pieces of documents in order."""
    continues: Edge = Edge.NONE
    """How texts[0] goes on with the document that the chunk before left open."""
    open: Edge = Edge.NONE
    """How texts[-1] is left open for the next chunk, which may be in the next unit."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Documents that are not here, by reason."""
    replaced: int = 0
    """Pieces in which bytes that are not UTF-8 became U+FFFD."""
    bytes_in: int = 0
    """Bytes of the file that this chunk covers; over all chunks, the size of the file."""
    offset: int = 0
    """Where it starts: a byte of the (decompressed) text, or a row for CSV and parquet."""
    places: list[Place] = field(default_factory=list)
    """The first bad ones of those dropped or replaced; lines are counted from 1 in the chunk."""
    lines: int = 0
    """Line ends that it covers, for JSON lines: so that lines can be counted through."""

    def leave_out(self, reason: str, kind: str, number: int) -> None:
        """Count a bad document, and keep its place if it is one of the first."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self._keep(Place(kind, number, reason))

    def mended(self, reason: str, kind: str, number: int) -> None:
        """Count a text with U+FFFD in it, and keep its place if it is one of the first."""
        self.replaced += 1
        self._keep(Place(kind, number, f"{reason}, replaced"))

    def _keep(self, place: Place) -> None:
        if len(self.places) < MOST_PLACES:
            self.places.append(place)


def bad_input(source: Source, where: str, what: str, hint: str | None = None) -> BadInputError:
    """The error for one bad document: `where` is ":17" for a line, or " at byte 512"."""
    return BadInputError(
        f"{source.name}{where}: {what}",
        hint=hint or "mend it, or pass --on_bad_input skip (or replace) to go on without it",
        source=source.name,
    )


class TooLargeError(BadInputError):
    """A document that must be held whole, and has more than `max_document_bytes`."""

    def __init__(self, source: Source, where: str, what: str, size: int) -> None:
        super().__init__(
            f"{source.name}{where}: {what}",
            hint="allow larger documents, or cut the file into documents another way",
            source=source.name,
        )
        self.size = size
        """Of the document, or 0 where it is not known."""
