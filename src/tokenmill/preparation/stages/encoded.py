"""Texts become ids (`TextEncoder`), and are written to parts, on their way to a shard.

A part holds ids and a table of its documents:

    N.M.tokens   ids in the width of the dataset, each document followed by the end-of-text id, and
                 preceded by the begin token, if one is asked for
    N.M.rows     a row a document: how many ids, and the hash of its own ids, without these two

A document has one row in a part, however many pieces it was encoded in. One that is longer than a
part has a row in several: they are marked OPEN (the document continues in a later part) and
CONTINUES (it began in an earlier one), and carry no hash.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any, Literal, Self

import numpy as np
import xxhash

from tokenmill import kernel
from tokenmill.base.atomic import new_file
from tokenmill.errors import BadInputError, PrepareError
from tokenmill.preparation.plan import Plan
from tokenmill.text.cleaning.clean import join_edge
from tokenmill.text.cleaning.dedup import HASH, hash_all
from tokenmill.text.reading.bad_input import EMPTY, ONLY_REPEATED_LINES
from tokenmill.text.reading.document_rules import CUT_TEXT_FILES
from tokenmill.tokens.tokenizer import Tokenizer

CONTINUES, OPEN = 1, 2
EDGE_LIMIT = 256 << 20  # bytes held in search of a place to cut
ROW = np.dtype([("length", "<u4"), ("flags", "<u4"), ("hash", HASH)])


@dataclass
class OpenDocument:
    """The document at the end of what was read so far, when its end is still to come."""

    pending: bytes = b""
    """Text after the last place to cut: not encoded yet."""
    has_rows: bool = False
    """Whether some of it was encoded already (here or, for a head, in an earlier unit)."""
    before: bytes = b""
    """The last bytes that were encoded: what cleaning must see of them."""
    had_text: bool = False
    """Whether it had any text before repeated lines were dropped."""


class TextEncoder:
    """Encodes texts of a plan, and counts what the accounts must know of them."""

    def __init__(self, plan: Plan) -> None:
        self.tokenizer: Tokenizer = plan.tokenizer
        self.begin_token_id = plan.begin_token_id
        self.begin_token = _spelling(self.tokenizer, self.begin_token_id)
        self.normalize = plan.settings.clean
        self.refuses = plan.settings.on_bad_input == "error"
        self.counts: Counter[str] = Counter()
        self.dropped: Counter[str] = Counter()

    def encode(self, texts: list[bytes], flags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ids and ends; every id is sure to be one of the vocabulary: nothing ever wraps."""
        ids, ends = self.tokenizer.encode_batch(texts)
        if self.begin_token_id is not None:
            self._refuse_doubled_begin(texts, flags, ids)
        largest = int(ids.max(initial=0))
        if largest >= self.tokenizer.vocab_size:
            raise PrepareError(
                f"token id {largest} is beyond the vocabulary of {self.tokenizer.name} "
                f"({self.tokenizer.vocab_size:,} ids)",
                hint="the tokenizer file contradicts itself; check where it comes from",
            )
        if self.tokenizer.end_of_text:
            literal = self.tokenizer.end_of_text.encode()
            # One byte is looked for first: most texts do not have it, and that is soon known.
            found = sum(text.count(literal) for text in texts if literal[:1] in text)
            self.counts["literal_end_of_text"] += found
        return ids, ends

    def check_same_text(self, texts: Sequence[bytes], ids: np.ndarray, ends: np.ndarray) -> None:
        """Refuse ids that decode to other texts; add up the hashes of the texts."""
        for text, decoded in zip(texts, self.tokenizer.decode_batch(ids, ends), strict=True):
            if text != decoded:
                raise PrepareError(
                    f"a document is not the same text after {self.tokenizer.name}: "
                    f"{_difference(text, decoded)}",
                    hint="that tokenizer changes texts (its normalizer, or characters it does not "
                    "know); prepare the text itself with it",
                )
        hashes = map(xxhash.xxh3_64_intdigest, texts)
        self.counts["text_hash"] = (self.counts["text_hash"] + sum(hashes)) % (1 << 64)

    def _refuse_doubled_begin(self, texts: list[bytes], flags: np.ndarray, ids: np.ndarray) -> None:
        """No document may begin with the begin token twice, as an id or spelled out."""
        if (ids == self.begin_token_id).any():
            raise PrepareError(
                f"the tokenizer {self.tokenizer.name} gives the begin token (id "
                f"{self.begin_token_id}) for text by itself: it would be doubled",
                hint="name a token that no text becomes, or leave begin_token out",
            )
        if not self.begin_token:
            return
        begins = ((flags & CONTINUES) == 0).tolist()
        found = sum(text.startswith(self.begin_token) for text in compress(texts, begins))
        if found and self.refuses:
            raise BadInputError(
                f"a document begins with {self.begin_token.decode()!r} spelled out, and "
                "begin_token writes that token before every document: it would be doubled",
                hint="leave begin_token out, remove it from the text, or keep it as text after "
                'the token: on_bad_input="replace"',
            )
        self.counts["literal_begin_token"] += found

    def is_empty(self, text: bytes) -> bool:
        return not text or (self.normalize and text.isspace())

    def drop_empty(self, *, had_text: bool) -> None:
        """Count an empty document; `had_text` is whether it had text before lines were dropped."""
        self.dropped[ONLY_REPEATED_LINES if had_text else EMPTY] += 1

    def after(self, before: bytes, text: bytes) -> bytes:
        """The text as it is after `before` in one document."""
        return join_edge(before, text) if self.normalize else text

    def check_edge(self, text: bytes) -> None:
        """Refuse to hold ever more text in which no place to cut is found."""
        if len(text) > EDGE_LIMIT:
            raise PrepareError(
                f"no place to cut in {len(text):,} bytes of one document: "
                f"the tokenizer {self.tokenizer.name} allows none",
                hint=f"cut the file into documents: {CUT_TEXT_FILES}, or separator=",
            )

    def append(self, document: OpenDocument, text: bytes) -> bytes:
        """The text of the document that is not encoded yet, with what comes next."""
        return document.pending + self.after(document.before + document.pending, text)


