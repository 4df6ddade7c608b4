"""Cleaning: the seven rules of docs/guides/cleaning.md, for many texts at once.

Rule 3 takes every CR that rule 2 leaves, so the two together delete CRs. A document cut in two is
cleaned in pieces: what a newline or a blank at the cut means is only known when both pieces are, so
`clean` leaves the cut alone and `join_edge` finishes rule 7 there.

Few texts have anything to change by rules 1 to 4, and these are looked for first. Most text holds
no character that NFC touches, though much of it is not ASCII. So the characters are looked up in a
table of those that NFC could change, join or move.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, starmap

import numpy as np

from tokenmill import kernel
from tokenmill.text.cleaning.line_work import Lines, find_lines
from tokenmill.text.reading.chunks import Edge

_CONTROLS = bytes(set(range(0x20)) - {9, 10} | {0x7F})
_CONTROLS_2 = re.compile(rb"\xc2[\x80-\x9f]")
_BLOCK_BYTES = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DELETED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xef\xbb\xbf")
_NFC_RANGES = [(0x300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20)]
_BLANKS_AT_LINE_END = re.compile(rb"(?<![ \t])[ \t]++(?=\n)")
_BLANKS = re.compile(rb"[ \t]{2,}")
_NEWLINES_AT_START = re.compile(rb"\A\n{2,}")
_NEWLINES = re.compile(rb"\n{3,}")


def clean(texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE) -> Lines:
    """Return the texts (valid UTF-8), cleaned; as many as before, some perhaps empty now.

    `continues` and `open` are those of the chunk: the first text continues an earlier piece, and
    the last one is continued by a later piece.
    """
    texts = _clean_characters(texts)
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


def _clean_characters(texts: Sequence[bytes]) -> list[bytes]:
    """Return the texts (valid UTF-8) after rules 1 to 4."""
    cleaned = list(texts)
    for number in _odd_texts(cleaned):
        blocks = list(_in_blocks(cleaned[number]))
        for at in _odd_texts(blocks):
            block = blocks[at].translate(None, _CONTROLS)
            blocks[at] = block if block.isascii() else _clean_lines(block)
        cleaned[number] = b"".join(blocks)
    return cleaned


def _in_blocks(text: bytes) -> Iterator[bytes]:
    """Yield a text in blocks of whole lines: of a large one, few have anything to change."""
    start = 0
    while start < len(text):
        stop = text.find(b"\n", start + _BLOCK_BYTES) + 1 or len(text)
        yield text[start:stop]
        start = stop


def _odd_texts(texts: list[bytes]) -> list[int]:
    """Return the numbers of the texts that may change, and perhaps of some others."""
    if kernel.compiled is not None:
        bits = b"" if all(map(bytes.isascii, texts)) else nfc_bits()
        odd: list[int] = kernel.compiled.odd_texts(texts, bits)
        return odd
    return [
        number
        for number, text in enumerate(texts)
        if _DELETED.search(text) or not unicodedata.is_normalized("NFC", text.decode())
    ]


def _clean_lines(text: bytes) -> bytes:
    """Clean the lines that need it: few do, and a newline joins nothing before or after it."""
    lines = _CONTROLS_2.sub(b"", text).replace(_BYTE_ORDER_MARK, b"").split(b"\n")
    for number in _odd_texts(lines):
        lines[number] = unicodedata.normalize("NFC", lines[number].decode()).encode()
    return b"\n".join(lines)


@functools.cache
def nfc_bits() -> bytes:
    """Return a bit, the lowest first, for every character that is not in NFC alone, or could join
    or move (30 ms)."""
    table = np.zeros(0x200000, np.bool_)
    # Left out: ideographs, Hangul syllables, surrogates, private use, and what has no meaning yet.
    for code in chain(*starmap(range, _NFC_RANGES)):
        character = chr(code)
        if unicodedata.combining(character):
            table[code] = True
        elif mapping := unicodedata.decomposition(character):
            if mapping[0] == "<":
                continue
            joined = [chr(int(part, 16)) for part in mapping.split()]
            table[code] |= not unicodedata.is_normalized("NFC", character)
            table[[ord(second) for second in joined[1:]]] = True
    table[0x1161:0x1176] = True  # Hangul vowels and finals join by arithmetic, not by a mapping
    table[0x11A8:0x11C3] = True
    return np.packbits(table, bitorder="little").tobytes()


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
