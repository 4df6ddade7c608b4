"""Chunks between reading and encoding: cleaned, kept on disk, without their repeated lines.

On disk are the texts of a chunk with a newline after each, where their lines end, and which line is
the first of each text; then those of the next one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import IO, Any

import numpy as np
import xxhash

from tokenmill.base.human import one_line
from tokenmill.text.cleaning.clean import clean
from tokenmill.text.cleaning.line_work import (
    Lines,
    find_lines,
    lines_that_count,
    with_surplus_empty_lines,
    without_lines,
)
from tokenmill.text.reading.bad_input import BadInputPlace
from tokenmill.text.reading.chunks import EXAMPLES, Chunk, Edge

SHOWN_CHARACTERS = 60


@dataclass
class CleanChunk:
    """A chunk whose texts are cleaned, or meant to stay as they are."""

    facts: Chunk
    """All but the texts."""
    lines: Lines
    huge: dict[int, list[int]]
    """For texts with lines of more than `long_line` bytes before cleaning: which they are, counted
    among the lines of the text that are not empty now."""

    @property
    def bytes_in(self) -> int:
        return self.facts.bytes_in


def clean_chunk(chunk: Chunk, *, normalize: bool, long_line: int | None) -> CleanChunk:
    """Clean the texts if `normalize`; `long_line` is given where lines will be compared."""
    if normalize:
        lines = clean(chunk.texts, continues=chunk.continues, open=chunk.open)
    else:
        lines = find_lines(chunk.texts)
    huge = {} if long_line is None else _huge_lines(chunk.texts, normalize, long_line)
    return CleanChunk(replace(chunk, texts=[]), lines, huge)


def _huge_lines(texts: list[bytes], normalize: bool, long_line: int) -> dict[int, list[int]]:
    """Lines that other units might have had to cut, found before cleaning makes them shorter.

    Cleaning joins no lines and takes only empty ones out, so a line keeps its number among those
    that are not empty.
    """
    huge: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        if len(text) <= long_line:
            continue
        lines = text.split(b"\n")
        long = [len(line) > long_line for line in lines]
        if any(long):
            left = clean(lines).texts if normalize else lines
            huge[number] = np.flatnonzero(
                [is_long for is_long, line in zip(long, left, strict=True) if line]
            ).tolist()
    return huge


def lines_to_compare(chunk: CleanChunk, *, min_chars: int, long_line: int) -> np.ndarray:
    """Return a mask of the lines of all texts that may be duplicates.

    A line that was cut, being longer than `long_line`, is not known whole; so that the size of
    units does not matter, none of that length counts.
    """
    lines = chunk.lines
    counts = lines_that_count(lines, min_chars, long_line)
    if len(lines) and chunk.facts.continues is Edge.INSIDE:
        counts[0] = False
    if len(lines) and chunk.facts.open is Edge.INSIDE:
        counts[-1] = False
    for text, which in chunk.huge.items():
        first, stop = lines.first_of_text[text : text + 2]
        filled = first + np.flatnonzero(lines.starts[first:stop] < lines.stops[first:stop])
        counts[filled[which]] = False
    return counts


def drop_lines(
    chunks: Iterable[CleanChunk], ordinals: np.ndarray, *, normalize: bool
) -> Iterator[Chunk]:
    """Yield the chunks of a unit without some lines; `ordinals` are their numbers, sorted."""
    num_lines = 0  # before the chunk
    for chunk in chunks:
        first, last = ordinals.searchsorted((num_lines, num_lines + len(chunk.lines)))
        dropped = ordinals[first:last].astype(np.int64) - num_lines
        num_lines += len(chunk.lines)
        shorter = _without(chunk, dropped, normalize)
        del chunk  # before the texts are encoded: memory
        yield shorter


def _without(chunk: CleanChunk, dropped: np.ndarray, normalize: bool) -> Chunk:
    lines = chunk.lines
    if not len(dropped):
        return replace(chunk.facts, texts=lines.texts)
    num_dropped = len(dropped)
    starts = lines.starts[dropped[:EXAMPLES]].tolist()
    some = [lines.whole[at : at + 4 * (SHOWN_CHARACTERS + 1)].partition(b"\n")[0] for at in starts]
    if normalize:
        continues = chunk.facts.continues is not Edge.NONE
        dropped = with_surplus_empty_lines(lines, dropped, continues=continues)
    return replace(
        chunk.facts,
        texts=without_lines(lines, dropped),
        dropped_lines=num_dropped,
        repeated=[shorten(line.decode("utf-8", "ignore")) for line in some],
        shortened=set(lines.texts_with(dropped).tolist()),
    )


def shorten(text: str, start: int = 0) -> str:
    """Return some characters from `start` on, in quotes."""
    stop = start + SHOWN_CHARACTERS
    left = "..." if start else ""
    right = "..." if len(text) > stop else ""
    return f'"{left}{one_line(text[start:stop])}{right}"'


def keep_chunk(file: IO[bytes], chunk: CleanChunk) -> dict[str, Any]:
    """Write the texts of a chunk, and return what `read_kept` must know to read it again."""
    lines = chunk.lines
    dtype = np.min_scalar_type(len(lines.whole))
    numbers = np.concatenate((lines.stops, lines.first_of_text)).astype(dtype).tobytes()
    file.write(lines.whole)
    file.write(numbers)
    kept = b"" if chunk.facts.kept is None else chunk.facts.kept.to_bytes()
    file.write(kept)
    facts = vars(chunk.facts).copy()
    del facts["texts"], facts["shortened"], facts["kept"]
    facts["places"] = list(map(asdict, facts["places"]))
    facts["by_source"] = list(facts["by_source"].items())
    facts["texts_by_source"] = list(facts["texts_by_source"].items())
    if chunk.facts.numbers is not None:
        facts["numbers"] = chunk.facts.numbers.tolist()
    if chunk.facts.removed is not None:
        facts["removed"] = chunk.facts.removed.to_json()
    return {
        "num_bytes": len(lines.whole),
        "num_lines": len(lines),
        "num_numbers": len(lines) + len(lines.first_of_text),
        "num_kept": len(kept),
        "hash": _hash_of(lines.whole, numbers, kept),
        "facts": facts,
    }


def read_kept(file: IO[bytes], known: dict[str, Any]) -> CleanChunk | None:
    """Read the next chunk that `keep_chunk` wrote; None if it is not what was written."""
    whole = file.read(known["num_bytes"])
    dtype = np.min_scalar_type(known["num_bytes"])
    numbers = file.read(known["num_numbers"] * dtype.itemsize)
    kept = file.read(known["num_kept"])
    if _hash_of(whole, numbers, kept) != known["hash"]:
        return None
    facts = known["facts"]
    facts["continues"] = Edge(facts["continues"])
    facts["open"] = Edge(facts["open"])
    facts["by_source"] = dict(facts["by_source"])
    facts["texts_by_source"] = dict(facts["texts_by_source"])
    if facts["numbers"] is not None:
        facts["numbers"] = np.array(facts["numbers"], np.uint32)
    if facts["removed"] is not None:
        from tokenmill.text.filters.rule import Removed

        facts["removed"] = Removed.from_json(facts["removed"])
    facts["places"] = [BadInputPlace(**place) for place in facts["places"]]
    found = np.frombuffer(numbers, dtype).astype(np.int64)
    lines = Lines(whole, found[: known["num_lines"]], found[known["num_lines"] :])
    if kept:
        from tokenmill.text.reading.kept_facts import KeptFacts

        facts["kept"] = KeptFacts.from_bytes(kept)
    return CleanChunk(Chunk([], **facts), lines, {})


def _hash_of(*data: bytes) -> str:
    digest = xxhash.xxh3_128()
    for some in data:
        digest.update(some)
    return digest.hexdigest()
