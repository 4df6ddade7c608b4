"""Rules 5 to 7 of cleaning: blanks and newlines, for many texts at once.

With NumPy, the texts of a block are joined with a byte that is in no UTF-8, and which bytes go is
computed for all of them at once: about 1 ms a MB. Loops of `bytes.replace` with needles of two
bytes took twenty times that.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tokenmill import kernel
from tokenmill.text.cleaning.cache_blocks import BREAK, groups, in_blocks
from tokenmill.text.cleaning.line_work import Lines, find_lines
from tokenmill.text.reading.split_at import split_at

_SPACE, _TAB, _NEWLINE = 0x20, 0x09, 0x0A
_EDGE = b"\xfe"  # in no UTF-8, as BREAK and the next one
_DELETED = b"\xfd"
_FEW = 60  # below one in so many bytes that go, they are marked and looked for one by one


def squeeze(texts: Sequence[bytes], *, continues: bool, open: bool) -> Lines:
    """The lines of texts without control characters, after rules 5 to 7.

    `continues`: the first text continues an earlier piece; `open`: the last one is continued.
    """
    if kernel.compiled is not None:
        whole, stops, firsts = kernel.compiled.squeeze(list(texts), continues, open)
        return Lines(whole, np.frombuffer(stops, np.int64), np.frombuffer(firsts, np.int64))
    squeezed: list[bytes] = []
    for start, stop in groups(texts):
        # A text is between two breaks; at an edge another byte keeps it from looking whole.
        at_start, at_end = start == 0 and continues, stop == len(texts) and open
        first = BREAK + _EDGE if at_start else BREAK
        last = _EDGE + BREAK if at_end else BREAK
        whole = b"".join([first, BREAK.join(texts[start:stop]), last])
        whole = b"".join(map(_squeeze_block, in_blocks(whole)))
        if at_start or at_end:
            whole = whole.replace(_EDGE, b"")
        squeezed += split_at(BREAK, whole)[1:-1]
    return find_lines(squeezed)


def _squeeze_block(text: bytes) -> bytes:
    return _squeeze_newlines(_squeeze_blanks(text))


def _squeeze_blanks(text: bytes) -> bytes:
    """Rules 5 and 6: runs of spaces and tabs become one space, and none at the end of a line."""
    data = np.frombuffer(text, np.uint8)
    has_tabs = b"\t" in text
    gone = data == _SPACE
    if has_tabs:
        gone |= data == _TAB
    # Goes if a blank, a newline or a break follows. No other byte up to 0x20 is left by now,
    # and adding one makes 0xFF zero: one comparison for all four.
    gone[:-1] &= (data[1:] + np.uint8(1)) <= _SPACE + 1
    gone[-1] = False
    num_gone = np.count_nonzero(gone)
    if not num_gone:
        return text
    if has_tabs:
        # What is left of a run is its last blank; let it be a space.
        data = data.copy()
        data[1:][gone[:-1] & (data[1:] == _TAB)] = _SPACE
    if num_gone * _FEW < len(data):
        marks = gone.view(np.uint8) * np.uint8(_DELETED[0])
        return _without_marked(data | marks)  # has the bits of both blanks
    left: bytes = data[~gone].tobytes()
    return left


def _squeeze_newlines(text: bytes) -> bytes:
    """Rule 7: three or more newlines become two; two or more at the start of a text become one."""
    data = np.frombuffer(text, np.uint8)
    newlines = data[1:] == _NEWLINE
    places = np.flatnonzero(newlines[1:] & newlines[:-1])
    two_before = data[places]
    places = places[(two_before == _NEWLINE) | (two_before == BREAK[0])]
    return _delete(data, places + 2) if len(places) else text


def _delete(data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> bytes:
    """The data without the bytes at these few places."""
    data = data.copy()
    data[places] = _DELETED[0]
    return _without_marked(data)


def _without_marked(data: npt.NDArray[np.uint8]) -> bytes:
    """One byte is what `bytes.replace` finds fastest. Where many go, as the indentation of source
    code does, a boolean index takes half the time."""
    return data.tobytes().replace(_DELETED, b"")
