"""encode: read, clean, drop lines, encode, write, a unit at a time.

A document may be larger than a chunk, and larger than a unit. It is then encoded in pieces that
end where cutting cannot change the ids (`tokenizer.cuts`). What is between the last such place
of one unit and the first of the next is kept as text, head and tail, and is encoded when both
neighbours are known (`join.py`).
"""

from typing import Any

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.duplicates import Searched
from tokenmill.preparation.stages.encoded import (
    CONTINUES,
    OPEN,
    OpenDocument,
    PartWriter,
    TextEncoder,
)
from tokenmill.preparation.stages.unit_text import (
    cleaned_chunks,
    kept_chunks,
    kept_text,
    naming_source,
)
from tokenmill.preparation.workspace.receipt_log import Receipt
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
from tokenmill.tokens.cuts import last_cut

Pieces = list[tuple[bytes, int]]
"""Texts, each with flags: whether its document began before it (CONTINUES), or is OPEN after it."""
TOKENS_PER_PART = 16 << 20
CONTEXT = 3  # bytes of a text that `join_edge` must see


@leaves_receipt(lambda _, unit, *lines: ("units", str(unit)))
def encode_unit(out_dir: str, unit: int, lines: Searched | None = None, first: int = 0) -> Receipt:
    """Task: leave the encoded documents of one unit, in one part or several.

    `lines` knows the repeated lines; there unit 0 is run `first`.
    """
    plan, number = load_plan(out_dir), first + unit
    repeated = lines.repeated(plan.workspace, number) if lines is not None else None
    kept = kept_text(plan, number)
    with naming_source(plan, unit):
        try:
            facts = _encode_chunks(plan, unit, repeated, kept)
        except KeptTextError:
            facts = _encode_chunks(plan, unit, repeated, None)
    files = [f"{part['name']}.{kind}" for part in facts["parts"] for kind in ("tokens", "rows")]
    receipt = plan.workspace.leave_receipt("units", str(unit), [f"{unit}.edges", *files], facts)
    if kept is not None:
        kept.remove()
    return receipt


def _encode_chunks(
    plan: Plan, unit: int, repeated: np.ndarray | None, kept: KeptChunks | None
) -> dict[str, Any]:
    """Encode a unit, from its kept text or from its source; what its receipt says."""
    if kept is None:
        chunks = cleaned_chunks(plan, unit, plan.tokenizer.cuts)
    else:
        chunks = kept_chunks(plan, unit, kept)
    dropper = LineDropper(repeated, normalize=plan.settings.clean)
    with UnitEncoder(plan, unit) as encoder:
        for chunk in UnderWay(plan.workspace).noting(unit, chunks):
            encoder.add(dropper.drop(chunk), chunk)
        return {**encoder.finish(), "dropped_lines": dropper.num_dropped}


