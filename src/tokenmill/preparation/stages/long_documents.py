"""Long documents: read in pieces, because they do not fit into memory or a unit.

A piece is encoded up to a cut: a place where cutting cannot change the ids (`tokenizer.cuts`). All
units that a document runs through are encoded at the same time. Each answers for one stretch: from
the first cut in its own text (or the beginning of the document) up to the first cut in the next
unit (or the end of the document). Both neighbours of a seam find the same cut, since it depends on
the text of the later unit alone: it is looked for after the first word there, before which newlines
depend on what comes earlier. A unit without any cut answers for nothing, and the one before it
reads on. `join_units` makes one part of the stretches, with ids in several files.
"""

import re
from collections.abc import Callable, Iterator

import numpy as np
import xxhash

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.plan import Plan
from tokenmill.preparation.stages.encode import TextEncoder
from tokenmill.preparation.stages.parts import (
    FOLDER,
    ROW,
    TOKENS_PER_FILE,
    Part,
    TokenFile,
    TokenWriter,
    hashed_bytes,
)
from tokenmill.text.cleaning.dedup import HASH
from tokenmill.text.reading.chunks import Chunk, Edge
from tokenmill.text.reading.document_rules import CUT_TEXT_FILES
from tokenmill.text.reading.kept_facts import KeptFacts
from tokenmill.tokens.cuts import LOOKS_AHEAD, last_cut

MOST_PENDING_BYTES = 256 << 20  # held in search of a cut
_CONTEXT = 3  # bytes before a text that `join_edge` must see
_HASHED_AT_ONCE = 1 << 20  # ids


class LongDocuments:
    """Encodes the stretches of long documents that one unit answers for."""

    def __init__(self, encoder: TextEncoder, pieces_of: Callable[[int], Iterator[Chunk]]) -> None:
        self._plan = encoder.plan
        self._encoder = encoder
        self._pieces_of = pieces_of  # the pieces at the beginning of a later unit
        self._head = Head(encoder.plan)
        """The text before the first cut, where the unit begins inside a document."""
        self._stretch: Stretch | None = None

    def add(self, piece: Chunk) -> list[Part]:
        """Take in the next piece; the part of the document that ends with it, if it has any ids."""
        (text,) = piece.texts
        if piece.continues is Edge.NONE:
            self._stretch = Stretch(self._encoder, b"", piece.kept)
        elif self._stretch is None:
            self._head.add(text)
            if self._head.cut is None:
                return []  # the unit before answers for it
            before, text = self._head.text[: self._head.cut], self._head.text[self._head.cut :]
            self._stretch = Stretch(self._encoder, before)
        self._stretch.add(text, had_text=bool(piece.shortened))
        if piece.open is not Edge.NONE:
            self._stretch.encode_to_last_cut()
            return []
        return self._end()

    def finish(self) -> list[Part]:
        """Read on to the next cut, if the unit ends inside a document; its part."""
        if self._stretch is None:
            return []
        for unit in range(self._encoder.unit + 1, len(self._plan.units)):
            head = Head(self._plan)
            for piece in self._pieces_of(unit):
                head.add(piece.texts[0])
                if head.cut is not None:
                    self._stretch.add(head.text[: head.cut], had_text=True)
                    self._stretch.encode_all()
                    return [self._stretch.part(num_documents=0)]
                if piece.open is Edge.NONE:
                    self._stretch.add(head.text, had_text=bool(piece.shortened))
                    return self._end()
                self._stretch.had_text |= bool(piece.shortened)
            self._stretch.add(head.text, had_text=False)
        raise AssertionError("the last unit of a file leaves no document open")

    def _end(self) -> list[Part]:
        """Write the end of the document; its part, or none if it turned out to be empty."""
        stretch = self._stretch
        assert stretch is not None
        self._stretch = None
        if stretch.is_empty:
            self._encoder.drop_empty(had_text=stretch.had_text)
            return []
        stretch.encode_all()
        stretch.write(np.array([self._plan.tokenizer.end_of_text_id]))
        return [stretch.part(num_documents=1)]


