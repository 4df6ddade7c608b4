"""Documents of a unit, cleaned, chunk by chunk: what both passes over the text begin with."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tokenmill.preparation.plan import Plan
from tokenmill.preparation.settings import Settings
from tokenmill.text.clean import clean
from tokenmill.text.dedup import lines_that_count
from tokenmill.text.read import Chunk, Edge, read_unit


@dataclass
class CleanChunk(Chunk):
    """A chunk whose texts are cleaned, or meant to stay as they are."""

    huge: dict[int, list[int]] = field(default_factory=dict)
    """For texts with lines of more than `long_line` bytes before cleaning: which they are, counted
    among the lines of the text that are not empty now."""


def cleaned_chunks(plan: Plan, unit: int, cuts: re.Pattern[bytes] | None) -> Iterator[CleanChunk]:
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


def cleaned(chunk: Chunk, settings: Settings) -> CleanChunk:
    """The chunk with its texts cleaned, unless they are to be left as they are."""
    texts = chunk.texts
    if settings.normalize:
        texts = clean(texts, continues=chunk.continues, open=chunk.open)
    huge = {} if settings.dedup != "lines" else _huge_lines(chunk.texts, settings)
    return CleanChunk(**{**vars(chunk), "texts": texts}, huge=huge)


def _huge_lines(texts: list[bytes], settings: Settings) -> dict[int, list[int]]:
    """Lines that other units might have had to cut, found before cleaning makes them shorter.

    Cleaning joins no lines and takes only empty ones out, so a line keeps its number among those
    that are not empty.
    """
    huge: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        if len(text) <= settings.long_line:
            continue
        lines = text.split(b"\n")
        long = [len(line) > settings.long_line for line in lines]
        if any(long):
            left = clean(lines) if settings.normalize else lines
            huge[number] = np.flatnonzero(
                [is_long for is_long, line in zip(long, left, strict=True) if line]
            ).tolist()
    return huge


@dataclass(frozen=True)
class Lines:
    """All lines of a chunk, numbered through; which of them may be duplicates."""

    lines: list[bytes]
    num_of_text: np.ndarray
    """How many of them each text has."""
    candidates: np.ndarray
    """Ordinals of lines that can be duplicates: long enough, not blank, not cut, not huge."""


def lines_of(chunk: CleanChunk, min_chars: int) -> Lines:
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
    for text, which in chunk.huge.items():
        first = int(num_of_text[:text].sum())
        stop = first + int(num_of_text[text])
        filled = [at for at in range(first, stop) if lines[at]]
        counts[[filled[at] for at in which]] = False
    return Lines(lines, num_of_text, np.flatnonzero(counts))


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
