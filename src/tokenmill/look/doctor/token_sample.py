"""Tokens spread over a split: all of a small one, evenly spaced blocks of a large one.

The places depend on the data alone, so the same dataset gets the same answer every time.
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


@dataclass(frozen=True)
class Block:
    """Neighbouring tokens."""

    start: int
    ids: np.ndarray


class SplitSample:
    """One split, and the tokens of it that are looked at."""

    def __init__(
        self,
        data: TokenDataset,
        split: str,
        budget: int = BUDGET,
        *,
        first: TokenDataset | None = None,
    ) -> None:
        self.data = data
        self.split = split
        self.budget = max(budget, BLOCK_TOKENS)
        # The first split of the dataset: its tokenizer is loaded once and used for all.
        self._first = data if first is None else first

    @property
    def tokenizer(self) -> Any:
        return self._first.tokenizer

    @cached_property
    def blocks(self) -> list[Block]:
        num_tokens = self.data.num_tokens
        if num_tokens <= self.budget:
            starts = np.arange(0, num_tokens, BLOCK_TOKENS)
        else:
            count = self.budget // BLOCK_TOKENS
            starts = np.linspace(0, num_tokens - BLOCK_TOKENS, count).astype(np.int64)
        return [self._block(start) for start in starts.tolist()]

    def _block(self, start: int) -> Block:
        return Block(
            start, self.data.tokens(start, min(start + BLOCK_TOKENS, self.data.num_tokens))
        )

    @cached_property
    def ids(self) -> np.ndarray:
        """The sample as one array; places where two blocks meet are not neighbours."""
        if not self.blocks:
            return np.empty(0, self.data.dtype)
        return np.concatenate([block.ids for block in self.blocks])

    def shards(self) -> Iterator[int]:
        """Numbers of the shards to look at one by one: all, or evenly spaced ones."""
        count = len(self.data.shards)
        yield from np.unique(np.linspace(0, count - 1, min(count, MAX_SHARDS), dtype=int)).tolist()

    def documents(self, count: int, *, least: int = 1) -> Iterator[tuple[int, int]]:
        """(start, stop) of whole documents spread over the split; none if they are not known.

        Found from positions, so that the documents of a split without an index need no counting.
        """
        if not self.data.knows_documents:
            return
        done = -1
        for position in (
            np.linspace(0, max(0, self.data.num_tokens - 1), count).astype(int).tolist()
        ):
            position = max(position, done)
            ends = self.data.document_ends(
                position, min(position + BLOCK_TOKENS, self.data.num_tokens)
            )
            if position == 0:
                ends = np.concatenate([[0], ends])
            if len(ends) >= 2 and ends[0] >= done and ends[1] - ends[0] >= least:
                yield int(ends[0]), int(ends[1])
                done = int(ends[1])


def percent(part: int, whole: int) -> str:
    """A share with two digits: "12 %", "0.5 %"."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
