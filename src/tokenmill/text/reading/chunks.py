"""What goes into reading and what comes out of it: `ReadRules` and `Chunk`."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Any

from tokenmill.base.suggest import one_of
from tokenmill.text.inputs.open_input import Source
from tokenmill.text.reading import bad_input
from tokenmill.text.reading.bad_input import BadInputPlace, NotReadableError
from tokenmill.text.reading.document_rules import ByParagraph, BySeparator, DocumentRule
from tokenmill.text.reading.text_fields import TextFields

if TYPE_CHECKING:
    from tokenmill.text.filters.rule import Removed
    from tokenmill.text.reading.kept_facts import KeptFacts, KeptFields

MAX_DOCUMENT_BYTES = 256 << 20
EXAMPLES = 3  # of lines that were changed or left out


@dataclass(frozen=True)
class ReadRules:
    """How documents are found in files, and what is done about bad ones."""

    document_is: str = "file"
    """What a document is in a text file: `file`, `line` or `paragraph`."""
    separator: str | None = None
    """Cut text files at this string instead."""
    text_field: str = "text"
    """Field or column of a row that holds the text; or several in a template, `{title}: {body}`."""
    on_bad_input: str = "error"
    """`error`, `skip` or `replace`."""
    long_line: int = 8 << 20
    """Bytes up to which lines and documents are never cut."""
    cuts: re.Pattern[bytes] | None = None
    """Where the tokenizer allows a document to be cut; None: nowhere."""
    chunk_bytes: int = 1 << 20
    """About how much text is read at a time."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES
    """The largest size of a document that must be held whole."""
    large_document_bytes: int = MAX_DOCUMENT_BYTES
    """Such a document with more bytes than this is announced by `on_large`."""
    on_large: Callable[[bool], None] = lambda is_large: None
    """Called with True before a large document is held; it is released with the next chunk."""
    spool_dir: str | None = None
    """Where compressed tables are unpacked to."""
    row_fields: tuple[str, ...] = ()
    """Fields of a row that `text_of_row` reads, the first of which must be there."""
    text_of_row: Callable[[dict[str, Any]], bytes] | None = None
    """Makes the text of a row of several values, such as a conversation; or NotReadableError."""
    keeps_facts: bool = False
    """Whether it is said where each document is."""
    keep: str | None = None
    """The fields of rows that are kept as facts."""

    def __post_init__(self) -> None:
        one_of("document_is", self.document_is, ("file", "line", "paragraph"))
        one_of("on_bad_input", self.on_bad_input, ("error", "skip", "replace"))
        if self.separator is not None and self.document_is != "file":
            raise ValueError(
                f"separator {self.separator!r} and document_is {self.document_is!r} both say where "
                "documents end; give one of them"
            )
        if self.separator == "":
            raise ValueError("separator is empty; leave it out to keep each file one document")
        if not self.text_field:
            raise ValueError("text_field is empty; name the field that holds the text")
        _ = self.fields, self.kept_fields
        if self.long_line < 1:
            raise ValueError(f"long_line is {self.long_line}; it must be at least 1")

    @cached_property
    def fields(self) -> TextFields:
        return TextFields(self.text_field)

    @cached_property
    def kept_fields(self) -> "KeptFields | None":
        if self.keep is None:
            return None
        from tokenmill.text.reading.kept_facts import KeptFields

        return KeptFields(self.keep)

    def document_rule(self) -> DocumentRule:
        """The rule for documents in text files."""
        if self.document_is == "paragraph":
            return ByParagraph()
        separator = "\n" if self.document_is == "line" else self.separator
        return BySeparator(separator.encode()) if separator else DocumentRule()


class Edge(Enum):
    """The kind of place where a document was cut between two chunks or two units."""

    NONE = "none"
    """No cut: the document ends (or begins) here."""
    LINE = "line"
    """Right after a newline."""
    INSIDE = "inside"
    """Inside a line of more than `long_line` bytes, at a place the tokenizer's `cuts` allow."""