class Head:
    """The text at the beginning of a unit, up to the first cut in it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.text = b""
        self.cut: int | None = None
        """Where the first cut is, as soon as that is known."""
        self._searched = 0
        """Up to here there is none."""

    def add(self, text: bytes) -> None:
        # After a character: newlines at the very beginning are not known to be too many here.
        self.text += _after(self._plan, b"." + self.text, text) if self.text else text
        first_word = len(self.text) - len(self.text.lstrip())
        match = _cuts_of(self._plan).search(self.text, max(first_word + 1, self._searched))
        if match is not None and match.end() + LOOKS_AHEAD <= len(self.text):
            self.cut = match.end()
        self._searched = max(0, len(self.text) - LOOKS_AHEAD)
        _check_pending(self._plan, self.text)


class Stretch:
    """Writes the ids of one stretch of a document; `before` is the text that comes before it."""

    def __init__(self, encoder: TextEncoder, before: bytes, facts: KeptFacts | None = None) -> None:
        self._plan = encoder.plan
        self._facts = facts  # of the document, where it begins here
        self._encoder = encoder
        self._is_beginning = not before
        self._before = before[-_CONTEXT:]
        self._pending = b""
        """Text after the last cut: not encoded yet."""
        self.had_text = False
        self._num_encoded = 0
        self._files: list[TokenFile] = []
        self._writer: TokenWriter | None = None

    def add(self, text: bytes, *, had_text: bool) -> None:
        self._pending += _after(self._plan, self._before + self._pending, text)
        self.had_text |= had_text

    @property
    def is_empty(self) -> bool:
        """Whether the document is empty, so far."""
        is_begun = self._num_encoded or not self._is_beginning
        return not is_begun and self._encoder.is_empty(self._pending)

    def encode_to_last_cut(self) -> None:
        """Encode the text up to its last cut; the rest waits for what comes."""
        text = self._pending
        cut = None if self.is_empty else last_cut(_cuts_of(self._plan), text, 0, len(text))
        if cut is None:
            _check_pending(self._plan, text)
            return
        self._pending = text[:cut]
        self.encode_all()
        self._pending = text[cut:]

    def encode_all(self) -> None:
        """Encode all of the text, which ends at a cut, or with the document."""
        begins = self._is_beginning and not self._num_encoded
        ids, _ = self._encoder.encode([self._pending], begin=begins)
        if begins and self._plan.begin_token_id is not None:
            self.write(np.array([self._plan.begin_token_id]))
        self.write(ids)
        self._num_encoded += 1
        self._before = (self._before + self._pending)[-_CONTEXT:]
        self._pending = b""

    def write(self, ids: np.ndarray) -> None:
        if self._writer is None:
            self._writer = TokenWriter(self._plan, next(self._encoder.names), self._encoder.task)
        self._writer.write(ids)
        if self._writer.num_tokens >= TOKENS_PER_FILE:
            self._close_file()

    def _close_file(self) -> None:
        if self._writer is not None:
            self._files.append(self._writer.close())
            self._writer = None

    def part(self, num_documents: int) -> Part:
        """Close the stretch; the table is written where its document is whole."""
        self._close_file()
        part = Part(tuple(self._files), num_documents)
        if self._facts is not None:
            with self._plan.workspace.new(FOLDER, f"{part.name}.facts") as file:
                file.write(self._facts.to_bytes())
        if num_documents:
            write_row(self._plan, part)
        return part


def write_row(plan: Plan, part: Part) -> None:
    """Write the table of a part that is one document."""
    row = np.zeros(1, ROW)
    row["length"] = part.num_tokens
    if plan.needs_hashes:
        state = xxhash.xxh3_128()
        first = 0 if plan.begin_token_id is None else 1  # without begin token and end-of-text
        left = part.num_tokens - 1
        for ids in part.token_arrays(plan):
            own = ids[first:left]
            for start in range(0, len(own), _HASHED_AT_ONCE):
                state.update(hashed_bytes(own[start : start + _HASHED_AT_ONCE]))
            first = max(0, first - len(ids))
            left -= len(ids)
        row["hash"] = np.frombuffer(state.digest(), HASH)
    with plan.workspace.new(FOLDER, f"{part.name}.rows") as file:
        file.write(row.data)


def _cuts_of(plan: Plan) -> re.Pattern[bytes]:
    cuts = plan.cuts
    assert cuts is not None, "where nothing may be cut, readers give whole documents"
    return cuts


def _after(plan: Plan, before: bytes, text: bytes) -> bytes:
    """The text as it is after `before` in one document."""
    if not plan.settings.clean:
        return text
    from tokenmill.text.cleaning.clean import join_edge

    return join_edge(before, text)


def _check_pending(plan: Plan, text: bytes) -> None:
    """Refuse to hold ever more text in which no cut is found."""
    if len(text) > MOST_PENDING_BYTES:
        raise PrepareError(
            f"no place to cut in {len(text):,} bytes of one document: "
            f"the tokenizer {plan.tokenizer.name} allows none",
            hint=f"cut the file into documents: {CUT_TEXT_FILES}, or separator=",
        )
