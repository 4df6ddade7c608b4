"""A text of any size as ids, block by block: the same ids as if it were encoded whole.

Documents end at `separator`, which is left out, and each gets the end-of-text id; without one the
text is a single document and no id is added. Between separators the text is cut only where the
tokenizer allows it. Memory is that of a block, as long as a block holds a separator or a cut; a
stretch without either is read whole, up to MAX_STRETCH bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tokenmill.errors import BadInputError
from tokenmill.text.reading.bad_input import find_not_utf8
from tokenmill.tokens.cuts import last_cut
from tokenmill.tokens.tokenizer import Ids, Tokenizer

BLOCK = 8 << 20
MAX_STRETCH = 512 << 20


class Readable(Protocol):
    """What text comes from."""

    def read(self, size: int) -> bytes:
        """`size` bytes; fewer only at the end."""


@dataclass(frozen=True, slots=True)
class Place:
    """How far a text has been encoded; all that is needed to go on."""

    bytes: int = 0
    characters: int = 0
    tokens: int = 0
    documents: int = 0
    """Documents that were closed with the end-of-text id."""
    in_document: bool = False
    """The last document has text and is not closed yet."""


def encode_stream(
    stream: Readable,
    tokenizer: Tokenizer,
    *,
    name: str,
    separator: bytes = b"",
    start: Place | None = None,
    block: int = BLOCK,
) -> Iterator[tuple[Ids, Place]]:
    """Ids and the place reached, again and again; `name` is what errors call the text.

    A place that was given may be handed back as `start` with a new stream of the same text.
    """
    place = Place() if start is None else start
    for text, at_end in _blocks(stream, tokenizer, name, separator, place.bytes, block):
        parts = text.split(separator) if separator else [text]
        closed = np.ones(len(parts), bool)
        closed[-1] = bool(separator) and at_end
        # An empty document is none: it is closed only if an earlier block began it.
        has_text = np.fromiter(map(len, parts), np.int64, len(parts)) > 0
        has_text[0] |= place.in_document
        ids, ends = tokenizer.encode_batch(parts)
        closing = ends[closed & has_text]
        if separator:
            ids = np.insert(ids, closing, np.uint32(tokenizer.end_of_text_id))
        place = Place(
            bytes=place.bytes + len(text),
            characters=place.characters + count_characters(text),
            tokens=place.tokens + len(ids),
            documents=place.documents + len(closing),
            in_document=bool(has_text[-1] and not closed[-1]),
        )
        yield ids, place


def count_characters(text: bytes) -> int:
    """Code points in UTF-8."""
    if text.isascii():
        return len(text)
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) & 0xC0 != 0x80))


def blocks_of_characters(stream: Readable, block: int = BLOCK) -> Iterator[bytes]:
    """The text in blocks that do not cut a character in two."""
    rest = b""
    while data := stream.read(block):
        data = rest + data
        stop = len(data)
        for back in range(1, min(4, len(data)) + 1):
            if data[-back] & 0xC0 != 0x80:  # the first byte of the last character
                stop = len(data) - back if data[-back] >= 0xC0 else len(data)
                break
        rest = data[stop:]
        yield data[:stop]
    if rest:
        yield rest


def _blocks(
    stream: Readable, tokenizer: Tokenizer, name: str, separator: bytes, start: int, block: int
) -> Iterator[tuple[bytes, bool]]:
    """(text, whether it is the last); every text ends where it may be cut."""
    _skip(stream, start)
    buffer, position, seen = b"", start, 0
    while True:
        wanted = max(block, len(buffer))  # doubling: a long stretch is not copied time and again
        more = stream.read(wanted)
        buffer += more
        at_end = len(more) < wanted
        stop = len(buffer) if at_end else _last_stop(buffer, tokenizer, separator, seen)
        if stop or at_end:
            _check_utf8(buffer[:stop], position, name)
            yield buffer[:stop], at_end
            if at_end:
                return
            buffer, position, seen = buffer[stop:], position + stop, 0
        else:
            seen = len(buffer)
            if seen > MAX_STRETCH:
                raise _no_place_to_cut(seen, position, name, tokenizer)


def _last_stop(buffer: bytes, tokenizer: Tokenizer, separator: bytes, seen: int) -> int:
    """The last place before the end where the text may be cut, 0 if there is none.

    In the first `seen` bytes there is none: they were searched before.
    """
    low = max(0, seen - len(separator) - 8)
    after = 0
    if separator and (last := buffer.rfind(separator, low)) >= 0:
        after = last + len(separator)
    if tokenizer.cuts is None:
        return after
    # A separator may have begun in the last bytes: no cut there.
    high = len(buffer) - max(0, len(separator) - 1)
    return last_cut(tokenizer.cuts, buffer, max(after, low), high) or after


def _skip(stream: Readable, size: int) -> None:
    while size > 0 and (data := stream.read(min(size, BLOCK))):
        size -= len(data)


def _check_utf8(text: bytes, position: int, name: str) -> None:
    bad = find_not_utf8(text)
    if bad >= 0:
        raise BadInputError(
            f"{name} is not UTF-8 at byte {position + bad:,}: {text[bad : bad + 4]!r}",
            hint="convert it first (iconv -t utf-8 -f ...), or use "
            "`tokenmill prepare --on_bad_input replace`",
            source=name,
        )


def _no_place_to_cut(size: int, position: int, name: str, tokenizer: Tokenizer) -> BadInputError:
    return BadInputError(
        f"{name} has no place to cut in {size:,} bytes after byte {position:,}, "
        f"and {tokenizer.name} needs a document in one piece",
        hint="name what stands between documents: --separator",
        source=name,
    )
