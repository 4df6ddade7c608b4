"""Rules 5 to 7 of cleaning: blanks and newlines, for many texts together."""

import re
from collections.abc import Sequence

import numpy as np

from tokenmill import kernel
from tokenmill.text.cleaning.line_work import Lines, find_lines

_BLANKS_AT_LINE_END = re.compile(rb"(?<![ \t])[ \t]++(?=\n)")
_BLANKS = re.compile(rb"[ \t]{2,}")
_NEWLINES_AT_START = re.compile(rb"\A\n{2,}")
_NEWLINES = re.compile(rb"\n{3,}")


def squeeze(texts: Sequence[bytes], *, continues: bool, open: bool) -> Lines:
    """The lines of texts without control characters, after rules 5 to 7.

    `continues`: the first text continues an earlier piece; `open`: the last one is continued.
    """
    if kernel.compiled is not None:
        whole, stops, firsts = kernel.compiled.squeeze(list(texts), continues, open)
        return Lines(whole, np.frombuffer(stops, np.int64), np.frombuffer(firsts, np.int64))
    last = len(texts) - 1
    squeezed = [
        _squeeze_text(text, continues=continues and number == 0, open=open and number == last)
        for number, text in enumerate(texts)
    ]
    return find_lines(squeezed)


def _squeeze_text(text: bytes, *, continues: bool, open: bool) -> bytes:
    # Rules 5 and 6: runs of spaces and tabs become one space, and none at the end of a line.
    text = _BLANKS_AT_LINE_END.sub(b"", text)
    if not open:
        text = text.rstrip(b" \t")
    text = _BLANKS.sub(b" ", text)
    # Rule 7: three or more newlines become two; two or more at the start of a text become one.
    if not continues:
        text = _NEWLINES_AT_START.sub(b"\n", text)
    return _NEWLINES.sub(b"\n\n", text)
