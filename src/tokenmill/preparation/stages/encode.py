"""encode: read, clean, drop lines, encode, write, a unit at a time.

Documents are encoded whole. The few that are read in pieces are the business of
`long_documents.py`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain, count
from types import TracebackType
from typing import Any, Self

from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import Searched
from tokenmill.preparation.stages.long_documents import LongDocuments, Piece
from tokenmill.preparation.stages.parts import FOLDER, TOKENS_PER_FILE, Part, PartWriter
from tokenmill.preparation.stages.text_encoder import TextEncoder
from tokenmill.preparation.stages.unit_text import (
    cleaned_chunks,
    kept_chunks,
    kept_text,
    naming_source,
)
from tokenmill.preparation.workspace.receipt_log import Receipt, StageReceipts
from tokenmill.preparation.workspace.under_way import UnderWay
from tokenmill.preparation.workspace.work_folder import leaves_receipt
from tokenmill.text.cleaning.clean_chunks import (
    CleanChunk,
    KeptChunks,
    KeptTextError,
    LineDropper,
)
from tokenmill.text.inputs.open_input import TOKENS
from tokenmill.text.reading.bad_input import MOST_PLACES, BadInputPlace
from tokenmill.text.reading.chunks import Edge

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
        facts["bad_input"] = [BadInputPlace(*place) for place in receipt["bad_input"]]
        return cls(**facts)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "bad_input": [list(place) for place in self.bad_input]}

    @property
    def files(self) -> list[str]:
        """The names of the files that hold its parts."""
        tables = [f"{part.name}.rows" for part in self.parts if part.num_documents]
        return [f"{file.name}.tokens" for part in self.parts for file in part.files] + tables


def encoded_units(plan: Plan) -> Iterator[EncodedUnit]:
    """The outcome of every unit, in order."""
    logs = plan.workspace.receipts(FOLDER)
    logs.refresh()
    names = [str(unit) for unit in range(len(plan.units))]
    return map(EncodedUnit.from_receipt, StageReceipts(logs, names))


@leaves_receipt(lambda _, unit, *lines: (FOLDER, str(unit)))
def encode_unit(out_dir: str, unit: int, lines: Searched | None = None, first: int = 0) -> Receipt:
    """Task: leave the encoded documents of one unit, in one part or several.

    `lines` knows the repeated lines; there unit 0 is run `first`.
    """
    plan = load_plan(out_dir)
    text = UnitText(plan, lines, first)
    with naming_source(plan, unit):
        try:
            encoded = _encode(text, unit, text.chunks(unit))
        except KeptTextError:
            encoded = _encode(text, unit, cleaned_chunks(plan, unit))
    receipt = plan.workspace.leave_receipt(FOLDER, str(unit), encoded.files, encoded.to_json())
    text.remove_kept(unit)
    return receipt


def _encode(text: "UnitText", unit: int, chunks: Iterator[CleanChunk]) -> EncodedUnit:
    dropper = text.line_dropper(unit)
    with UnitEncoder(text, unit) as encoder:
        for chunk in UnderWay(text.plan.workspace).noting(unit, chunks):
            encoder.add(dropper.drop(chunk), chunk)
        return encoder.finish(dropped_lines=dropper.num_dropped)


@dataclass(frozen=True)
class UnitText:
    """The text of units as it is encoded: cleaned, and without repeated lines."""

    plan: Plan
    lines: Searched | None
    first: int
    """The run of unit 0 in `lines`."""

    def line_dropper(self, unit: int) -> LineDropper:
        repeated = None
        if self.lines is not None:
            repeated = self.lines.repeated(self.plan.workspace, self.first + unit)
        return LineDropper(repeated, normalize=self.plan.settings.clean)

    def chunks(self, unit: int) -> Iterator[CleanChunk]:
        """The cleaned chunks; KeptTextError where they were to be kept, and are not there."""
        if self.lines is None:
            return cleaned_chunks(self.plan, unit)
        return kept_chunks(self.plan, unit, self._kept(unit))

    def remove_kept(self, unit: int) -> None:
        """The text that was kept is not needed any more."""
        if self.lines is not None:
            self._kept(unit).remove()

    def _kept(self, unit: int) -> KeptChunks:
        return kept_text(self.plan, self.first + unit)

    def first_pieces(self, unit: int) -> Iterator[Piece]:
        """The pieces at the beginning of a unit, which begins inside a long document."""
        dropper = self.line_dropper(unit)
        for chunk in self._first_chunks(unit):
            texts = dropper.drop(chunk)
            if texts:
                yield piece_of(texts[0], chunk, is_cleaned=self.plan.settings.clean)

    def _first_chunks(self, unit: int) -> Iterator[CleanChunk]:
        if self.lines is None:
            # A cut is found within a few words.
            return cleaned_chunks(replace(self.plan, chunk_bytes=SEAM_BYTES), unit)
        try:
            kept = self.chunks(unit)
            return chain([next(kept)], kept)
        except (KeptTextError, StopIteration):  # it is encoded already
            return cleaned_chunks(self.plan, unit)


def piece_of(text: bytes, chunk: CleanChunk, *, is_cleaned: bool) -> Piece:
    """The piece of a long document that is all of a chunk."""
    before = chunk.text(0)  # with repeated lines
    return Piece(
        text,
        begins=chunk.continues is Edge.NONE,
        ends=chunk.open is Edge.NONE,
        had_text=bool(before) and not (is_cleaned and before.isspace()),
    )


class UnitEncoder:
    """Encodes the chunks of one unit."""

    def __init__(self, text: UnitText, unit: int) -> None:
        self._plan = text.plan
        self._is_first = unit == 0
        self._encoder = TextEncoder(text.plan)
        self._counts = self._encoder.counts
        self._dropped = self._encoder.dropped
        self._is_compared = text.plan.sources_of(unit)[0].kind == TOKENS
        self._names = (f"{unit}.{number}" for number in count())
        self._long = LongDocuments(text.plan, unit, self._encoder, self._names, text.first_pieces)
        self._bad_input: list[BadInputPlace] = []
        self._by_source: dict[int, int] = {}
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
        self._long.abandon(kind, error, traceback)

    def add(self, texts: list[bytes], chunk: CleanChunk) -> None:
        """Encode the texts of a chunk, as they are without repeated lines."""
        self._count(chunk)
        if chunk.is_whole:
            self._counts["documents_in"] += len(texts)
            self._add_documents(texts, chunk)
        elif texts:
            piece = piece_of(texts[0], chunk, is_cleaned=self._plan.settings.clean)
            self._counts["documents_in"] += piece.begins
            self._close_part()
            self._parts += self._long.add(piece)

    def finish(self, *, dropped_lines: int) -> EncodedUnit:
        """Close the parts."""
        self._close_part()
        self._parts += self._long.finish()
        documents = list(self._by_source.values()) or [self._counts["documents_in"]]
        return EncodedUnit(
            parts=tuple(self._parts),
            counts=dict(self._counts),
            dropped=dict(self._dropped),
            dropped_lines=dropped_lines,
            documents_by_source=documents,
            bad_input=self._bad_input,
            changed_lines=self._changed_lines(),
        )

    def _changed_lines(self) -> list[str]:
        """Examples of what cleaning does, from the first unit."""
        if not (self._is_first and self._plan.settings.clean):
            return []
        from tokenmill.preparation.stages.changed_lines import changed_lines

        return changed_lines(self._plan)

    def _count(self, chunk: CleanChunk) -> None:
        self._counts["bytes_in"] += chunk.bytes_in
        self._counts["characters"] += chunk.characters
        self._counts["replaced"] += chunk.replaced
        self._dropped.update(chunk.dropped)
        self._counts["documents_in"] += sum(chunk.dropped.values())
        # Lines are counted from the beginning of the unit, or of their file.
        before = 0 if chunk.by_source else self._counts["lines"]
        for place in chunk.places[: MOST_PLACES - len(self._bad_input)]:
            number = place.number + (before if place.kind == "line" else 0)
            self._bad_input.append(place._replace(number=number))
        self._counts["lines"] += chunk.lines
        self._by_source.update(chunk.by_source)

    def _add_documents(self, texts: list[bytes], chunk: CleanChunk) -> None:
        is_empty = self._encoder.is_empty
        full = [text for text in texts if not is_empty(text)]
        if len(full) < len(texts):
            for number, text in enumerate(texts):
                if is_empty(text):
                    self._encoder.drop_empty(had_text=not is_empty(chunk.text(number)))
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
