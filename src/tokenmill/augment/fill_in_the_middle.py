"""FillInTheMiddle: documents become prefix, suffix and middle, in an order that hides the middle.

A model that reads from left to right learns this way to write what is missing between two texts
(Bavarian et al., 2022). augmentation.md says which cuts are drawn and what is left as it is.
"""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tokenmill.augment.augmentation import FILL_IN_THE_MIDDLE, TEXT, Augmentation, Rows, check_rate
from tokenmill.augment.known_ids import KnownIds
from tokenmill.augment.row_random import RowRandom, below, chance_of, high, is_below

NUM_SENTINELS = 3
# How published tokenizers write the sentinels: prefix, middle, suffix.
SENTINELS = (
    ("<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "\u2581<PRE>", "<PRE>", "[PREFIX]"),
    ("<|fim_middle|>", "<fim_middle>", "<fim-middle>", "\u2581<MID>", "<MID>", "[MIDDLE]"),
    ("<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "\u2581<SUF>", "<SUF>", "[SUFFIX]"),
)
_APPLY, _KIND, _FIRST_CUT, _SECOND_CUT = range(4)  # what is drawn for a document


@dataclass(frozen=True)
class FillInTheMiddle(Augmentation):
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
        sentinels = (self.prefix_id, self.suffix_id, self.middle_id)
        return tuple(id for id in sentinels if id is not None)

    def step(self, ids: KnownIds) -> tuple[int, ...]:
        chances = (chance_of(self.rate), chance_of(self.spm_rate))
        return FILL_IN_THE_MIDDLE, *chances, *self.added_ids()

    def apply(self, rows: Rows, random: RowRandom) -> None:
        starts, stops = _texts(rows)  # (texts,) each, in the flat rows
        row, column = np.divmod(starts, rows.tokens.shape[1])
        limits = stops - starts - NUM_SENTINELS + 1
        is_chosen = is_below(high(random.bits(row, column, _APPLY)), self.rate)
        is_spm = is_below(high(random.bits(row, column, _KIND)), self.spm_rate)
        cuts = [below(random.bits(row, column, d), limits) for d in (_FIRST_CUT, _SECOND_CUT)]
        texts = zip(starts, stops, np.minimum(*cuts), np.maximum(*cuts), is_spm, strict=True)
        for start, stop, first, second, spm in itertools.compress(texts, is_chosen):
            prefix = 0 if spm else first
            order, sentinels = _rearranged(stop - start, prefix, second)
            text = rows.tokens.reshape(-1)[start:stop]
            text[:] = text[order]
            text[sentinels] = self.added_ids()
            if rows.banned is not None:
                flags = rows.banned.reshape(-1)[start:stop]
                flags[:] = flags[order]


def _rearranged(size: int, prefix: int, second_cut: int) -> tuple[np.ndarray, np.ndarray]:
    """A text of `size` tokens as <PRE> a <SUF> b <MID> c: where each token comes from.

    a is text[:prefix], b what is kept after the second cut, c what is between. Then the places of
    the three sentinels, each of which comes from itself.
    """
    kept = np.arange(size - NUM_SENTINELS)
    parts = [kept[:prefix], kept[second_cut:], kept[prefix:second_cut]]
    sizes = [1 + len(part) for part in parts]
    sentinels = np.cumsum([0, *sizes[:-1]])
    order = np.concatenate([np.append(at, part) for at, part in zip(sentinels, parts, strict=True)])
    return order, sentinels


def _texts(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Where the texts that may be rearranged begin and stop, in the flat rows.

    A text is a document without an end-of-text id and a begin token at its start, and without a
    special id at its end; it has none inside, and room for the sentinels and a token.
    """
    segments = rows.segments
    assert segments is not None
    begins = np.flatnonzero(np.diff(segments, axis=1, prepend=-2))
    stops = np.append(begins[1:], segments.size)
    is_document = segments.reshape(-1)[begins] >= 0
    starts = begins[is_document]
    stops = stops[is_document]

    special = np.append(rows.fixed.reshape(-1), False)
    for _ in range(2):
        starts = starts + (special[starts] & (starts < stops))
    stops = stops - (special[stops - 1] & (starts < stops))
    before = np.append(0, np.cumsum(special))  # special tokens before each place
    usable = (before[stops] == before[starts]) & (stops - starts > NUM_SENTINELS)
    return starts[usable], stops[usable]
