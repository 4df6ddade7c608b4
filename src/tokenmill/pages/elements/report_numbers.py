"""The numbers of a report: exact for small data, from a bounded, evenly spaced sample of large.

Nothing here depends on the clock or on chance, so the same data gives the same report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import xxhash

from tokenmill.dataset import TokenDataset
from tokenmill.look.token_sample import BLOCK_TOKENS, SplitSample
from tokenmill.pages.elements.find_documents import survey
from tokenmill.shards.manifest import Manifest

BUDGET = 16 << 20  # tokens of a split that are counted
MAX_HASHED = 50_000  # documents compared with each other
MAX_HASHED_TOKENS = 16 << 20
MAX_PARTS = 24  # sources or shards with a line of their own
PART_TOKENS = 1 << 20  # decoded of each of them
MAX_LENGTHS = 4 << 20
MAX_ID = 4 << 20  # ids from here on are no ids: files read with the wrong dtype have them


@dataclass(frozen=True)
class Lengths:
    """Lengths of documents."""

    values: np.ndarray
    is_whole: bool


@dataclass(frozen=True)
class Counts:
    """How often each id occurs in the sample."""

    by_id: np.ndarray
    looked_at: int
    num_tokens: int

    @property
    def is_whole(self) -> bool:
        return self.looked_at == self.num_tokens

    @property
    def entropy(self) -> float:
        """Bits a token would take if each came alone."""
        share = self.by_id[self.by_id > 0] / max(1, self.looked_at)
        return float(-(share * np.log2(share)).sum()) + 0.0


@dataclass(frozen=True)
class Compression:
    """Bytes of text by token, of one source or shard."""

    name: str
    num_bytes: int
    num_tokens: int

    @property
    def bytes_per_token(self) -> float:
        return self.num_bytes / self.num_tokens if self.num_tokens else 0.0


def count_ids(splits: dict[str, TokenDataset], budget: int = BUDGET) -> Counts:
    """How often each id occurs, over all splits."""
    by_id = np.zeros(1, np.int64)
    looked_at = 0
    for name, data in splits.items():
        for block in SplitSample(data, name, budget).blocks:
            looked_at += len(block.ids)
            # Ids beyond any vocabulary, or below 0, are reported by the checks.
            inside = (block.ids >= 0) & (block.ids < MAX_ID)
            found = np.bincount(block.ids[inside].astype(np.int64))
            if len(found) > len(by_id):
                by_id = np.concatenate([by_id, np.zeros(len(found) - len(by_id), np.int64)])
            by_id[: len(found)] += found
    return Counts(by_id, looked_at, sum(data.num_tokens for data in splits.values()))


def lengths_of(splits: dict[str, TokenDataset], budget: int = BUDGET) -> Lengths | None:
    """Lengths of the documents of all splits, or None where nothing says where they end."""
    if not all(data.knows_documents for data in splits.values()):
        return None
    found, is_whole = [np.empty(0, np.int64)], True
    for data in splits.values():
        looked_at = survey(data, max_documents=MAX_LENGTHS, max_tokens=budget)
        is_whole = is_whole and looked_at.is_whole
        found += [np.diff(bounds) for bounds in looked_at.stretches()]
    return Lengths(np.concatenate(found), is_whole)


def repeated_documents(splits: dict[str, TokenDataset]) -> tuple[int, int] | None:
    """(documents that equal an earlier one, documents compared), evenly spaced in large data."""
    if not all(data.knows_documents for data in splits.values()):
        return None
    seen: set[bytes] = set()
    repeated = compared = tokens = 0
    for start, stop, data in _some_documents(splits):
        tokens += stop - start
        if tokens > MAX_HASHED_TOKENS or compared >= MAX_HASHED:
            break
        digest = xxhash.xxh3_128_digest(data.tokens(start, stop).data)
        compared += 1
        repeated += digest in seen
        seen.add(digest)
    return repeated, compared


def _some_documents(
    splits: dict[str, TokenDataset],
) -> Iterator[tuple[int, int, TokenDataset]]:
    for data in splits.values():
        share = {"max_documents": MAX_HASHED, "max_tokens": MAX_HASHED_TOKENS}
        for bounds in survey(data, **share).stretches():
            for start, stop in pairwise(bounds.tolist()):
                yield start, stop, data


def compression(
    splits: dict[str, TokenDataset], tokenizer: Any, manifest: Manifest | None
) -> tuple[str, list[Compression], int]:
    """What the parts are (sources or shards), the first of them, and how many there are."""
    kind, parts = "source", _by_source(splits, manifest)
    if parts is None:
        kind, parts = "shard", _by_shard(splits)
    chosen = np.unique(np.linspace(0, len(parts) - 1, min(len(parts), MAX_PARTS)).astype(int))
    found = []
    for number in chosen.tolist():
        name, data, start, stop = parts[number]
        num_bytes = num_tokens = 0
        for low, high in _sample(start, stop, max(BLOCK_TOKENS, PART_TOKENS * 4 // len(chosen))):
            ids = data.tokens(low, high)
            ids = ids[ids != tokenizer.end_of_text_id]
            try:
                num_bytes += len(tokenizer.decode(ids))
            except (ValueError, IndexError, OverflowError):
                continue  # ids beyond the vocabulary: reported by the checks
            num_tokens += len(ids)
        found.append(Compression(name, num_bytes, num_tokens))
    return kind, found, len(parts)


def _sample(start: int, stop: int, budget: int) -> list[tuple[int, int]]:
    if stop - start <= budget:
        return [(start, stop)] if stop > start else []
    starts = (
        np.linspace(start, stop - BLOCK_TOKENS, max(1, budget // BLOCK_TOKENS))
        .astype(np.int64)
        .tolist()
    )
    return [(low, low + BLOCK_TOKENS) for low in starts]


def _by_shard(splits: dict[str, TokenDataset]) -> list[tuple[str, TokenDataset, int, int]]:
    return [
        (shard.file, data, shard.start, shard.start + shard.num_tokens)
        for data in splits.values()
        for shard in data.shards
    ]


def _by_source(
    splits: dict[str, TokenDataset], manifest: Manifest | None
) -> list[tuple[str, TokenDataset, int, int]] | None:
    """The range of each source, where the manifest settles it: one split, and no document lost.

    A manifest counts the documents that a source was read as. Documents keep their order, so these
    counts are ranges, unless some were dropped or went to another split.
    """
    if manifest is None or len(splits) != 1 or not manifest.sources:
        return None
    (data,) = splits.values()
    if sum(source.num_documents for source in manifest.sources) != data.num_documents:
        return None
    parts, first = [], 0
    for source in manifest.sources:
        last = first + source.num_documents
        if last > first:
            start, stop = data.document_range(first)[0], data.document_range(last - 1)[1]
            parts.append((source.name, data, start, stop))
        first = last
    return parts
