"""What a rule is: a pure function of a batch of documents that says which of them stay.

**A filter** is a frozen dataclass with a name; its fields are its thresholds, by default those of
the paper. `--filter_config` sets them, and the manifest states all of them:

    @dataclass(frozen=True)
    class Length(Rule):
        name = "length"
        reasons = ("too short",)
        min_characters: int = 200

        def apply(self, batch: Batch) -> Verdict:
            sizes = batch.num_characters
            return Verdict.first_of(batch, [(sizes < self.min_characters, sizes)])

and one line in `FILTERS`. `apply` looks at all documents together (NumPy, the kernel): a Python
loop over documents is slow, one over words is a mistake. What several filters need (words, lines)
is computed once and kept in `batch.shared`, by whatever name they agree on: a batch is the same for
all filters until one of them changes a text. The first rule that drops a document gives the reason;
`first_of` is the same inside a rule. In the accounts it is `NAME: REASON`, so a reason is a few
words without numbers; the value that was found (a length, a share) is kept beside it.

A rule that changes texts (C4 takes lines out) gives the new ones in `Verdict.texts`, and counts
what it did to each in `Verdict.counts`. One that needs more than the text (a path, a licence) names
the fields in `needs`, and finds them in `batch.fields`.

A stage that must see all documents first (near-duplicates, test items) leaves rows of `REMOVED` for
each unit; `preparation/stages/removals.py` says how.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from tokenmill.base.suggest import one_of

FILTERS = {
    "length": "length.Length",
    "code": "code.Code",
    "gopher_quality": "gopher_quality.GopherQuality",
    "gopher_repetition": "gopher_repetition.GopherRepetition",
    "c4": "c4.C4",
    "fineweb": "fineweb.Fineweb",
}
"""The filters by name: module and class in this room."""
REMOVED = np.dtype(
    [
        ("number", "<u4"),  # of the document in its unit, among all that were read from it
        ("reason", "<u2"),  # in a list of reasons that is kept beside the rows
        ("value", "<f8"),  # what the rule found; NaN where there is no number to show
        ("kept_in", "<i4"),  # NOTHING; or the unit of the document that was kept instead; or for
        ("kept", "<u4"),  # one of the dataset added to: `in_shard(its shard)`; and its number
    ]
)
NOTHING = -1
KEPT = 0


def in_shard(shard: int) -> int:
    """Return `kept_in` for a document that ends in this shard of the dataset that is added to."""
    return -2 - shard


@dataclass(frozen=True)
class Batch:
    """Some documents in one buffer."""

    whole: bytes
    """The texts, UTF-8, with a newline after each."""
    ends: np.ndarray
    """(documents,) int64: where each text ends in it, before that newline."""
    fields: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Facts of the documents, by name: a list of one value per document."""
    shared: dict[str, Any] = field(default_factory=dict)
    """What one rule has computed and others need, too."""

    @classmethod
    def of(cls, texts: list[bytes], fields: Mapping[str, Sequence[Any]] | None = None) -> "Batch":
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        batch = cls(b"\n".join([*texts, b""]), np.cumsum(sizes + 1) - 1, fields or {})
        batch.__dict__["texts"] = texts  # as they are: not cut out again
        return batch

    def with_texts(self, new: Mapping[int, bytes]) -> "Batch":
        """Return the same documents, some of them with another text."""
        if not new:
            return self
        texts = [new.get(number, text) for number, text in enumerate(self.texts)]
        batch = Batch.of(texts, self.fields)
        batch.is_left[:] = self.is_left
        return batch

    @cached_property
    def is_left(self) -> np.ndarray:
        """(documents,) uint8: 0 for those that a rule dropped; what others say of them is ignored,
        and need not be found out."""
        return np.ones(len(self), np.uint8)

    @property
    def size_left(self) -> tuple[int, int]:
        """Documents that are left, and bytes of their texts."""
        return int(self.is_left.sum()), int((self.ends - self.starts) @ self.is_left)

    def __len__(self) -> int:
        return len(self.ends)

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each text begins."""
        return np.append(0, self.ends + 1)[: len(self)]

    @cached_property
    def num_characters(self) -> np.ndarray:
        """Characters of each text."""
        sizes: np.ndarray = self.ends - self.starts
        if self.whole.isascii():
            return sizes
        return np.fromiter((len(text.decode()) for text in self.texts), np.int64, len(self))

    @property
    def strings(self) -> list[str]:
        return [text.decode() for text in self.texts]

    @cached_property
    def texts(self) -> list[bytes]:
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.whole[start:stop] for start, stop in bounds]


@dataclass(frozen=True)
class Verdict:
    """What a rule says about the documents of a batch."""

    reasons: np.ndarray
    """(documents,) uint16: KEPT, or one more than a position in the `reasons` of the rule."""
    values: np.ndarray
    """(documents,) float64: what was found where a document is dropped; elsewhere anything."""
    texts: Mapping[int, bytes] = field(default_factory=dict)
    """New texts by position in the batch, of documents that are kept and changed."""
    counts: Mapping[str, np.ndarray] = field(default_factory=dict)
    """What was changed, for the accounts: (documents,) numbers by what they count, such as
    {"lines without punctuation": [2, 0, 1]}."""
    facts: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Facts to be kept with the documents: a list of one value per document, dropped or not."""
    names: Sequence[str] | None = None
    """The reasons, where the rule does not know them before."""

    @classmethod
    def first_of(cls, batch: Batch, checks: Sequence[tuple[np.ndarray, np.ndarray]]) -> "Verdict":
        """Drop by the first check that a document fails; one check for each reason of the rule.

        A check is (documents,) bool, true where it is failed, and (documents,) the values found.
        """
        reasons = np.zeros(len(batch), np.uint16)
        values = np.full(len(batch), np.nan)
        for code, (fails, found) in enumerate(checks, 1):
            first = fails & (reasons == KEPT)
            reasons[first] = code
            values[first] = found[first]
        return cls(reasons, values)


