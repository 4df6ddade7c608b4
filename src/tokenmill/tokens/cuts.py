r"""Where a text may be cut so that the ids of the parts, joined, are the ids of the whole.

BPE merges only inside the pieces that a pattern makes of a text. So a cut between two pieces
changes nothing, as long as the pattern finds the same pieces when it cannot see across the cut:

- before a single ASCII space between two characters that are not white space. No piece holds a
  space after something else, and the only looking ahead (`\s+(?!\S)`) is done by white space.
- before a fullwidth comma between two Chinese characters of U+5000..U+8FFF, for text that has no
  spaces. A run of letters ends there, and the comma starts a piece.
- after a single newline between two characters that are not white space. It is a piece or ends one,
  and begins none. Before a slash only after a letter or digit: o200k takes slashes to signs and
  newlines before them.

White space beyond ASCII starts with the bytes C2, E1, E2 or E3, so a character with another first
byte is not white space. Text without any such place, a gigabyte of one letter, is never cut.
"""

import re
from collections.abc import Iterator

PIECE = 64 << 10  # bytes
LOOKS_AHEAD = 4  # bytes after a cut that decide on it, at most

_BLACK_BEFORE = rb"""
    (?: (?<=[\x21-\x7e])
      | (?<=[\xc3-\xdf][\x80-\xbf])
      | (?<=[\xe0\xe4-\xef][\x80-\xbf]{2})
      | (?<=[\xf0-\xf4][\x80-\xbf]{3}) )
"""
_BLACK_AFTER = rb"[\x21-\x7e\xc3-\xe0\xe4-\xf4]"

AT_SPACES_AND_COMMAS = re.compile(
    rb"(?=[\x20\xef])(?:"
    + _BLACK_BEFORE
    + rb"(?=\x20"
    + _BLACK_AFTER
    + rb")|(?<=[\xe5-\xe8][\x80-\xbf]{2})(?=\xef\xbc\x8c[\xe5-\xe8]))"
    rb"|(?<=\n)(?=[\x21-\x2e\x30-\x7e\xe5-\xe8])(?:"
    rb"(?<=[\x21-\x7e]\n)|(?<=[\xc3-\xdf][\x80-\xbf]\n)|(?<=[\xe0\xe4-\xef][\x80-\xbf]{2}\n)"
    rb"|(?<=[\xf0-\xf4][\x80-\xbf]{3}\n))"
    rb"|(?<=[0-9A-Za-z]\n)(?=/)",
    re.VERBOSE,
)
"""Safe for the patterns of gpt2, cl100k and o200k; each match is empty, at the cut."""

AT_CHARACTERS = re.compile(rb"(?=[\x00-\x7f\xc2-\xf4])")
"""Safe where every character has its own id: before any character."""


def last_cut(cuts: re.Pattern[bytes], data: bytes, start: int, stop: int) -> int | None:
    """The last cut strictly between start and stop, or None.

    Looks backwards in windows that double: the pattern is tried at every byte, about 10 MB/s, so
    the cost is that of the distance to the cut and not of the text.
    """
    high = stop
    window = 64
    while high > start + 1:
        low = max(start + 1, high - window)
        # Bytes past `high` are seen, but no cut is there.
        ends = [m.end() for m in cuts.finditer(data, low, high + LOOKS_AHEAD) if m.end() < high]
        if ends:
            return ends[-1]
        high = low
        window = 2 * window
    return None


def pieces_of(text: bytes, cuts: re.Pattern[bytes] | None) -> Iterator[bytes]:
    """A long text in pieces, for an encoder that takes many times the memory of what it gets."""
    start = 0
    while (
        cuts is not None
        and len(text) - start > 2 * PIECE
        and (cut := last_cut(cuts, text, start, start + PIECE))
    ):
        yield text[start:cut]
        start = cut
    yield text[start:]