class PartWriter:
    """Writes one part; the caller leaves the receipt."""

    def __init__(self, plan: Plan, name: str) -> None:
        self.name, self.dtype = name, plan.dtype
        self.end_of_text = plan.tokenizer.end_of_text_id
        self.begin_token = plan.begin_token_id
        self.num_tokens = self.num_rows = 0
        self.continues = self.open = False
        self._row: np.ndarray | None = None
        """The row of the document at the end of what was added, while it is open."""
        self._ids = xxhash.xxh3_128()
        """The ids of that document."""
        self._files = ExitStack()
        self._tokens, self._rows = (
            self._files.enter_context(new_file(plan.workspace.path("units", f"{name}.{kind}")))
            for kind in ("tokens", "rows")
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._row is not None and error[0] is None:
            self.open = True
            self._write(self._row)
        self._files.__exit__(*error)

    def add(self, ids: np.ndarray, ends: np.ndarray, flags: np.ndarray, *, hashed: bool) -> None:
        """Append texts encoded one after another; `ends` says where each ends in `ids`."""
        if not len(ends):
            return
        rows = np.zeros(len(ends), ROW)
        rows["flags"] = flags
        complete = (flags & OPEN) == 0
        begins = (flags & CONTINUES) == 0 if self.begin_token is not None else np.zeros(1, bool)
        rows["length"] = np.diff(ends, prepend=0) + complete + begins
        if hashed:
            _hash_rows(rows, ids, ends, flags == 0)
        out = with_ends(ids, ends, complete, self.end_of_text, self.dtype)
        if self.begin_token is not None:
            stops = ends + np.cumsum(complete)
            starts = np.concatenate(([0], stops[:-1]))
            out = np.insert(out, starts[begins], self.begin_token)
        self._tokens.write(out.data)
        self.num_tokens += len(out)
        if self._row is not None:
            self._continue(self._row, rows, ids[: ends[0]])
        if not complete[-1]:
            if self._row is None:
                self._ids.reset()
            self._ids.update(_as_uint32(ids[ends[-2] if len(ends) > 1 else 0 :]))
            self._row, rows = rows[-1:], rows[:-1]
        self._write(rows)

    def _continue(self, row: np.ndarray, rows: np.ndarray, ids: np.ndarray) -> None:
        """The first of these rows continues the document that was open: make them one."""
        assert rows["flags"][0] & CONTINUES
        rows["length"][0] += row["length"][0]
        rows["flags"][0] = (row["flags"][0] & CONTINUES) | (rows["flags"][0] & OPEN)
        if rows["flags"][0] & OPEN:
            return
        self._ids.update(_as_uint32(ids))
        if not rows["flags"][0]:
            rows["hash"][0] = np.frombuffer(self._ids.digest(), HASH)[0]
        self._row = None

    def _write(self, rows: np.ndarray) -> None:
        if len(rows) and not self.num_rows:
            self.continues = bool(rows["flags"][0] & CONTINUES)
        self._rows.write(rows.data)
        self.num_rows += len(rows)

    def facts(self) -> dict[str, Any]:
        counts = {"tokens": self.num_tokens, "rows": self.num_rows}
        return {"name": self.name, **counts, "continues": self.continues, "open": self.open}


def split_of(plan: Plan, part: dict[str, Any]) -> str | None:
    """The validation set that the file of a part is held out for; None for all other files."""
    unit = plan.units[int(part["name"].partition(".")[0])]
    return plan.sources[unit.source].split


def read_part(plan: Plan, part: dict[str, Any], kind: Literal["tokens", "rows"]) -> np.ndarray:
    """The ids of a part, or the table of its documents, mapped."""
    dtype = plan.dtype if kind == "tokens" else ROW
    if not part[kind]:
        return np.empty(0, dtype)
    path = plan.workspace.path("units", f"{part['name']}.{kind}")
    return np.memmap(path, dtype, mode="r", shape=(part[kind],))


def with_ends(
    ids: np.ndarray, ends: np.ndarray, complete: np.ndarray, end_of_text: int, dtype: np.dtype[Any]
) -> np.ndarray:
    """The ids of texts in this dtype, with the end-of-text id after those that are complete."""
    if kernel.compiled is not None and ids.dtype == np.uint32:
        out = np.empty(len(ids) + np.count_nonzero(complete), dtype)
        kernel.compiled.with_ends(out, dtype.itemsize, ids, ends, complete, end_of_text)
        return out
    return np.insert(ids.astype(dtype), ends[complete], end_of_text)


def _spelling(tokenizer: Tokenizer, number: int | None) -> bytes:
    """How a special id is written; empty where it has no spelling."""
    found = [text for text, special in tokenizer.special_ids.items() if special == number]
    return found[0].encode() if found else b""


def _as_uint32(ids: np.ndarray) -> memoryview:
    """The bytes that are hashed: the same whatever the width of the dataset."""
    return np.ascontiguousarray(ids, "<u4").data.cast("B") if len(ids) else memoryview(b"")


def _hash_rows(rows: np.ndarray, ids: np.ndarray, ends: np.ndarray, which: np.ndarray) -> None:
    """Hash the ids (as uint32, without end-of-text) of whole documents."""
    view = _as_uint32(ids)
    places = pairwise([0, *(4 * ends).tolist()])
    slices = [view[start:stop] for start, stop in compress(places, which.tolist())]
    rows["hash"][which] = hash_all(slices)


def _difference(before: bytes, after: bytes) -> str:
    """Both texts, from a little before the first byte that differs."""
    pairs = enumerate(zip(before, after, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(before), len(after)))
    shown = slice(max(0, same - 20), same + 20)
    return f"{before[shown]!r} became {after[shown]!r}"
