"""The numbers of a report: exact for small data, from a bounded, evenly spaced sample of large.

Nothing here depends on the clock or on chance, so the same data gives the same report.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from tokenmill.dataset import TokenDataset
from tokenmill.look.token_sample import (
    BLOCK_TOKENS,
    BUDGET,
    SplitSample,
    ranges_within,
    spread,
    text_size,
)
from tokenmill.pages.find_documents import bounds_in, survey

MAX_HASHED = 50_000  # documents compared with each other
MAX_HASHED_TOKENS = 16 << 20
MOST_OFTEN = 5  # documents that are named, of those that are there several times
MAX_PARTS = 24  # shards with a line each
PARTS_TOKENS = 4 << 20  # decoded of all of them together
MAX_LENGTHS = 4 << 20
MAX_ID = 4 << 20  # ids from here on are no ids: files read with the wrong dtype have them

Repeated = list[tuple[int, TokenDataset, int, int]]
"""Equal documents: how often they are there, and the tokens of the first."""


@dataclass(frozen=True)
class Counts:
    """Occurrences of each id in the sample."""

    by_id: np.ndarray
    looked_at: int
    num_tokens: int

    @property
    def is_whole(self) -> bool:
        return self.looked_at == self.num_tokens

    @property
    def sample(self) -> str:
        return f"{self.looked_at:,} of {self.num_tokens:,} tokens"

    @property
    def num_used(self) -> int:
        return int((self.by_id > 0).sum())

    @property
    def entropy(self) -> float:
        """Bits per token, if each came alone."""
        share = self.by_id[self.by_id > 0] / max(1, self.looked_at)
        return float(-(share * np.log2(share)).sum()) + 0.0


def count_ids(splits: dict[str, TokenDataset], budget: int = BUDGET) -> Counts:
    """Count each id, over all splits."""
    by_id = np.zeros(1, np.int64)
    looked_at = 0
    for name, data in splits.items():
        for block in SplitSample(data, name, budget).blocks:
            looked_at += len(block.ids)
            # Ids beyond any vocabulary, or below 0, are reported by the checks.
            inside = block.ids[(block.ids >= 0) & (block.ids < MAX_ID)].astype(np.int64)
            more = np.bincount(inside, minlength=len(by_id))
            more[: len(by_id)] += by_id
            by_id = more
    return Counts(by_id, looked_at, sum(data.num_tokens for data in splits.values()))


def lengths_of(
    splits: dict[str, TokenDataset], budget: int = BUDGET
) -> tuple[np.ndarray, bool] | None:
    """Lengths of documents, and True if of all; None if nothing says how documents end."""
    if not all(data.knows_documents for data in splits.values()):
        return None
    lengths = [np.empty(0, np.int64)]
    is_whole = True
    for data in splits.values():
        ranges = survey(data, max_documents=MAX_LENGTHS, max_tokens=budget)
        lengths += [np.diff(bounds) for bounds in bounds_in(data, ranges)]
        is_whole = is_whole and ranges == [(0, data.num_tokens)]
    return np.concatenate(lengths), is_whole


def repeated_documents(splits: dict[str, TokenDataset]) -> tuple[int, int, Repeated] | None:
    """Compare documents with each other; evenly spaced ones of large data.

    (documents that equal an earlier one, documents compared, those that are there most often).
    """
    if not all(data.knows_documents for data in splits.values()):
        return None
    limits = {"max_documents": MAX_HASHED, "max_tokens": MAX_HASHED_TOKENS}
    documents = (
        (data, start, stop)
        for data in splits.values()
        for bounds in bounds_in(data, survey(data, **limits))
        for start, stop in pairwise(bounds.tolist())
    )
    seen: dict[bytes, list[Any]] = {}
    compared = tokens = 0
    for data, start, stop in documents:
        tokens += stop - start
        if tokens > MAX_HASHED_TOKENS or compared >= MAX_HASHED:
            break
        digest = xxhash.xxh3_128_digest(data.tokens(start, stop).data)
        seen.setdefault(digest, [0, data, start, stop])[0] += 1
        compared += 1
    several = [tuple(found) for found in seen.values() if found[0] > 1]
    several.sort(key=lambda found: -found[0])
    return compared - len(seen), compared, several[:MOST_OFTEN]


def compression(splits: dict[str, TokenDataset], tokenizer: Any) -> list[tuple[str, int, int]]:
    """(file, bytes of text, tokens) of each shard, or of evenly spaced ones."""
    shards = [(data, shard) for data in splits.values() for shard in data.shards]
    chosen = spread(MAX_PARTS, len(shards))
    budget = max(BLOCK_TOKENS, PARTS_TOKENS // max(1, len(chosen)))
    parts = []
    for data, shard in (shards[number] for number in chosen):
        stop = shard.start + shard.num_tokens
        ranges = ranges_within(budget, BLOCK_TOKENS, shard.start, stop)
        try:
            size = text_size(data, ranges, tokenizer)
        except (ValueError, IndexError, OverflowError):
            size = (0, 0)  # ids beyond the vocabulary: the checks report them
        parts.append((shard.file, *size))
    return parts
