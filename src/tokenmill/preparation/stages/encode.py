"""map(unit): read, clean, drop lines, encode, write. Pure, idempotent, harmless if run twice.

A document may be larger than a chunk, and larger than a unit. It is then encoded in pieces that
end where cutting cannot change the ids (`tokenizer.cuts`). What stands between the last such place
of one unit and the first of the next is kept as text, head and tail, and is encoded when both
neighbours are known (`edges.py`).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.base.atomic import new_file
from tokenmill.errors import PrepareError
from tokenmill.preparation.budget.document_limits import OneAtATime, load_limits
from tokenmill.preparation.plan import Plan, load_plan
from tokenmill.preparation.stages.clean_chunks import cleaned_chunks, naming_source
from tokenmill.preparation.stages.clean_text import KeptText
from tokenmill.preparation.stages.encoded import CONTINUES, OPEN, PartWriter
from tokenmill.preparation.stages.lines import Searched
from tokenmill.preparation.workspace.task import leaves_receipt
from tokenmill.text.cleaning.clean import join_edge
from tokenmill.text.cleaning.line_work import find_lines, with_surplus_empty_lines, without_lines
from tokenmill.text.reading.bad_input import MOST_PLACES, BadInputPlace
from tokenmill.text.reading.chunks import Chunk, Edge
from tokenmill.tokens.cuts import last_cut
from tokenmill.tokens.tokenizer import Tokenizer

TOKENS_PER_PART = 16 << 20
EDGE_LIMIT = 256 << 20  # bytes held in search of a place to cut
EMPTY, EMPTIED = "empty", "only repeated lines"
CONTEXT = 3  # bytes of a text that `join_edge` must see


@leaves_receipt(lambda _, unit, lines, number: ("units", str(unit)))
def encode_unit(out_dir: str, unit: int, lines: Searched | None, number: int) -> dict[str, Any]:
    """Task: leave the encoded documents of one unit, in one part or several.

    `lines` knows the repeated lines, of this unit as run `number`.
    """
    plan = load_plan(out_dir)
    encoder = UnitEncoder(plan, unit)
    repeated = lines.repeated(plan.workspace, number) if lines is not None else None
    dropper = LineDropper(plan, repeated)
    kept = KeptText(plan.workspace, str(number))
    with naming_source(plan, unit), encoder, OneAtATime(plan.workspace) as on_large:
        share = load_limits(plan.workspace).share(plan.sources[plan.units[unit].source].kind)
        chunks: Iterator[Chunk] = (
            kept.chunks(share, on_large)
            if kept.is_whole()
            else cleaned_chunks(plan, unit, plan.tokenizer.cuts)
        )
        for chunk in chunks:
            encoder.add(dropper.drop(chunk), chunk)
        receipt = encoder.finish()
    receipt["dropped_lines"] = dropper.num_dropped
    files = [f"{part['name']}.{kind}" for part in receipt["parts"] for kind in ("tokens", "rows")]
    receipt = plan.workspace.leave_receipt("units", str(unit), [f"{unit}.edges", *files], receipt)
    kept.remove()
    return receipt


class LineDropper:
    """Takes the lines out of the chunks of a unit that an earlier pass found to be repeated."""

    def __init__(self, plan: Plan, ordinals: np.ndarray | None) -> None:
        self.settings, self.ordinals = plan.settings, ordinals
        self.num_lines = self.num_dropped = 0

    def drop(self, chunk: Chunk) -> list[bytes]:
        """The texts of the next chunk, without repeated lines."""
        if self.ordinals is None or not len(self.ordinals):
            return chunk.texts
        lines = find_lines(chunk.texts)
        begin, end = self.num_lines, self.num_lines + len(lines)
        first, last = np.searchsorted(self.ordinals, (begin, end))
        here = self.ordinals[first:last].astype(np.int64) - begin
        self.num_lines = end
        self.num_dropped += len(here)
        if not len(here):
            return chunk.texts
        if self.settings.normalize:
            continues = chunk.continues is not Edge.NONE
            here = with_surplus_empty_lines(lines, here, continues=continues)
        return without_lines(lines, here)


@dataclass
class Piece:
    """A text on its way to the encoder, and whether the document began before or goes on."""

    text: bytes
    flags: int


@dataclass
class OpenDocument:
    """The document at the end of what was read so far, when it goes on."""

    pending: bytes = b""
    """Text after the last place to cut: not encoded yet."""
    has_rows: bool = False
    """Whether a part of it was encoded already (here or, for a head, in an earlier unit)."""
    before: bytes = b""
    """The last bytes that were encoded: what cleaning must see of them."""
    had_text: bool = False
    """Whether it had any text before repeated lines were dropped."""

    @property
    def seen(self) -> bytes:
        """The end of the document so far."""
        return self.before + self.pending


class UnitEncoder:
    """Encodes the chunks of one unit and remembers what its neighbours must know."""

    def __init__(self, plan: Plan, unit: int) -> None:
        self.plan, self.unit = plan, unit
        self.tokenizer: Tokenizer = plan.tokenizer
        self.settings = plan.settings
        self.hashed = plan.settings.val_fraction > 0 or plan.settings.dedup == "documents"
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()
        self.places: list[BadInputPlace] = []
        self.parts: list[dict[str, Any]] = []
        self.part: PartWriter | None = None
        self.document: OpenDocument | None = None
        self.head: bytes | None = None
        """Text before the first place to cut, when the unit begins inside a document."""
        self.head_had_text = False
        self.head_complete = False
        self.head_closes = False
        self.begins_inside = False

    def __enter__(self) -> "UnitEncoder":
        return self

    def __exit__(self, *error: Any) -> None:
        if self.part is not None:
            self.part.__exit__(*error)
            self.part = None

    def add(self, texts: list[bytes], chunk: Chunk) -> None:
        """Encode the texts of one chunk."""
        self.counts["bytes_in"] += chunk.bytes_in
        self.counts["replaced"] += chunk.replaced
        self.dropped.update(chunk.dropped)
        self._keep_places(chunk)
        self.counts["documents_in"] += sum(chunk.dropped.values())
        pieces: list[Piece] = []
        last = len(texts) - 1
        for at, text in enumerate(texts):
            continues = at == 0 and chunk.continues is not Edge.NONE
            goes_on = at == last and chunk.open is not Edge.NONE
            if not continues:
                self.counts["documents_in"] += 1
            if continues or goes_on:
                had_text = not self._is_empty(chunk.texts[at])
                pieces += self._piece_of_long_document(text, continues, goes_on, had_text)
            elif self._is_empty(text):
                self.dropped[EMPTY if self._is_empty(chunk.texts[at]) else EMPTIED] += 1
            else:
                pieces.append(Piece(text, 0))
        self._encode(pieces)

    def finish(self) -> dict[str, Any]:
        """Close the parts; what the receipt of the unit says."""
        self._close_part()
        tail = self.document.pending if self.document is not None else b""
        with new_file(self.plan.workspace.path("units", f"{self.unit}.edges")) as file:
            file.write(self.head or b"")
            file.write(tail)
        return {
            "parts": self.parts,
            "counts": dict(self.counts),
            "dropped": dict(self.dropped),
            "places": [list(place) for place in self.places],
            "begins_inside": self.begins_inside,
            "head": len(self.head or b""),
            "head_complete": self.head_complete,
            "head_closes": self.head_closes,
            "head_had_text": self.head_had_text,
            "tail": len(tail),
            "tail_had_text": self.document is not None and self.document.had_text,
            "open": self.document is not None or (self.begins_inside and self._all_is_head),
            "open_has_rows": self.document is not None and self.document.has_rows,
            "before_tail": self.document.before.hex() if self.document is not None else "",
        }

    def _keep_places(self, chunk: Chunk) -> None:
        """The first places of bad input, lines counted from the beginning of the unit."""
        for place in chunk.places[: MOST_PLACES - len(self.places)]:
            before = self.counts["lines"] if place.kind == "line" else 0
            self.places.append(place._replace(number=before + place.number))
        self.counts["lines"] += chunk.lines

    @property
    def _all_is_head(self) -> bool:
        return not self.head_complete and not self.head_closes

    def _piece_of_long_document(
        self, text: bytes, continues: bool, goes_on: bool, had_text: bool
    ) -> list[Piece]:
        if continues and self.document is None:
            self.head_had_text |= had_text
            rest = self._take_head(text, closes=not goes_on)
            if rest is None:
                return []
            assert self.head is not None
            self.document = OpenDocument(has_rows=True, before=self.head[-CONTEXT:])
            text = rest
        elif continues:
            assert self.document is not None
            text = self.document.pending + self._behind(self.document.seen, text)
        else:
            self.document = OpenDocument()
        assert self.document is not None
        self.document.had_text |= had_text
        if goes_on:
            return self._cut_off(self.document, text)
        has_rows, had_text = self.document.has_rows, self.document.had_text
        self.document = None
        if not has_rows and self._is_empty(text):
            self.dropped[EMPTIED if had_text else EMPTY] += 1
            return []
        return [Piece(text, CONTINUES if has_rows else 0)]

    def _cut_off(self, document: OpenDocument, text: bytes) -> list[Piece]:
        """The text up to its last place to cut; the rest waits for what comes."""
        # A document that is blank so far may turn out to be empty.
        cut = 0
        if document.has_rows or not self._is_empty(text):
            cuts = self.tokenizer.cuts
            cut = (last_cut(cuts, text, 0, len(text)) or 0) if cuts is not None else 0
        document.pending = text[cut:]
        if not cut:
            check_edge(text)
            return []
        flags = OPEN | (CONTINUES if document.has_rows else 0)
        document.has_rows = True
        document.before = (document.before + text[:cut])[-CONTEXT:]
        return [Piece(text[:cut], flags)]

    def _take_head(self, text: bytes, *, closes: bool) -> bytes | None:
        """Put text aside up to the first place to cut; return what comes after it, if any.

        Newlines at the edge depend on what stands before them: no cut before the first word.
        """
        self.begins_inside = True
        head = text if self.head is None else self.head + self._behind(b"." + self.head, text)
        first_word = len(head) - len(head.lstrip())
        cut = None
        if self.tokenizer.cuts is not None and first_word < len(head):
            cut = self.tokenizer.cuts.search(head, first_word + 1)
        if cut is None:
            check_edge(head)
            self.head, self.head_closes = head, closes
            return None
        self.head, self.head_complete = head[: cut.end()], True
        return head[cut.end() :]

    def _behind(self, before: bytes, text: bytes) -> bytes:
        """The text as it is behind `before` in one document."""
        return join_edge(before, text) if self.settings.normalize else text

    def _is_empty(self, text: bytes) -> bool:
        return not text or (self.settings.normalize and text.isspace())

    def _encode(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        if self.part is None:
            self.part = PartWriter(
                self.plan.workspace,
                f"{self.unit}.{len(self.parts)}",
                self.plan.dtype,
                self.tokenizer.end_of_text_id,
            )
        flags = np.array([piece.flags for piece in pieces], np.uint32)
        ids, ends = encode_checked(self.plan, [piece.text for piece in pieces])
        self.counts["literal_end_of_text"] += count_literals(
            self.tokenizer, [piece.text for piece in pieces]
        )
        self.part.add(ids, ends, flags, hashed=self.hashed)
        if self.part.num_tokens >= TOKENS_PER_PART:
            self._close_part()

    def _close_part(self) -> None:
        if self.part is not None:
            self.part.__exit__(None, None, None)
            self.parts.append(self.part.facts())
            self.part = None


def encode_checked(plan: Plan, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Encode, and make sure that every id is one of the vocabulary: nothing ever wraps."""
    tokenizer = plan.tokenizer
    ids, ends = tokenizer.encode_batch(texts)
    largest = int(ids.max(initial=0))
    if largest >= tokenizer.vocab_size:
        raise PrepareError(
            f"token id {largest} is beyond the vocabulary of {tokenizer.name} "
            f"({tokenizer.vocab_size:,} ids)",
            hint="the tokenizer file contradicts itself; check where it comes from",
        )
    return ids, ends


def check_edge(text: bytes) -> None:
    """Refuse to hold ever more text in which no place to cut turns up."""
    if len(text) > EDGE_LIMIT:
        raise PrepareError(
            f"no place to cut in {len(text):,} bytes of one document: the tokenizer allows none",
            hint="cut the file into documents: --documents line or paragraph, or --separator",
        )


def count_literals(tokenizer: Tokenizer, texts: list[bytes]) -> int:
    """How often the end-of-text token stands in the texts, spelled out; it stays text."""
    if not tokenizer.end_of_text:
        return 0
    literal = tokenizer.end_of_text.encode()
    # One byte is looked for first: most texts do not have it, and that is soon known.
    return sum(text.count(literal) for text in texts if literal[:1] in text)
