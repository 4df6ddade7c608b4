"""encode: read, clean, drop lines, encode, write, a unit at a time.

Documents are encoded whole. The few that are read in pieces are the business of
`long_documents.py`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.parts import FOLDER, TOKENS_PER_FILE, Part, PartWriter
from tokenmill.preparation.stages.text_encoder import TextEncoder
from tokenmill.preparation.stages.unit_text import naming_source, text_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.text.inputs.open_input import TOKENS
from tokenmill.text.reading.bad_input import MOST_PLACES, BadInputPlace
from tokenmill.text.reading.chunks import Chunk, Edge

if TYPE_CHECKING:
    from tokenmill.preparation.stages.duplicates import Search
    from tokenmill.preparation.stages.long_documents import LongDocuments

SEAM_BYTES = 64 << 10  # of the next unit that are read at a time, in search of a cut


@dataclass(frozen=True)
class EncodedUnit:
    """What encoding one unit came to."""

    parts: tuple[Part, ...]
    """In order. One without a document is a stretch of a document that ends in a later unit."""
    counts: dict[str, int]
    dropped: dict[str, int]
    """Documents that are not there, by reason."""
    dropped_lines: int
    documents_by_source: list[int]
    bad_input: list[BadInputPlace]
    """The first bad inputs that were dropped or repaired."""
    changed_lines: list[str]
    """The first lines that cleaning changed, before and after; of the first unit alone."""

    @classmethod
    def from_receipt(cls, receipt: Receipt) -> "EncodedUnit":
        facts = {name: value for name, value in receipt.items() if name != "files"}
        facts["parts"] = tuple(Part.from_json(part) for part in receipt["parts"])
        facts["bad_input"] = [BadInputPlace(**place) for place in receipt["bad_input"]]
        return cls(**facts)

    @property
    def files(self) -> list[str]:
        """The names of the files that hold its parts."""
        tables = [f"{part.name}.rows" for part in self.parts if part.num_documents]
        return [f"{file.name}.tokens" for part in self.parts for file in part.files] + tables


def encoded_units(plan: Plan) -> Iterator[EncodedUnit]:
    """The outcome of every unit, in order."""
    receipts = plan.workspace.receipts(FOLDER, map(str, range(len(plan.units))))
    return map(EncodedUnit.from_receipt, receipts)


def encode_unit(out_dir: str, unit: int, lines: "Search | None" = None, first: int = 0) -> Receipt:
    """Task: leave the encoded documents of one unit, in one part or several.

    `lines` knows the repeated lines; there unit 0 is unit `first`.
    """
    plan = load_plan(out_dir)
    with naming_source(plan, unit), UnitEncoder(plan, unit, lines, first) as encoder:
        for chunk in plan.workspace.noting(unit, text_of(plan, unit, lines, first)):
            encoder.add(chunk)
        encoded = encoder.finish()
    receipt = plan.workspace.leave_receipt(FOLDER, str(unit), encoded.files, asdict(encoded))
    if lines is not None:
        from tokenmill.preparation.stages.cleaned_text import kept_file

        kept_file(plan, first + unit).unlink(missing_ok=True)
    return receipt


class UnitEncoder:
    """Encodes the chunks of one unit."""

    def __init__(self, plan: Plan, unit: int, lines: "Search | None", first: int) -> None:
        self._plan = plan
        self._unit = unit
        self._lines = lines
        self._first = first
        self._encoder = TextEncoder(plan)
        self._counts = self._encoder.counts
        self._dropped = self._encoder.dropped
        self._is_compared = plan.sources_of(unit)[0].kind == TOKENS
        self._names = (f"{unit}.{number}" for number in count())
        self._long: LongDocuments | None = None
        """Made when the first piece of a long document is met."""
        self._bad_input: list[BadInputPlace] = []
        self._by_source: dict[int, int] = {}
        self._dropped_lines = 0
        self._parts: list[Part] = []
        self._writer: PartWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, traceback)
        if self._long is not None:
            self._long.abandon(kind, error, traceback)

    def add(self, chunk: Chunk) -> None:
        """Encode the texts of a chunk."""
        self._count(chunk)
        if chunk.is_whole:
            self._counts["documents_in"] += len(chunk.texts)
            self._add_documents(chunk)
        elif chunk.texts:
            self._counts["documents_in"] += chunk.continues is Edge.NONE
            self._close_part()
            self._parts += self._long_documents().add(chunk)

    def finish(self) -> EncodedUnit:
        """Close the parts."""
        self._close_part()
        if self._long is not None:
            self._parts += self._long.finish()
        documents = list(self._by_source.values()) or [self._counts["documents_in"]]
        return EncodedUnit(
            parts=tuple(self._parts),
            counts=dict(self._counts),
            dropped=dict(self._dropped),
            dropped_lines=self._dropped_lines,
            documents_by_source=documents,
            bad_input=self._bad_input,
            changed_lines=self._changed_lines(),
        )

    def _long_documents(self) -> "LongDocuments":
        if self._long is None:
            from tokenmill.preparation.stages.long_documents import LongDocuments

            self._long = LongDocuments(
                self._plan, self._unit, self._encoder, self._names, self._first_pieces
            )
        return self._long

    def _first_pieces(self, unit: int) -> Iterator[Chunk]:
        """Yield the pieces at the beginning of a later unit, which begins inside a document."""
        # A cut is found within a few words; but repeated lines are numbered in usual chunks.
        plan = self._plan if self._lines else replace(self._plan, chunk_bytes=SEAM_BYTES)
        chunks = text_of(plan, unit, self._lines, self._first)
        return (chunk for chunk in chunks if chunk.texts)

    def _changed_lines(self) -> list[str]:
        """Examples of what cleaning does, from the first unit."""
        if self._unit or not self._plan.settings.clean:
            return []
        from tokenmill.preparation.stages.changed_lines import changed_lines

        return changed_lines(self._plan)

    def _count(self, chunk: Chunk) -> None:
        self._counts["bytes_in"] += chunk.bytes_in
        self._counts["characters"] += chunk.characters
        self._counts["replaced"] += chunk.replaced
        self._dropped_lines += chunk.dropped_lines
        self._dropped.update(chunk.dropped)
        self._counts["documents_in"] += sum(chunk.dropped.values())
        # Lines are counted from the beginning of the unit, or of their file.
        before = 0 if chunk.by_source else self._counts["lines"]
        for place in chunk.places[: MOST_PLACES - len(self._bad_input)]:
            number = place.number + (before if place.kind == "line" else 0)
            self._bad_input.append(replace(place, number=number))
        self._counts["lines"] += chunk.lines
        self._by_source.update(chunk.by_source)

    def _add_documents(self, chunk: Chunk) -> None:
        is_empty = self._encoder.is_empty
        texts = chunk.texts
        full = [text for text in texts if not is_empty(text)]
        if len(full) < len(texts):
            for number, text in enumerate(texts):
                if is_empty(text):
                    self._encoder.drop_empty(had_text=number in chunk.shortened)
        if not full:
            return
        ids, ends = self._encoder.encode_documents(full)
        if self._is_compared:
            self._encoder.check_same_text(full, ids, ends)
        if self._writer is None:
            self._writer = PartWriter(self._plan, next(self._names))
        self._writer.add(ids, ends)
        if self._writer.num_tokens >= TOKENS_PER_FILE:
            self._close_part()

    def _close_part(self) -> None:
        if self._writer is not None:
            self._parts.append(self._writer.finish())
            self._writer = None
