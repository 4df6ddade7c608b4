"""encode: read, clean, drop lines, encode, write, a unit at a time; join: list all parts.

Documents are encoded whole. The few that are read in pieces are the business of
`long_documents.py`. One that runs through several units left a stretch in each: joined, they are
one part. The files stay as they are, and only the hash of the whole document is computed.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import compress, count
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import xxhash

from tokenmill.errors import BadInputError, PrepareError
from tokenmill.preparation.planning.plan import Plan, load_plan
from tokenmill.preparation.stages.parts import (
    FOLDER,
    NO_COLUMNS,
    TOKENS_PER_FILE,
    Part,
    PartWriter,
    TokenFile,
)
from tokenmill.preparation.stages.unit_text import kept_file, naming_source, text_of
from tokenmill.preparation.workspace.receipt_log import Receipt
from tokenmill.preparation.workspace.workspace import Workspace, read_once
from tokenmill.text.inputs.open_input import TOKENS
from tokenmill.text.reading.bad_input import (
    EMPTY,
    MOST_PLACES,
    ONLY_REPEATED_LINES,
    BadInputPlace,
)
from tokenmill.text.reading.chunks import EXAMPLES, Chunk, Edge
from tokenmill.tokens.tokenizer import Tokenizer, count_literals

if TYPE_CHECKING:
    from tokenmill.preparation.stages.conversations import ConversationEncoder
    from tokenmill.preparation.stages.duplicates import Search
    from tokenmill.preparation.stages.long_documents import LongDocuments
    from tokenmill.preparation.stages.removals import RulesRecord
    from tokenmill.text.reading.kept_facts import KeptFacts

PARTS_FILE = "parts.json"
SEAM_BYTES = 64 << 10  # of the next unit that are read at a time, in search of a cut


@dataclass(frozen=True)
class EncodedUnit:
    """What encoding one unit came to."""

    parts: tuple[Part, ...]
    """In order. One without a document is a stretch of a document that ends in a later unit."""
    counts: dict[str, int]
    dropped: dict[str, int]
    """Documents that are not there, by reason."""
    documents_by_source: list[int]
    bad_input: list[BadInputPlace]
    """The first bad inputs that were dropped or repaired."""
    repeated_lines: list[str] = field(default_factory=list)
    """The first lines that were left out, being there before."""
    rules: dict[str, Any] = field(default_factory=dict)
    """What rules did to the documents; see `RulesRecord`."""


def encoded_units(plan: Plan) -> Iterator[EncodedUnit]:
    """The outcome of every unit, in order."""
    for receipt in plan.workspace.receipts(FOLDER, map(str, range(len(plan.units)))):
        del receipt["files"]
        receipt["parts"] = tuple(Part.from_json(part) for part in receipt["parts"])
        receipt["bad_input"] = [BadInputPlace(**place) for place in receipt["bad_input"]]
        yield EncodedUnit(**receipt)


def encode_unit(out_dir: str, unit: int, lines: "Search | None" = None) -> Receipt:
    """Task: leave the encoded documents of one unit, in one part or several."""
    plan = load_plan(out_dir)
    with naming_source(plan, unit), ExitStack() as task:
        encoder = UnitEncoder(plan, unit, lines, task)
        hits = None
        if plan.finds_test_items and not plan.cuts_test_items:
            from tokenmill.preparation.stages.contamination import HitsRecord

            hits = HitsRecord(plan, unit, task)
        chunks = text_of(plan, unit, lines)
        if plan.cuts_test_items:
            from tokenmill.preparation.stages.contamination import without_passages

            chunks = without_passages(plan, unit, chunks)
        for chunk in plan.workspace.noting(unit, chunks):
            if hits is not None:
                hits.add(chunk)
            encoder.add(chunk)
        encoded = encoder.finish()
        if hits is not None:
            hits.close()
    files = encoded.rules.pop("files", [])
    files += [name for part in encoded.parts for file in part.files for name in file.names(plan)]
    files += [f"{part.name}.rows" for part in encoded.parts if part.num_documents]
    files += [f"{part.name}.facts" for part in encoded.parts if plan.settings.keeps_facts]
    files += [] if hits is None else [f"../evals/{hits.name}"]
    receipt = plan.workspace.leave_receipt(FOLDER, str(unit), files, asdict(encoded))
    if lines is not None:
        plan.workspace.drop(f"lines/{kept_file(unit)}")
    return receipt


class UnitEncoder:
    """Encodes the chunks of one unit."""

    def __init__(self, plan: Plan, unit: int, lines: "Search | None", task: ExitStack) -> None:
        self._plan = plan
        self._lines = lines
        self._encoder = TextEncoder(plan, unit, task)
        self._counts = self._encoder.counts
        self._is_compared = plan.sources_of(unit)[0].kind == TOKENS
        self._conversations = _conversation_encoder(plan) if plan.settings.chat else None
        self._long: LongDocuments | None = None
        """Made when the first piece of a long document is met."""
        self._rules: RulesRecord | None = None
        """Made with the first chunk that rules looked at."""
        self._bad_input: list[BadInputPlace] = []
        self._repeated: list[str] = []
        self._by_source: dict[int, int] = {}
        self._parts: list[Part] = []
        self._writer: PartWriter | None = None

    def add(self, chunk: Chunk) -> None:
        """Encode the texts of a chunk."""
        self._count(chunk)
        if chunk.is_whole:
            self._counts["documents_in"] += len(chunk.texts)
            self._add_documents(chunk)
        elif chunk.texts:
            self._counts["documents_in"] += chunk.continues is Edge.NONE
            self._close_part()
            if self._long is None:
                from tokenmill.preparation.stages.long_documents import LongDocuments

                self._long = LongDocuments(self._encoder, self._first_pieces)
            self._parts += self._long.add(
                replace(chunk, kept=chunk.kept and self._known(chunk.kept))
            )

    def finish(self) -> EncodedUnit:
        """Close the parts."""
        self._close_part()
        if self._long is not None:
            self._parts += self._long.finish()
        return EncodedUnit(
            parts=tuple(self._parts),
            counts=dict(self._counts),
            dropped=dict(self._encoder.dropped),
            documents_by_source=[*self._by_source.values()] or [self._counts["documents_in"]],
            bad_input=self._bad_input,
            repeated_lines=self._repeated,
            rules={} if self._rules is None else self._rules.finish(),
        )

    def _first_pieces(self, unit: int) -> Iterator[Chunk]:
        """Yield the pieces at the beginning of a later unit, which begins inside a document."""
        # A cut is found within a few words; but repeated lines are numbered in usual chunks.
        plan = self._plan if self._lines else replace(self._plan, chunk_bytes=SEAM_BYTES)
        return (chunk for chunk in text_of(plan, unit, self._lines) if chunk.texts)

    def _count(self, chunk: Chunk) -> None:
        self._counts.update(
            bytes_in=chunk.bytes_in,
            characters=chunk.characters,
            replaced=chunk.replaced,
            lines_dropped=chunk.dropped_lines,
            documents_in=sum(chunk.dropped.values()),
        )
        self._encoder.dropped.update(chunk.dropped)
        # Lines are counted from the beginning of the unit, or of their file.
        before = 0 if chunk.by_source else self._counts["lines"]
        for place in chunk.places[: MOST_PLACES - len(self._bad_input)]:
            number = place.number + (before if place.kind == "line" else 0)
            self._bad_input.append(replace(place, number=number))
        self._repeated += chunk.repeated[: EXAMPLES - len(self._repeated)]
        self._counts["lines"] += chunk.lines
        self._by_source.update(chunk.by_source)
        if chunk.numbers is not None:
            if self._rules is None:
                from tokenmill.preparation.stages.removals import RulesRecord

                self._rules = RulesRecord(self._plan, self._encoder.unit, self._encoder.task)
            self._rules.add(chunk)

    def _add_documents(self, chunk: Chunk) -> None:
        is_empty = np.array(list(map(self._encoder.is_empty, chunk.texts)), np.bool_)
        full = list(compress(chunk.texts, ~is_empty)) if is_empty.any() else chunk.texts
        facts = chunk.kept and self._known(chunk.kept).chosen(~is_empty)
        for number in np.flatnonzero(is_empty).tolist():
            reason = self._encoder.drop_empty(had_text=number in chunk.shortened)
            if self._rules is not None:
                self._rules.leave_out(chunk.numbers[number], reason)
        if self._rules is not None:
            self._rules.keep(chunk.numbers[~is_empty])
        if not full:
            return
        values = NO_COLUMNS
        if self._conversations is not None:
            ids, ends, targets = self._conversations.encode(full)
            values = {"loss": targets}
        else:
            ids, ends = self._encoder.encode(full)
        if self._is_compared:
            self._encoder.check_same_text(full, ids, ends)
        if self._writer is None:
            self._writer = PartWriter(self._plan, next(self._encoder.names), self._encoder.task)
        self._writer.add(ids, ends, values, facts)
        if self._writer.num_tokens >= TOKENS_PER_FILE:
            self._close_part()

    def _known(self, facts: "KeptFacts") -> "KeptFacts":
        """Facts whose sources are those of the plan, not those of the unit."""
        return facts.of_source(self._plan.units[self._encoder.unit].source)

    def _close_part(self) -> None:
        if self._writer is not None:
            self._parts.append(self._writer.finish())
            self._writer = None


class TextEncoder:
    """Encodes texts of a unit, and counts what the accounts must know of them."""

    def __init__(self, plan: Plan, unit: int, task: ExitStack) -> None:
        self.plan = plan
        self.unit = unit
        self.task = task
        self.names = (f"{unit}.{number}" for number in count())
        self.tokenizer: Tokenizer = plan.tokenizer
        self.begin_token_id = plan.begin_token_id
        specials = self.tokenizer.special_ids.items()
        spelt = [text for text, number in specials if number == self.begin_token_id]
        self.begin_token = spelt[0].encode() if spelt else b""
        self.settings = plan.settings
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def encode(self, texts: list[bytes], *, begin: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Return ids of the vocabulary, and where each text ends; documents `begin` with them."""
        ids, ends = self.tokenizer.encode_batch(texts)
        if self.begin_token_id is not None:
            self._refuse_doubled_begin(texts if begin else [], ids)
        largest = int(ids.max(initial=0))
        if largest >= self.tokenizer.vocab_size:
            raise PrepareError(
                f"token id {largest} is beyond the vocabulary of {self.tokenizer.name} "
                f"({self.tokenizer.vocab_size:,} ids)",
                hint="the tokenizer file contradicts itself; check where it comes from",
            )
        self.counts.update(count_literals(self.tokenizer, texts))
        return ids, ends

    def check_same_text(self, texts: Sequence[bytes], ids: np.ndarray, ends: np.ndarray) -> None:
        """Refuse ids that decode to other texts; add up the hashes of the texts."""
        for text, decoded in zip(texts, self.tokenizer.decode_batch(ids, ends), strict=True):
            if text != decoded:
                same = len(os.path.commonprefix([text, decoded]))  # noqa: RUF071
                shown = slice(max(0, same - 20), same + 20)
                raise PrepareError(
                    f"{self.tokenizer.name} does not give back the text of a document: "
                    f"{text[shown]!r} became {decoded[shown]!r}",
                    hint="that tokenizer changes texts (its normalizer, or characters it does not "
                    "know); prepare the text itself with it",
                )
        hashes = map(xxhash.xxh3_64_intdigest, texts)
        self.counts["text_hash"] = (self.counts["text_hash"] + sum(hashes)) % (1 << 64)

    def _refuse_doubled_begin(self, texts: list[bytes], ids: np.ndarray) -> None:
        """No document may begin with the begin token twice, as an id or spelled out."""
        if (ids == self.begin_token_id).any():
            raise PrepareError(
                f"the tokenizer {self.tokenizer.name} gives the begin token (id "
                f"{self.begin_token_id}) for text as well: it would be doubled",
                hint="name a token that no text becomes, or leave begin_token out",
            )
        if not self.begin_token:
            return
        num_spelled = sum(text.startswith(self.begin_token) for text in texts)
        if num_spelled and self.settings.on_bad_input == "error":
            raise BadInputError(
                f"a document begins with {self.begin_token.decode()!r} spelled out, and "
                "begin_token writes that token before every document: it would be doubled",
                hint="leave begin_token out, remove it from the text, or keep it as text after "
                'the token: on_bad_input="replace"',
            )
        self.counts["literal_begin_token"] += num_spelled

    def is_empty(self, text: bytes) -> bool:
        return not text or (self.settings.clean and text.isspace())

    def drop_empty(self, *, had_text: bool) -> str:
        """Count an empty document; `had_text`: it had text before repeated lines were dropped."""
        reason = ONLY_REPEATED_LINES if had_text else EMPTY
        self.dropped[reason] += 1
        return reason


