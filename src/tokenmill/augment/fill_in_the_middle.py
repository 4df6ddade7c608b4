"""FillInTheMiddle: documents become prefix, suffix and middle, in an order that hides the middle.

A model that reads from left to right learns this way to write what is missing between two texts
(Bavarian et al., 2022). A document of the row, without the special ids at its two ends, is n tokens
long. Its last three give way to the three sentinels, so it stays n tokens long and the row as it
was: what is left is m = n - 3 tokens. Two cuts a <= b are drawn, each uniformly from 0 .. m, and

    PSM    <PRE> text[:a] <SUF> text[b:m] <MID> text[a:b]
    SPM    <PRE> <SUF> text[b:m] <MID> text[:b]

The second with the chance `spm_rate`. Both say the same when read back: what comes after <MID>, and
the prefix before it, are put before the suffix. Parts may be empty.

Left as they are: documents of fewer than 4 tokens, and those with a special id inside. Where a row
cuts a document, the piece in the row counts as a document. Tokens are cut, not characters.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tokenmill.augment.augmentation import TEXT, OfFields, Rows, check_rate, places_of
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, below, high, is_below

NUM_SENTINELS = 3
# How published tokenizers write the sentinels: prefix, middle, suffix.
SENTINELS = (
    ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "\u2581<PRE>", "<PRE>", "[PREFIX]"),
    ("<|fim_middle|>", "<fim_middle>", "<fim-middle>", "\u2581<MID>", "<MID>", "[MIDDLE]"),
    ("<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "\u2581<SUF>", "<SUF>", "[SUFFIX]"),
)
_APPLY, _KIND, _FIRST_CUT, _SECOND_CUT = range(4)  # what is drawn for a document


@dataclass(frozen=True)
class FillInTheMiddle(OfFields):
    """Each document of a row, with the chance `rate`, as prefix, suffix and middle.

    `spm_rate` of these have the suffix first. The sentinel ids are those of the tokenizer unless
    they are given. The data must know its documents; rows keep their length: the last three tokens
    of a document (before its end-of-text id) give way to the sentinels.
    """

    rate: float = 0.5
    spm_rate: float = 0.5
    prefix_id: int | None = None
    middle_id: int | None = None
    suffix_id: int | None = None

    name: ClassVar[str] = "FillInTheMiddle"
    version: ClassVar[int] = 1
    stage: ClassVar[int] = TEXT
    needs_documents: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_rate("rate of FillInTheMiddle", self.rate)
        check_rate("spm_rate of FillInTheMiddle", self.spm_rate)

    def bound(self, ids: KnownIds) -> Self:
        names = ("prefix_id", "middle_id", "suffix_id")
        given = (self.prefix_id, self.middle_id, self.suffix_id)
        flag = ", or with tokenmill train --fim_ids"
        asked = zip(names, given, SENTINELS, strict=True)
        found = {name: ids.find(name, id, spelt, flag) for name, id, spelt in asked}
        if len(set(found.values())) < NUM_SENTINELS:
            raise ValueError(f"the sentinels of FillInTheMiddle must be three ids, not {found}")
        return replace(self, **found)

    def added_ids(self) -> tuple[int, ...]:
        return tuple(self._sentinels())

    def _sentinels(self) -> list[int]:
        return [id for id in (self.prefix_id, self.suffix_id, self.middle_id) if id is not None]

    def apply(self, rows: Rows, random: RowRandom) -> None:
        starts, stops = _texts(rows)
        row, column = np.divmod(starts, rows.tokens.shape[1])
        apply = is_below(high(random.bits(row, column, _APPLY)), self.rate)
        starts, stops, row, column = starts[apply], stops[apply], row[apply], column[apply]
        if not len(starts):
            return
        length = stops - starts - NUM_SENTINELS
        cuts = [below(random.bits(row, column, d), length + 1) for d in (_FIRST_CUT, _SECOND_CUT)]
        is_spm = is_below(high(random.bits(row, column, _KIND)), self.spm_rate)
        pieces = Pieces(starts, length, np.minimum(*cuts), np.maximum(*cuts), is_spm)
        source, sentinels = pieces.rearranged(rows.tokens.size)
        rows.tokens = rows.tokens.reshape(-1).take(source).reshape(rows.tokens.shape)
        rows.tokens.reshape(-1)[sentinels] = np.array(self._sentinels())[:, None]
        rows.move_banned(source)


@dataclass(frozen=True)
class Pieces:
    """Where texts begin in the flat rows, how much of each is kept, and where they are cut."""

    starts: np.ndarray
    lengths: np.ndarray
    first_cuts: np.ndarray
    second_cuts: np.ndarray
    is_spm: np.ndarray

    def rearranged(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Every text as <PRE> a <SUF> b <MID> c: where each of so many tokens comes from.

        Then the places of the sentinels, (3, texts).
        """
        # In an SPM text a is empty, and c is the prefix with the middle.
        len_a = np.where(self.is_spm, 0, self.first_cuts)
        len_b = self.lengths - self.second_cuts
        len_c = self.second_cuts - len_a
        place_a = self.starts + 1
        place_b = place_a + len_a + 1
        place_c = place_b + len_b + 1
        # Runs of tokens that move together: what is before a text, then sentinel and piece in turn.
        one = np.ones_like(self.starts)
        stops = place_c + len_c
        before = self.starts - np.concatenate(([0], stops[:-1]))
        runs = np.stack([before, one, len_a, one, len_b, one, len_c], axis=1)
        shifts = np.zeros_like(runs)  # where a run comes from, relative to where it goes
        shifts[:, 2] = -1
        shifts[:, 4] = self.starts + self.second_cuts - place_b
        shifts[:, 6] = self.starts + len_a - place_c
        rest = size - stops[-1]
        source = np.repeat(np.append(shifts, 0), np.append(runs, rest))
        source += places_of(size)
        return source, np.stack([place_a, place_b, place_c]) - 1


def _texts(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Where the texts that may be rearranged begin and stop, in the flat rows.

    A text is a document without an end-of-text id and a begin token at its start, and without a
    special id at its end; it has none inside, and room for the sentinels and a token.
    """
    segments = rows.segments
    assert segments is not None
    begins = np.ones(rows.tokens.size + 1, bool)
    of_rows = begins[:-1].reshape(rows.tokens.shape)
    np.not_equal(segments[:, 1:], segments[:, :-1], out=of_rows[:, 1:])
    edges = begins.nonzero()[0]
    starts, stops = edges[:-1], edges[1:]
    documents = segments.reshape(-1)[starts] >= 0
    starts, stops = starts[documents], stops[documents]

    special = np.append(rows.fixed.reshape(-1), False)
    for _ in range(2):
        starts = starts + (special[starts] & (starts < stops))
    stops = stops - (special[stops - 1] & (starts < stops))
    places = special.nonzero()[0]
    inside = np.searchsorted(places, stops) - np.searchsorted(places, starts)
    usable = (inside == 0) & (stops - starts > NUM_SENTINELS)
    return starts[usable], stops[usable]
