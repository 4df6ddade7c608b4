"""What a check is given, tokens spread over a split, and what it reports, a trap.

All tokens of a small split are looked at, evenly spaced blocks of a large one. The places depend on
the data alone, so the same dataset gets the same answer every time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tokenmill.dataset import TokenDataset

BLOCK_TOKENS = 1 << 16
BUDGET = 16 << 20  # tokens of a split that are looked at: 32 MB of uint16
MAX_SHARDS = 1000


def spread(count: int, total: int) -> list[int]:
    """At most `count` numbers of range(total), evenly spaced.

    >>> spread(3, 101), spread(3, 2), spread(3, 0)
    ([0, 50, 100], [0, 1], [])
    """
    numbers: list[int] = np.linspace(0, total - 1, min(count, total)).astype(np.int64).tolist()
    return numbers


def spread_ranges(count: int, length: int, start: int, stop: int) -> list[tuple[int, int]]:
    """At most `count` evenly spaced ranges of `length` tokens between start and stop."""
    places = spread(count, max(1, stop - start - length + 1))
    return [(start + place, min(start + place + length, stop)) for place in places]


def ranges_within(budget: int, length: int, start: int, stop: int) -> list[tuple[int, int]]:
    """All as one range, or evenly spaced ones of `length` tokens where that is over the budget."""
    if stop - start <= budget:
        return [(start, stop)]
    return spread_ranges(max(1, budget // length), length, start, stop)


def text_size(data: TokenDataset, ranges: list[tuple[int, int]], tokenizer: Any) -> tuple[int, int]:
    """(bytes of text, tokens) of some ranges, without begin tokens and end-of-text ids."""
    num_bytes = num_tokens = 0
    for start, stop in ranges:
        ids = data.tokens(start, stop)
        ids = ids[(ids != tokenizer.end_of_text_id) & (ids != data.begin_token_id)]
        num_bytes += len(tokenizer.decode(ids))
        num_tokens += len(ids)
    return num_bytes, num_tokens


@dataclass(frozen=True)
class Trap:
    """A fault that a check found: its name, place, evidence and fix."""

    name: str
    where: str
    """A file, or a split."""
    evidence: str
    fix: str
    is_fault: bool = True
    """False for a note: worth knowing, but perhaps not wrong."""

    def __str__(self) -> str:
        kind = "FAULT" if self.is_fault else "note "
        return f"{kind}  {self.name}  {self.where}\n       {self.evidence}\n       fix: {self.fix}"


@dataclass(frozen=True)
class SplitSample:
    """One split, and the tokens of it that are looked at."""

    data: TokenDataset
    split: str
    budget: int = BUDGET
    first: TokenDataset | None = None
    """The first split of the dataset: its tokenizer is loaded once and used for all."""

    @property
    def tokenizer(self) -> Any:
        return (self.first or self.data).tokenizer

    @cached_property
    def blocks(self) -> list[tuple[int, np.ndarray]]:
        """(position of the first, neighbouring tokens)."""
        return [
            (at, self.data.tokens(at, min(at + BLOCK_TOKENS, stop)))
            for start, stop in ranges_within(self.budget, BLOCK_TOKENS, 0, self.data.num_tokens)
            for at in range(start, stop, BLOCK_TOKENS)
        ]

    @cached_property
    def ids(self) -> np.ndarray:
        """The sample as one array; places where two blocks meet are not neighbours."""
        return np.concatenate([np.empty(0, self.data.dtype), *(ids for _, ids in self.blocks)])

    def shards(self) -> list[int]:
        """Numbers of the shards to look at one by one: all, or evenly spaced ones."""
        return spread(MAX_SHARDS, len(self.data.shards))

    def documents(self, count: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
        """(start, stop) of whole documents spread over the split; none if they are not known.

        Found from positions, so that the documents of a split without an index need no counting.
        """
        if not self.data.knows_documents:
            return
        done = -1
        total = self.data.num_tokens
        for position in spread(count, max(1, total)):
            position = max(position, done)
            ends = self.data.document_ends(position, min(position + BLOCK_TOKENS, total))
            if position == 0:
                ends = np.concatenate([[0], ends])
            if len(ends) >= 2 and ends[0] >= done and ends[1] - ends[0] >= least:
                yield int(ends[0]), int(ends[1])
                done = int(ends[1])


def entropy(counts: np.ndarray) -> float:
    """Bits per value, of values that occur this often."""
    shares = counts[counts > 0] / max(1, counts.sum())
    return float(-(shares * np.log2(shares)).sum()) + 0.0


def percent(part: int, whole: int) -> str:
    """A share with two digits: "12 %", "0.5 %"."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
