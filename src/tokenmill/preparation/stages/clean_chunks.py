"""Documents of a unit, cleaned, chunk by chunk: what both passes over the text begin with."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from tokenmill.errors import PrepareError, TokenmillError
from tokenmill.preparation.budget.document_limits import OneAtATime, load_limits
from tokenmill.preparation.plan import Plan
from tokenmill.preparation.settings import Settings
from tokenmill.text.cleaning.clean import clean
from tokenmill.text.cleaning.line_work import Lines, find_lines, lines_that_count
from tokenmill.text.reading.bad_input import TooLargeError
from tokenmill.text.reading.chunks import Chunk, Edge
from tokenmill.text.reading.read import read_unit


@contextmanager
def naming_source(plan: Plan, unit: int) -> Iterator[None]:
    """Whatever goes wrong inside says which file was being read."""
    name = plan.sources[plan.units[unit].source].name
    try:
        yield
    except PrepareError as error:
        if not error.source:
            error.source, error.message = name, f"{name}: {error.message}"
        raise
    except (TokenmillError, OSError):
        raise
    except Exception as error:
        raise PrepareError(
            f"{name}: {type(error).__name__}: {error}",
            hint="this is a fault of tokenmill or of a library it uses; please report it",
            source=name,
        ) from error


@dataclass
class CleanChunk(Chunk):
    """A chunk whose texts are cleaned, or meant to stay as they are."""

    huge: dict[int, list[int]] = field(default_factory=dict)
    """For texts with lines of more than `long_line` bytes before cleaning: which they are, counted
    among the lines of the text that are not empty now."""


def cleaned_chunks(plan: Plan, unit: int, cuts: re.Pattern[bytes] | None) -> Iterator[CleanChunk]:
    """Read one unit, and clean its texts unless asked not to."""
    where = plan.units[unit]
    source, limits = plan.sources[where.source], load_limits(plan.workspace)
    with OneAtATime(plan.workspace) as on_large:
        rules = replace(
            plan.settings.read_rules,
            max_document_bytes=limits.document_bytes(source.kind),
            large_document_bytes=limits.share(source.kind),
            on_large=on_large,
            spool_dir=str(plan.workspace.root),
        )
        try:
            for chunk in read_unit(source, where, rules, cuts=cuts, chunk_bytes=plan.chunk_bytes):
                yield cleaned(chunk, plan.settings)
        except TooLargeError as error:
            limits.explain(error, source.kind)
            raise


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


def lines_of(chunk: CleanChunk, settings: Settings) -> tuple[Lines, np.ndarray]:
    """The lines of all texts, numbered through, and which of them may be duplicates.

    A line that was cut, being longer than `long_line`, is not known whole; so that the size of
    units does not matter, none of that length counts.
    """
    lines = find_lines(chunk.texts)
    counts = lines_that_count(lines, settings.dedup_min_chars, settings.long_line)
    if len(lines) and chunk.continues is Edge.INSIDE:
        counts[0] = False
    if len(lines) and chunk.open is Edge.INSIDE:
        counts[-1] = False
    for text, which in chunk.huge.items():
        first, stop = lines.first_of_text[text : text + 2]
        filled = first + np.flatnonzero(lines.starts[first:stop] < lines.stops[first:stop])
        counts[filled[which]] = False
    return lines, counts
