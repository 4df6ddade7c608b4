"""Chunks between reading and encoding: cleaned, kept on disk, without their repeated lines.

Reading (decompressing, fetching) and cleaning a text costs about as much as encoding it. Where
lines are compared, a text is needed twice: where the disk has room, its chunks are kept from the
first pass for the second. No receipt vouches for them, which would have to wait for the disk: each
is compared with its hash when it is read, and the source is read again where one is gone or
damaged.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash

from tokenmill.base.atomic import new_file
from tokenmill.text.cleaning.clean import clean
from tokenmill.text.cleaning.line_work import (
    Lines,
    find_lines,
    lines_of,
    lines_that_count,
    with_surplus_empty_lines,
    without_lines,
)
from tokenmill.text.reading.bad_input import BadInputPlace
from tokenmill.text.reading.chunks import Chunk, ChunkFacts, Edge

PLACE_BYTES = 4  # kept of each line, in all but huge chunks


@dataclass
class CleanChunk(ChunkFacts):
    """A chunk whose texts are cleaned, or meant to stay as they are."""

    content: list[bytes] | Lines
    """Its texts, in one of two forms: what made them has one, and some need the other."""
    huge: dict[int, list[int]] = field(default_factory=dict)
    """For texts with lines of more than `long_line` bytes before cleaning: which they are, counted
    among the lines of the text that are not empty now."""

    @property
    def as_lines(self) -> Lines:
        return self.content if isinstance(self.content, Lines) else find_lines(self.content)

    @property
    def texts(self) -> list[bytes]:
        return self.content.texts if isinstance(self.content, Lines) else self.content

    def text(self, number: int) -> bytes:
        """One of the texts."""
        content = self.content
        return content.text(number) if isinstance(content, Lines) else content[number]

    def keep_texts(self) -> list[bytes]:
        """The texts; their lines are given up, which would be in memory as well."""
        self.content = self.texts
        return self.content


def clean_chunk(chunk: Chunk, *, normalize: bool, long_line: int | None) -> CleanChunk:
    """Clean the texts if `normalize`; `long_line` is given where lines will be compared."""
    facts = {name: value for name, value in vars(chunk).items() if name != "texts"}
    content: list[bytes] | Lines = chunk.texts
    if normalize:
        content = clean(chunk.texts, continues=chunk.continues, open=chunk.open)
    huge = {} if long_line is None else _huge_lines(chunk.texts, normalize, long_line)
    return CleanChunk(content, huge, **facts)


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


def lines_to_compare(
    chunk: CleanChunk, *, min_chars: int, long_line: int
) -> tuple[Lines, np.ndarray]:
    """The lines of all texts, and which of them may be duplicates.

    A line that was cut, being longer than `long_line`, is not known whole; so that the size of
    units does not matter, none of that length counts.
    """
    lines = chunk.as_lines
    counts = lines_that_count(lines, min_chars, long_line)
    if len(lines) and chunk.continues is Edge.INSIDE:
        counts[0] = False
    if len(lines) and chunk.open is Edge.INSIDE:
        counts[-1] = False
    for text, which in chunk.huge.items():
        first, stop = lines.first_of_text[text : text + 2]
        filled = first + np.flatnonzero(lines.starts[first:stop] < lines.stops[first:stop])
        counts[filled[which]] = False
    return lines, counts


class LineDropper:
    """Takes repeated lines out of the chunks of a unit; `ordinals` are their numbers, sorted."""

    def __init__(self, ordinals: np.ndarray | None, *, normalize: bool) -> None:
        self.ordinals = ordinals
        self.normalize = normalize
        self.num_lines = self.num_dropped = 0

    def drop(self, chunk: CleanChunk) -> list[bytes]:
        """The texts of the next chunk, without repeated lines."""
        if self.ordinals is None or not len(self.ordinals):
            return chunk.keep_texts()
        lines = chunk.as_lines
        begin, end = self.num_lines, self.num_lines + len(lines)
        first, last = np.searchsorted(self.ordinals, (begin, end))
        here = self.ordinals[first:last].astype(np.int64) - begin  # numbers inside this chunk
        self.num_lines = end
        self.num_dropped += len(here)
        if not len(here):
            return chunk.keep_texts()
        if self.normalize:
            continues = chunk.continues is not Edge.NONE
            here = with_surplus_empty_lines(lines, here, continues=continues)
        return without_lines(lines, here)


_KEPT_AS_THEY_ARE = ("dropped", "replaced", "bytes_in", "characters", "offset", "lines")


class ChunkKeeper(ExitStack):
    """Writes the chunks of one unit to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._chunks: list[dict[str, Any]] = []
        self._file = self.enter_context(new_file(path))

    def add(self, chunk: CleanChunk, lines: Lines) -> None:
        """Write the chunk: its texts, and where these and their lines end."""
        ends = lines.ends
        dtype = np.min_scalar_type(len(lines.whole))
        hasher = xxhash.xxh3_128()
        for data in (lines.whole, lines.stops.astype(dtype).data, ends.astype(dtype).data):
            hasher.update(data)
            self._file.write(data)
        known = {name: getattr(chunk, name) for name in (*_KEPT_AS_THEY_ARE, "continues", "open")}
        places = [list(place) for place in chunk.places]
        by_source = list(chunk.by_source.items())
        sizes = {"num_bytes": len(lines.whole), "num_lines": len(lines), "num_texts": len(ends)}
        known |= {"places": places, "by_source": by_source, "hash": hasher.hexdigest()}
        self._chunks.append({**known, **sizes})

    def finish(self) -> list[dict[str, Any]]:
        """Close the file; what `KeptChunks` must know to read it again."""
        self.close()
        return self._chunks


class KeptTextError(Exception):
    """The text of a unit that was kept is gone, or damaged."""


class KeptChunks:
    """The chunks that a `ChunkKeeper` wrote; `known` is what its `finish` returned."""

    def __init__(self, path: Path, known: list[dict[str, Any]]) -> None:
        self._path = path
        self._known = known

    def chunks(self, large_bytes: int, on_large: Callable[[bool], None]) -> Iterator[CleanChunk]:
        """All chunks in order, or KeptTextError at any of them. The rest is as in `ReadRules`."""
        try:
            with open(self._path, "rb") as file:
                for known in self._known:
                    is_large = known["num_bytes"] > large_bytes
                    on_large(is_large)
                    chunk = _read_chunk(file, known)
                    if is_large:
                        chunk.keep_texts()
                    yield chunk
        except OSError as error:
            raise KeptTextError(str(self._path)) from error

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def _read_chunk(file: BinaryIO, known: dict[str, Any]) -> CleanChunk:
    hasher = xxhash.xxh3_128()
    dtype = np.min_scalar_type(known["num_bytes"])

    def read(num_bytes: int) -> bytes:
        data = file.read(num_bytes)
        hasher.update(data)
        return data

    whole = read(known["num_bytes"])
    stops, ends = (read(known[name] * dtype.itemsize) for name in ("num_lines", "num_texts"))
    if hasher.hexdigest() != known["hash"]:
        raise KeptTextError(file.name)
    return CleanChunk(
        lines_of(whole, *(np.frombuffer(data, dtype).astype(np.int64) for data in (stops, ends))),
        continues=Edge(known["continues"]),
        open=Edge(known["open"]),
        by_source=dict(known["by_source"]),
        places=[BadInputPlace(*place) for place in known["places"]],
        **{name: known[name] for name in _KEPT_AS_THEY_ARE},
    )