class Rule:
    """Base of all rules; subclasses are frozen dataclasses of their thresholds."""

    name: ClassVar[str]
    reasons: Sequence[str] = ()
    """Why it drops documents; a function of a user gives its own."""
    needs: ClassVar[tuple[str, ...]] = ()
    """Fields of documents that it looks at, besides the text."""

    def apply(self, batch: Batch) -> Verdict:
        """Return what becomes of the documents: the same for the same batch, at any time, and for
        each document whatever others are in the batch."""
        raise NotImplementedError

    def names(self, verdict: Verdict) -> Sequence[str]:
        """Return what the numbers of reasons in a verdict stand for, from 1 on."""
        return self.reasons if verdict.names is None else verdict.names

    def check(self, batch: Batch) -> None:
        """Raise if the rule does not keep that promise for this batch, the first of a unit."""


def load_filter(name: str, thresholds: Mapping[str, Any]) -> Rule:
    """Return the filter of this name; thresholds that are not given are as in its paper."""
    one_of("filter", name, FILTERS)
    module, _, kind = FILTERS[name].rpartition(".")
    rule: type[Rule] = getattr(import_module(f"tokenmill.text.filters.{module}"), kind)
    usual = {field.name: field.default for field in fields(rule)}  # type: ignore[arg-type]
    for key, value in thresholds.items():
        one_of(f"threshold of the filter {name}", key, usual)
        if not _fits(value, usual[key]):
            raise ValueError(
                f"{key} of the filter {name} is {value!r}; expected is a value such as "
                f"{usual[key]!r}"
            )
    return rule(**{key: _as_written(value) for key, value in thresholds.items()})


def _fits(value: Any, usual: Any) -> bool:
    if isinstance(usual, bool) or isinstance(value, bool):
        return isinstance(usual, bool) and isinstance(value, bool)
    if isinstance(usual, float):
        return isinstance(value, int | float)
    if isinstance(usual, tuple):
        return isinstance(value, list | tuple)
    return value is None or usual is None or isinstance(value, type(usual))


def _as_written(value: Any) -> Any:
    return tuple(map(_as_written, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Removed:
    """Documents that were left out of a chunk, or of a unit."""

    rows: np.ndarray
    """(removed,) REMOVED."""
    reasons: tuple[str, ...]
    """What the numbers of reasons in the rows stand for: `RULE: reason`, or `RULE`."""

    def __add__(self, other: "Removed") -> "Removed":
        rows = other.rows.copy()
        known = {reason: code for code, reason in enumerate(self.reasons)}
        codes = [known.setdefault(reason, len(known)) for reason in other.reasons]
        rows["reason"] = np.array(codes, np.uint16)[rows["reason"]] if len(rows) else 0
        return Removed(np.concatenate((self.rows, rows)), tuple(known))

    def to_json(self) -> list[Any]:
        return [self.rows.tolist(), self.reasons]

    @classmethod
    def from_json(cls, value: list[Any]) -> "Removed":
        rows, reasons = value
        return cls(np.array(list(map(tuple, rows)), REMOVED), tuple(reasons))

    def counts(self) -> dict[str, int]:
        """Removed documents by reason."""
        counts = np.bincount(self.rows["reason"], minlength=len(self.reasons)).tolist()
        return {name: n for name, n in zip(self.reasons, counts, strict=True) if n}


NONE_REMOVED = Removed(np.empty(0, REMOVED), ())
