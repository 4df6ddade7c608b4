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

from collections.abc import Sequence

from tokenmill.text.cleaning.characters import clean_characters
from tokenmill.text.cleaning.line_work import Lines
from tokenmill.text.cleaning.squeeze import squeeze
from tokenmill.text.reading.chunks import Edge


def clean(texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE) -> Lines:
    """The texts (valid UTF-8), cleaned; as many as before, some perhaps empty now.

    `continues` and `open` are those of the chunk: the first text continues an earlier piece, and
    the last one is continued by a later piece.
    """
    return squeeze(
        clean_characters(texts),
        continues=continues is not Edge.NONE,
        open=open is not Edge.NONE,
    )


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
