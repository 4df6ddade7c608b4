"""Documents of a unit, cleaned, chunk by chunk: what both passes over the text begin with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tokenmill.preparation.plan import Plan
from tokenmill.preparation.settings import Settings
from tokenmill.text.clean import clean
from tokenmill.text.dedup import lines_that_count
from tokenmill.text.read import Chunk, Edge, read_unit


def cleaned_chunks(plan: Plan, unit: int, cuts: re.Pattern[bytes] | None) -> Iterator[Chunk]:
    """Read one unit, and clean its texts unless asked not to."""
    where = plan.units[unit]
    chunks = read_unit(
        plan.sources[where.source],
        where,
        plan.settings.read_rules,
        cuts=cuts,
        chunk_bytes=plan.chunk_bytes,
    )
    for chunk in chunks:
        yield cleaned(chunk, plan.settings)


def cleaned(chunk: Chunk, settings: Settings) -> Chunk:
    """The chunk with its texts cleaned, unless they are to be left as they are."""
    if not settings.normalize:
        return chunk
    texts = clean(chunk.texts, continues=chunk.continues, open=chunk.open)
    return replace(chunk, texts=texts)


@dataclass(frozen=True)
class Lines:
    """All lines of a chunk, numbered through; which of them may be duplicates."""

    lines: list[bytes]
    num_of_text: np.ndarray
    """How many of them each text has."""
    candidates: np.ndarray
    """Ordinals of lines that can be duplicates: long enough, not blank, not cut, not huge."""


def lines_of(chunk: Chunk, min_chars: int, long_line: int) -> Lines:
    """Cut the texts of a chunk into lines. A text of n newlines has n + 1 lines, the last without.

    A line that was cut because it is longer than `long_line` cannot be compared as a whole; so
    that the size of units does not matter, no line of that length is ever a duplicate.
    """
    lines = b"\n".join(chunk.texts).split(b"\n") if chunk.texts else []
    num_of_text = np.fromiter((text.count(b"\n") + 1 for text in chunk.texts), np.int64)
    counts = lines_that_count(lines, min_chars)
    if chunk.continues is Edge.INSIDE:
        counts[0] = False
    if chunk.open is Edge.INSIDE:
        counts[-1] = False
    candidates = np.flatnonzero(counts)
    if max(map(len, chunk.texts), default=0) > long_line:
        huge = [at for at in candidates if len(lines[at]) > long_line]
        candidates = np.setdiff1d(candidates, huge)
    return Lines(lines, num_of_text, candidates)


def without_lines(chunk: Chunk, found: Lines, dropped: np.ndarray) -> list[bytes]:
    """The texts of a chunk without the lines at these ordinals, each going with its own newline."""
    texts = list(chunk.texts)
    first_of_text = np.concatenate(([0], np.cumsum(found.num_of_text)))
    touched = np.unique(np.searchsorted(first_of_text, dropped, side="right") - 1)
    gone = np.zeros(len(found.lines), np.bool_)
    gone[dropped] = True
    for at in touched:
        start, stop = first_of_text[at], first_of_text[at + 1]
        kept = [found.lines[i] for i in np.flatnonzero(~gone[start:stop]) + start]
        if gone[stop - 1]:
            kept.append(b"")  # the newline before the last line belongs to the line before it
        texts[at] = b"\n".join(kept)
    return texts
