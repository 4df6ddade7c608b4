"""One unit becomes chunks of documents, in bounded memory.

The law: whatever the units, whatever `chunk_bytes`, joining pieces over open edges gives the same
documents in the same order. A document is left open (cut between two chunks or units) only when it
has more than `long_line` bytes, and a line is cut inside only when it has; a chunk holds about
`chunk_bytes` plus `long_line` bytes at most. Without `cuts` nothing is left open, and a document of
more than `max_document_bytes` is bad input. docs/guides/inputs.md says what is done about that.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module

from tokenmill.errors import PrepareError
from tokenmill.text.inputs.open_input import TABLES, Source, cannot_read, stat
from tokenmill.text.inputs.units import Unit
from tokenmill.text.reading.bad_input import UNREADABLE
from tokenmill.text.reading.chunks import Chunk, Edge, ReadRules


def read_unit(source: Source, unit: Unit, rules: ReadRules) -> Iterator[Chunk]:
    """The documents of one unit, chunk by chunk."""
    if source.kind == "unreadable":
        chunk = Chunk([])
        chunk.leave_out(UNREADABLE, "file", 0)
        yield chunk
        return
    kind = "table" if source.kind in TABLES else source.kind
    reader = import_module(f"tokenmill.text.reading.read_{kind}")
    check_unchanged(source)
    try:
        yield from getattr(reader, f"read_{kind}")(source, unit, rules)
    except OSError as error:
        raise cannot_read(source.path, error) from error
    check_unchanged(source)


def read_files(
    sources: Sequence[Source], read: Callable[[Source], Iterator[Chunk]], chunk_bytes: int
) -> Iterator[Chunk]:
    """The documents of whole files as `read` gives them, those of many small ones in one chunk.

    Lines of bad input are counted from the beginning of their file.
    """
    together = Chunk([])
    size = 0
    for number, source in enumerate(sources):
        lines = 0
        begun = texts = 0
        together.by_source[number] = 0  # also where the file has no chunk
        together.texts_by_source[number] = 0
        for chunk in read(source):
            chunk.places = [
                replace(place, source=number, number=place.number + lines * (place.kind == "line"))
                for place in chunk.places
            ]
            lines += chunk.lines
            documents = len(chunk.texts) - (chunk.continues is not Edge.NONE)
            begun += documents + sum(chunk.dropped.values())
            texts += documents
            chunk.by_source = {number: begun}  # of this file so far: the last one counts
            chunk.texts_by_source = {number: texts}
            if chunk.is_whole:
                together.add(chunk)
                size += sum(map(len, chunk.texts))
            if size >= chunk_bytes or not chunk.is_whole:
                yield together
                together = Chunk([])
                size = 0
            if not chunk.is_whole:
                yield chunk
    yield together


def check_unchanged(source: Source) -> None:
    """Raise unless the file is still the one that was planned for."""
    size, mtime_ns = stat(source.path)
    if (size, mtime_ns) != (source.size, source.mtime_ns):
        raise PrepareError(
            f"{source.name} changed while it was read: it had {source.size:,} bytes, and "
            f"has {size:,} now" + (", and another time of change" if size == source.size else ""),
            hint="let whatever writes to it finish, then give the command again",
            source=source.name,
        )