class UnitEncoder:
    """Encodes the chunks of one unit and remembers what its neighbours must know."""

    def __init__(self, plan: Plan, unit: int) -> None:
        self.plan, self.unit = plan, unit
        self.encoder = TextEncoder(plan)
        settings = plan.settings
        self.hashed = settings.val_fraction > 0 or settings.dedup == "documents" or plan.keeps_apart
        self.counts, self.dropped = self.encoder.counts, self.encoder.dropped
        self.places: list[BadInputPlace] = []
        self.by_source: dict[int, int] = {}
        self.parts: list[dict[str, Any]] = []
        self.part: PartWriter | None = None
        self.document: OpenDocument | None = None
        self.head: bytes | None = None
        """Text before the first place to cut, when the unit begins inside a document."""
        self.head_had_text = False
        self.head_complete = False
        self.head_closes = False

    def __enter__(self) -> "UnitEncoder":
        return self

    def __exit__(self, *error: Any) -> None:
        if self.part is not None:
            self.part.__exit__(*error)
            self.part = None

    def add(self, texts: list[bytes], chunk: CleanChunk) -> None:
        self.counts["bytes_in"] += chunk.bytes_in
        self.counts["characters"] += chunk.characters
        self.counts["replaced"] += chunk.replaced
        self.dropped.update(chunk.dropped)
        for place in chunk.places[: MOST_PLACES - len(self.places)]:
            # Lines are counted from the beginning of the unit, or of their file.
            shifted = place.kind == "line" and not chunk.by_source
            before = self.counts["lines"] if shifted else 0
            self.places.append(place._replace(number=before + place.number))
        self.counts["lines"] += chunk.lines
        self.by_source.update(chunk.by_source)
        self.counts["documents_in"] += sum(chunk.dropped.values())
        continues, stays_open = chunk.continues is not Edge.NONE, chunk.open is not Edge.NONE
        self.counts["documents_in"] += len(texts) - (continues and len(texts) > 0)
        pieces, is_empty = Pieces(), self.encoder.is_empty
        for at, text in enumerate(texts):
            at_start, at_end = continues and at == 0, stays_open and at == len(texts) - 1
            if at_start or at_end:
                had_text = not is_empty(chunk.text(at))
                pieces += self._piece_of_long_document(text, at_start, at_end, had_text)
            elif is_empty(text):
                self.encoder.drop_empty(had_text=not is_empty(chunk.text(at)))
            else:
                pieces.append((text, 0))
        self._encode(pieces)

    def finish(self) -> dict[str, Any]:
        """Close the parts; what the receipt of the unit says."""
        self._close_part()
        document, begins_inside = self.document or OpenDocument(), self.head is not None
        all_is_head = begins_inside and not self.head_complete and not self.head_closes
        with new_file(self.plan.workspace.path("units", f"{self.unit}.edges")) as file:
            file.write(self.head or b"")
            file.write(document.pending)
        return {
            "parts": self.parts,
            "counts": dict(self.counts),
            "dropped": dict(self.dropped),
            "documents_by_source": list(self.by_source.values()) or [self.counts["documents_in"]],
            "places": [list(place) for place in self.places],
            "begins_inside": begins_inside,
            "head": len(self.head or b""),
            "head_complete": self.head_complete,
            "head_closes": self.head_closes,
            "head_had_text": self.head_had_text,
            "tail": len(document.pending),
            "tail_had_text": document.had_text,
            "open": self.document is not None or all_is_head,
            "open_has_rows": document.has_rows,
            "before_tail": document.before.hex(),
        }

    def _piece_of_long_document(
        self, text: bytes, continues: bool, stays_open: bool, had_text: bool
    ) -> Pieces:
        document = self.document
        if not continues:
            document = OpenDocument()
        elif document is not None:
            text = self.encoder.append(document, text)
        else:
            self.head_had_text |= had_text
            head, rest = self._take_head(text, closes=not stays_open)
            if rest is None:
                return []
            document, text = OpenDocument(has_rows=True, before=head[-CONTEXT:]), rest
        document.had_text |= had_text
        self.document = document if stays_open else None
        if stays_open:
            return self._cut_off(document, text)
        if not document.has_rows and self.encoder.is_empty(text):
            self.encoder.drop_empty(had_text=document.had_text)
            return []
        return [(text, CONTINUES if document.has_rows else 0)]

    def _cut_off(self, document: OpenDocument, text: bytes) -> Pieces:
        """The text up to its last place to cut; the rest waits for what comes."""
        # A document that is blank so far may turn out to be empty.
        cut = 0
        if document.has_rows or not self.encoder.is_empty(text):
            cuts = self.encoder.tokenizer.cuts
            cut = (last_cut(cuts, text, 0, len(text)) or 0) if cuts is not None else 0
        document.pending = text[cut:]
        if not cut:
            self.encoder.check_edge(text)
            return []
        flags = OPEN | (CONTINUES if document.has_rows else 0)
        document.has_rows = True
        document.before = (document.before + text[:cut])[-CONTEXT:]
        return [(text[:cut], flags)]

    def _take_head(self, text: bytes, *, closes: bool) -> tuple[bytes, bytes | None]:
        """Put text aside up to the first place to cut; return it, and what comes after, if any.

        Newlines at the edge depend on what is before them: no cut before the first word.
        """
        head = text if self.head is None else self.head + self.encoder.after(b"." + self.head, text)
        first_word = len(head) - len(head.lstrip())
        cut = None
        if self.encoder.tokenizer.cuts is not None and first_word < len(head):
            cut = self.encoder.tokenizer.cuts.search(head, first_word + 1)
        if cut is None:
            self.encoder.check_edge(head)
            self.head, self.head_closes = head, closes
            return head, None
        self.head, self.head_complete = head[: cut.end()], True
        return self.head, head[cut.end() :]

    def _encode(self, pieces: Pieces) -> None:
        if not pieces:
            return
        if self.part is None:
            self.part = PartWriter(self.plan, f"{self.unit}.{len(self.parts)}")
        texts, flags = zip(*pieces, strict=True)
        marks = np.array(flags, np.uint32)
        ids, ends = self.encoder.encode(list(texts), marks)
        if self.plan.sources_of(self.unit)[0].kind == TOKENS:
            self.encoder.check_same_text(texts, ids, ends)
        self.part.add(ids, ends, marks, hashed=self.hashed)
        if self.part.num_tokens >= TOKENS_PER_PART:
            self._close_part()

    def _close_part(self) -> None:
        if self.part is not None:
            self.part.__exit__(None, None, None)
            self.parts.append(self.part.facts())
            self.part = None