def _conversation_encoder(plan: Plan) -> "ConversationEncoder":
    from tokenmill.preparation.stages.conversations import ConversationEncoder

    return ConversationEncoder(plan.tokenizer)


@read_once(PARTS_FILE)
def load_parts(_: Workspace, data: bytes) -> list[Part]:
    """All parts of a preparation in input order, by the place of its work."""
    return [Part.from_json(part) for part in orjson.loads(data)]


def join_units(out_dir: str, _number: int = 0) -> Receipt:
    """Task: leave the list of all parts. One task, since a document may run through all units."""
    plan = load_plan(out_dir)
    parts = list(join_stretches(plan, encoded_units(plan)))
    plan.workspace.keep(PARTS_FILE, orjson.dumps(parts))
    tables = [f"../{FOLDER}/{part.name}.rows" for part in parts if _is_joined(part)]
    return plan.workspace.leave_receipt("joined", "0", [f"../{PARTS_FILE}", *tables], {})


def join_stretches(plan: Plan, units: Iterable[EncodedUnit]) -> Iterator[Part]:
    """The parts of all units in order; a stretch that ends no document goes to the next one."""
    files: tuple[TokenFile, ...] = ()
    for unit in units:
        for stretch in unit.parts:
            files += stretch.files
            if not stretch.num_documents:
                continue
            part = Part(files, stretch.num_documents)
            files = ()
            if _is_joined(part):
                from tokenmill.preparation.stages.long_documents import write_row

                write_row(plan, part)
            yield part
    assert not files, "the last unit leaves no document open"


def _is_joined(part: Part) -> bool:
    return part.files[0].unit != part.files[-1].unit