@dataclass
class Chunk:
    """Some whole documents in order, or one piece of a long document; and facts about them."""

    texts: list[bytes]
    """UTF-8."""
    continues: Edge = Edge.NONE
    """How a piece continues the document that the chunk before left open."""
    open: Edge = Edge.NONE
    """How a piece is left open for the next chunk, which may be in the next unit."""
    dropped: dict[str, int] = field(default_factory=dict)
    """Documents that are not here, by reason."""
    replaced: int = 0
    """Pieces in which bytes that are not UTF-8 became U+FFFD."""
    bytes_in: int = 0
    """Bytes of the file that this chunk covers; over all chunks, the size of the file."""
    characters: int = 0
    """The same of a plain text, in characters, separators included; all of it must be UTF-8."""
    places: list[BadInputPlace] = field(default_factory=list)
    """The first ones that were dropped or replaced; lines are counted from 1 in the chunk."""
    lines: int = 0
    """Line ends that it covers, for JSON lines: so that lines can be counted over chunks."""
    by_source: dict[int, int] = field(default_factory=dict)
    """Documents that begin here by the file they are in, where a unit has several files."""
    dropped_lines: int = 0
    """Repeated lines that were taken out of the texts."""
    repeated: list[str] = field(default_factory=list)
    """The first of these lines, to be shown."""
    shortened: set[int] = field(default_factory=set)
    """Numbers of the texts that lost lines so."""
    kept: "KeptFacts | None" = None
    """Facts of each text, if they are kept."""
    texts_by_source: dict[int, int] = field(default_factory=dict)
    """Texts read so far of each of several files, those that rules dropped included."""
    numbers: Any = None
    """(texts,) uint32 where rules look at documents: the number of each in its unit, among all that
    were read."""
    removed: "Removed | None" = None
    """Documents that rules left out of this chunk."""
    changed: dict[str, int] = field(default_factory=dict)
    """What rules changed in the texts, counted."""
    left: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """Documents, and bytes of text, that were left after each rule; and the seconds it took."""

    @property
    def is_whole(self) -> bool:
        """True if all documents begin and end here."""
        return self.continues is Edge.NONE and self.open is Edge.NONE

    def add(self, other: "Chunk") -> None:
        """Take in the documents of another chunk; both are whole, and as they were read."""
        if other.kept is not None:
            self.kept = other.kept if self.kept is None else self.kept + other.kept
        self.texts += other.texts
        for reason, number in other.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + number
        self.replaced += other.replaced
        self.bytes_in += other.bytes_in
        self.characters += other.characters
        self.places += other.places[: bad_input.MOST_PLACES - len(self.places)]
        self.by_source.update(other.by_source)
        self.texts_by_source.update(other.texts_by_source)

    def leave_out(self, reason: str, kind: str, number: int) -> None:
        """Count a bad document, and keep its place if it is one of the first."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
        self._keep(BadInputPlace(kind, number, reason))

    def repaired(self, reason: str, kind: str, number: int) -> None:
        """Count a text with U+FFFD in it, and keep its place if it is one of the first."""
        self.replaced += 1
        self._keep(BadInputPlace(kind, number, f"{reason}, replaced"))

    def _keep(self, place: BadInputPlace) -> None:
        if len(self.places) < bad_input.MOST_PLACES:
            self.places.append(place)

    def drop_empty(self) -> None:
        """Leave out documents without a byte: they are not bad, and their places are not kept."""
        if b"" not in self.texts:
            return
        stays = [bool(text) or self.is_part(number) for number, text in enumerate(self.texts)]
        if empty := stays.count(False):
            self.dropped[bad_input.EMPTY] = self.dropped.get(bad_input.EMPTY, 0) + empty
        self.keep_only(stays)

    def keep_only(self, stays: list[bool]) -> None:
        """Leave out the texts for which `stays` is False, and their facts."""
        self.texts = list(compress(self.texts, stays))
        if self.kept is not None:
            self.kept = self.kept.chosen(stays)
        if self.numbers is not None:
            self.numbers = self.numbers[stays]

    def is_part(self, number: int) -> bool:
        """Return True if texts[number] is only a piece of its document."""
        return (number == 0 and self.continues is not Edge.NONE) or (
            number == len(self.texts) - 1 and self.open is not Edge.NONE
        )

    def apart(self) -> Iterator["Chunk"]:
        """Yield chunks of whole documents or of one piece; the facts go with the first."""
        texts = self.texts
        if self.is_whole or len(texts) == 1:
            yield self
            return
        first = texts[:1] if self.continues is not Edge.NONE else []
        last = texts[-1:] if self.open is not Edge.NONE else []
        whole = texts[len(first) : len(texts) - len(last)]
        sizes = (len(first), len(whole), len(last))
        parts = [
            [part == which for part in range(3) for _ in range(sizes[part])] for which in range(3)
        ]
        facts = [self.kept and self.kept.chosen(part) for part in parts]
        yield replace(self, texts=first or whole, open=Edge.NONE, kept=facts[0 if first else 1])
        if first and whole:
            yield Chunk(whole, kept=facts[1])
        if last:
            yield Chunk(last, open=self.open, kept=facts[2])


class RowReader:
    """Puts rows of CSV or of tables into `chunk`; bad ones are errors, or are counted in it."""

    def __init__(self, source: Source, rules: ReadRules) -> None:
        self.source = source
        self.rules = rules
        self.what = f"column {rules.text_field!r}"  # the text, to errors
        self.chunk = Chunk([])
        self._numbers: list[int] = []
        """The row of each text of the chunk."""

    def finish(self, values_of: Callable[[list[int]], Any] | None = None) -> Chunk:
        """Return the chunk, with its facts and without empty texts, and begin another.

        `values_of(rows)` gives the fields of these rows that are kept.
        """
        chunk = self.chunk
        if self.rules.keeps_facts:
            from tokenmill.text.reading.kept_facts import KeptFacts

            values = (values_of(self._numbers),) if self.rules.keep and values_of else ()
            chunk.kept = KeptFacts.at(self._numbers, values)
        chunk.drop_empty()
        self.chunk = Chunk([])
        self._numbers = []
        return chunk

    def add(self, row: int, text: bytes) -> None:
        if len(text) > self.rules.max_document_bytes:
            self.large_row(row, self.what, len(text))
        elif text.isascii() or (at := bad_input.find_not_utf8(text)) < 0:
            self._append(row, text)
        elif self.rules.on_bad_input == "replace":
            self._append(row, text.decode("utf-8", "replace").encode())
            self.chunk.repaired(bad_input.NOT_UTF8, "row", row)
        else:
            self.bad_row(row, bad_input.NOT_UTF8, f"not UTF-8 at byte {at:,} of {self.what}")

    def take(self, first_row: int, texts: list[bytes]) -> None:
        """Make good texts, of neighbouring rows, those of the chunk."""
        self.chunk.texts = texts
        self._numbers = list(range(first_row, first_row + len(texts)))

    def _append(self, row: int, text: bytes) -> None:
        self.chunk.texts.append(text)
        self._numbers.append(row)

    def bad_row(self, row: int, reason: str, what: str, hint: str | None = None) -> None:
        if self.rules.on_bad_input == "error":
            raise bad_input.bad_document(self.source, f", row {row:,}", what, hint)
        self.chunk.leave_out(reason, "row", row)

    def large_row(self, row: int, what: str, size: int) -> None:
        if self.rules.on_bad_input == "error":
            most = self.rules.max_document_bytes
            raise bad_input.TooLargeError(self.source, f", row {row:,}", what, most, size)
        self.chunk.leave_out(bad_input.TOO_LARGE, "row", row)

    def bad_file(self, bad: NotReadableError, bytes_in: int, *, first: bool = True) -> Chunk:
        """A chunk for one unit of a file of which nothing can be read; the `first` counts it."""
        if self.rules.on_bad_input == "error":
            raise bad_input.bad_document(self.source, "", bad.what, bad.hint) from None
        chunk = Chunk([], bytes_in=bytes_in)
        if first:
            chunk.leave_out(bad.reason, "file", 0)
        return chunk
