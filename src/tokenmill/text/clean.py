"""Cleaning: eight rules, in this order, for many texts at once.

1. U+FEFF (the byte order mark) goes out, wherever it stands.
2. CR LF becomes LF.
3. Control characters go out: U+0000 to U+001F but newline and tab, U+007F, U+0080 to U+009F. A CR
   on its own is one of them.
4. Unicode NFC.
5. A run of two or more spaces and tabs becomes one space; a lone tab stays.
6. Spaces and tabs at the end of a line and of the document go out.
7. At most one empty line in a row: three or more newlines become two; at the start of a document,
   where no line comes before, two or more become one.
8. Nothing else: no character is added, no newline at the end is added or taken.

Cleaning twice is cleaning once. Since rule 3 takes every CR that rule 2 leaves, the two together
delete CRs.

How: the texts are joined with the byte 0xFF, which is in no UTF-8, and each rule is a few passes of
`bytes.replace` over the whole, made only if a quick look finds something to do. A document cut in
two is cleaned in pieces: what a newline or a blank at the cut means is only known when both
pieces are, so `clean` leaves the cut alone and `join_edge` finishes rule 7 there.
"""

import re
from collections.abc import Sequence

import numpy as np

from tokenmill.text import normal
from tokenmill.text.edges import Edge

_BREAK = b"\xff"
_EDGE_BYTE = b"\xfe"
_CONTROLS = bytes(set(range(0x20)) - {9, 10} | {0x7F})
_CONTROLS_2 = re.compile(rb"\xc2[\x80-\x9f]")


def clean(
    texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE
) -> list[bytes]:
    """The texts (valid UTF-8), cleaned; as many as before, some perhaps empty now.

    `continues` and `open` are those of the chunk: the first text goes on with an earlier piece, and
    the last one is continued by a later piece.
    """
    if not texts:
        return []
    # Between two breaks stands a document; an edge byte keeps a cut from looking like its end.
    whole = _BREAK.join([b"", *texts, b""])
    whole = _delete_controls(whole)
    whole = normal.nfc(whole, _BREAK)
    first, last = _EDGE_BYTE if continues is not Edge.NONE else b"", b""
    if open is not Edge.NONE:
        last = _EDGE_BYTE
    if first or last:
        whole = _BREAK + first + whole[1:-1] + last + _BREAK
    whole = _squeeze_blanks(whole)
    whole = _squeeze_newlines(whole)
    if first or last:
        whole = whole.replace(_EDGE_BYTE, b"")
    return whole[1:-1].split(_BREAK)


def join_edge(before: bytes, head: bytes) -> bytes:
    """The cleaned `head`, as it is when it stands behind `before` in one document (rule 7).

    `before` is the cleaned text of the document so far, or at least its last three bytes.

    >>> join_edge(b"end\\n\\n", b"\\n\\nnext")
    b'next'
    """
    run = len(before) - len(before.rstrip(b"\n"))
    most = 2 if run < len(before) else 1
    newlines = len(head) - len(head.lstrip(b"\n"))
    return head[max(0, newlines - max(0, most - run)) :]


def _delete_controls(text: bytes) -> bytes:
    if _has_controls(text):
        text = text.translate(None, _CONTROLS)
    if b"\xc2" in text:
        text = _CONTROLS_2.sub(b"", text)
    if b"\xef\xbb\xbf" in text:
        text = text.replace(b"\xef\xbb\xbf", b"")
    return text


def _has_controls(text: bytes) -> bool:
    """Whether ASCII control characters other than newline and tab are in the text.

    Ten times as quick as deleting them: all below 0x20 are counted, then newlines and tabs.
    """
    if b"\r" in text or b"\x7f" in text:
        return True
    low = int(np.count_nonzero(np.frombuffer(text, np.uint8) < 0x20))
    return low != text.count(b"\n") + text.count(b"\t")


def _squeeze_blanks(text: bytes) -> bytes:
    """Rules 5 and 6."""
    if b"\t" in text:
        # First every blank of a longer run becomes a space; in this order no tab is left over.
        text = text.replace(b"\t\t", b"  ").replace(b" \t", b"  ").replace(b"\t ", b"  ")
        text = text.replace(b"\t\n", b"\n").replace(b"\t" + _BREAK, _BREAK)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text.replace(b" \n", b"\n").replace(b" " + _BREAK, _BREAK)


def _squeeze_newlines(text: bytes) -> bytes:
    """Rule 7."""
    while b"\n\n\n" in text:
        text = text.replace(b"\n\n\n", b"\n\n")
    return text.replace(_BREAK + b"\n\n", _BREAK + b"\n")


def squeeze_empty_lines(
    texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE
) -> list[bytes]:
    """Rule 7 alone, for texts that lost lines after they were cleaned."""
    if not texts:
        return []
    first = _EDGE_BYTE if continues is not Edge.NONE else b""
    last = _EDGE_BYTE if open is not Edge.NONE else b""
    whole = _squeeze_newlines(_BREAK + first + _BREAK.join(texts) + last + _BREAK)
    return whole.replace(_EDGE_BYTE, b"")[1:-1].split(_BREAK)
