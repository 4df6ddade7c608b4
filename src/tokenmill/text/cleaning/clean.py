"""Cleaning: eight rules, in this order, for many texts at once.

1. U+FEFF (the byte order mark) is deleted, wherever it is.
2. CR LF becomes LF.
3. Control characters are deleted: U+0000 to U+001F but newline and tab, U+007F, U+0080 to U+009F.
   A CR on its own is one of them.
4. Unicode NFC.
5. A run of two or more spaces and tabs becomes one space; a lone tab stays.
6. Spaces and tabs at the end of a line and of the document are deleted.
7. At most one empty line in a row: three or more newlines become two; at the start of a document,
   where no line comes before, two or more become one.
8. Nothing else: no character is added, no newline at the end is added or deleted.

Cleaning twice is cleaning once. Since rule 3 takes every CR that rule 2 leaves, the two together
delete CRs.

A document cut in two is cleaned in pieces: what a newline or a blank at the cut means is only known
when both pieces are, so `clean` leaves the cut alone and `join_edge` finishes rule 7 there.
"""

import re
from collections.abc import Sequence

import numpy as np

from tokenmill import kernel
from tokenmill.text.cleaning.characters import clean_characters
from tokenmill.text.cleaning.line_work import Lines, find_lines
from tokenmill.text.reading.chunks import Edge

_BLANKS_AT_LINE_END = re.compile(rb"(?<![ \t])[ \t]++(?=\n)")
_BLANKS = re.compile(rb"[ \t]{2,}")
_NEWLINES_AT_START = re.compile(rb"\A\n{2,}")
_NEWLINES = re.compile(rb"\n{3,}")


def clean(texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE) -> Lines:
    """Return the texts (valid UTF-8), cleaned; as many as before, some perhaps empty now.

    `continues` and `open` are those of the chunk: the first text continues an earlier piece, and
    the last one is continued by a later piece.
    """
    texts = clean_characters(texts)
    does_continue = continues is not Edge.NONE
    is_open = open is not Edge.NONE
    if kernel.compiled is not None:
        whole, stops, firsts = kernel.compiled.squeeze(texts, does_continue, is_open)
        return Lines(whole, np.frombuffer(stops, np.int64), np.frombuffer(firsts, np.int64))
    last = len(texts) - 1
    return find_lines(
        [
            _squeeze(text, does_continue and number == 0, is_open and number == last)
            for number, text in enumerate(texts)
        ]
    )


def _squeeze(text: bytes, continues: bool, is_open: bool) -> bytes:
    # Rules 5 and 6: runs of spaces and tabs become one space, and none at the end of a line.
    text = _BLANKS_AT_LINE_END.sub(b"", text)
    if not is_open:
        text = text.rstrip(b" \t")
    text = _BLANKS.sub(b" ", text)
    # Rule 7: three or more newlines become two; two or more at the start of a text become one.
    if not continues:
        text = _NEWLINES_AT_START.sub(b"\n", text)
    return _NEWLINES.sub(b"\n\n", text)


def join_edge(before: bytes, head: bytes) -> bytes:
    """The cleaned `head`, as it is after `before` in one document (rule 7).

    `before` is the cleaned text of the document so far, or at least its last three bytes.

    >>> join_edge(b"end\\n\\n", b"\\n\\nnext")
    b'next'
    """
    run = len(before) - len(before.rstrip(b"\n"))
    most = 2 if run < len(before) else 1
    newlines = len(head) - len(head.lstrip(b"\n"))
    return head[max(0, newlines - max(0, most - run)) :]
