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

How: the texts are joined with the byte 0xFF, which is in no UTF-8, and each rule is a pass over the
whole buffer, made only if a quick look finds something to do. Which bytes go by rules 5 to 7 is
computed for all of them at once with NumPy: about 1 ms a MB for all three, if the buffer fits into
the cache. Loops of `bytes.replace` with needles of two bytes took twenty times that.

Rule 4 decodes only if some character could change. Most text holds no character that NFC touches,
though much of it is not ASCII: accented Latin letters, Greek, Cyrillic, Chinese, curly quotes and
emoji are all in NFC unless a combining mark follows. So the characters are looked up in a table of
those that NFC could change, join or move.

A document cut in two is cleaned in pieces: what a newline or a blank at the cut means is only known
when both pieces are, so `clean` leaves the cut alone and `join_edge` finishes rule 7 there.
"""

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, starmap

import numpy as np
import numpy.typing as npt

from tokenmill.text.reading.chunks import Edge
from tokenmill.text.reading.split_at import split_at

_SPACE, _TAB, _NEWLINE = 0x20, 0x09, 0x0A
_DELETED = b"\xfd"  # in no UTF-8, as the next two
_BREAK = b"\xff"
_EDGE = b"\xfe"
_WINDOW_BYTES = 1 << 16  # larger ones make the allocator ask the system for pages again and again
_SAFE_PLACE = re.compile(rb"\n(?=[!-~])|[!-~](?= [!-~])")
_CONTROLS = bytes(set(range(0x20)) - {9, 10} | {0x7F})
_FEW = 60  # below one in so many bytes that go, they are marked and looked for one by one
_RARE = 100  # below one character that NFC may change in so many bytes, words are picked out
_NFC_RANGES = [(0x300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20)]
_CONTROLS_2 = re.compile(rb"\xc2[\x80-\x9f]")


def clean(
    texts: Sequence[bytes], *, continues: Edge = Edge.NONE, open: Edge = Edge.NONE
) -> list[bytes]:
    """The texts (valid UTF-8), cleaned; as many as before, some perhaps empty now.

    `continues` and `open` are those of the chunk: the first text continues an earlier piece, and
    the last one is continued by a later piece.
    """
    cleaned: list[bytes] = []
    for start, stop in _groups(texts):
        # A text is between two breaks; at an edge another byte keeps it from looking whole.
        at_start = start == 0 and continues is not Edge.NONE
        at_end = stop == len(texts) and open is not Edge.NONE
        first = _BREAK + _EDGE if at_start else _BREAK
        last = _EDGE + _BREAK if at_end else _BREAK
        if stop - start > 1:
            is_ascii = all(map(bytes.isascii, texts[start:stop]))
            whole = b"".join([first, _BREAK.join(texts[start:stop]), last])
            whole = _clean_window(whole, is_ascii=is_ascii)
        else:
            whole = _clean_one(texts[start], first, last)
        if at_start or at_end:
            whole = whole.replace(_EDGE, b"")
        cleaned += split_at(_BREAK, whole)[1:-1] if stop - start > 1 else [whole]
    return cleaned


def _groups(texts: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Runs of texts that fit into the cache together; a larger text is a run of its own."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = 0
    while start < len(texts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _WINDOW_BYTES, "right")))
        yield start, stop
        start = stop


def _clean_one(text: bytes, first: bytes, last: bytes) -> bytes:
    """One text, perhaps large, in windows that fit into the cache, cut where no rule looks across.

    That is before a character that is seen, at the start of a line or with one space before it:
    the blanks and newlines around are all in one window, and nothing joins across the cut.
    """
    windows: list[bytes] = []
    start = 0
    while start < len(text) or not windows:
        place = _SAFE_PLACE.search(text, start + _WINDOW_BYTES)
        stop = place.end() if place else len(text)
        windows.append(text[start:stop])
        start = stop
    windows[0] = first + windows[0]
    windows[-1] += last
    is_ascii = text.isascii()
    windows = [_clean_window(window, is_ascii=is_ascii) for window in windows]
    windows[0] = windows[0][1:]
    windows[-1] = windows[-1][:-1]
    return b"".join(windows)


def _clean_window(text: bytes, *, is_ascii: bool) -> bytes:
    """A window of texts that are ASCII, or not; with breaks around each text."""
    text = _delete_ascii_controls(text)
    if not is_ascii:
        text = nfc(_delete_other_controls(text))
    return _squeeze_newlines(_squeeze_blanks(text))


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


def _delete_ascii_controls(text: bytes) -> bytes:
    """Rules 2 and 3, of ASCII."""
    data = np.frombuffer(text, np.uint8)
    # Most texts have none. With 11 less, those above the newline are the lowest of all bytes.
    if data.min() < _TAB or (data - np.uint8(11)).min() < 0x20 - 11 or b"\x7f" in text:
        return text.translate(None, _CONTROLS)
    return text


def _delete_other_controls(text: bytes) -> bytes:
    """Rule 1, and the rest of rule 3."""
    data = np.frombuffer(text, np.uint8)
    if b"\xc2" in text and (data[np.flatnonzero(data == 0xC2) + 1] < 0xA0).any():
        text = _CONTROLS_2.sub(b"", text)
    if b"\xef" in text and b"\xef\xbb\xbf" in text:
        text = text.replace(b"\xef\xbb\xbf", b"")
    return text


def nfc(text: bytes) -> bytes:
    """The UTF-8 text in NFC; what is not UTF-8 stays, and keeps its sides apart."""
    places = may_change(text)
    if not len(places):
        return text
    if len(places) * _RARE > len(text):
        return b" ".join([_nfc_of_word(word) for word in text.split(b" ")])
    parts = []
    done = 0
    for place in places.tolist():
        if place >= done:
            # A space is safe to cut at: it joins nothing before or after it.
            start = max(done, text.rfind(b" ", done, place))
            stop = text.find(b" ", place)
            stop = len(text) if stop < 0 else stop
            parts += [text[done:start], _nfc_of_word(text[start:stop])]
            done = stop
    return b"".join([*parts, text[done:]])


def _nfc_of_word(text: bytes) -> bytes:
    decoded = text.decode("utf-8", "surrogateescape")
    if unicodedata.is_normalized("NFC", decoded):
        return text
    return unicodedata.normalize("NFC", decoded).encode("utf-8", "surrogateescape")


def may_change(text: bytes) -> npt.NDArray[np.int64]:
    """Where the characters are that NFC could change, join or move."""
    data = np.frombuffer(text, np.uint8)
    # U+0300 and up begin with 0xCC and up; below, NFC changes nothing. Nor does it in Russian
    # (0xD0, 0xD1), in Chinese (0xE4 to 0xE9) or in most of Korean (0xEB, 0xEC).
    lead = data - np.uint8(0xCC) < 0xF8 - 0xCC
    if not lead.any():
        return np.zeros(0, np.int64)
    lead &= (data - np.uint8(0xD0) > 1) & (data - np.uint8(0xE4) > 5) & (data - np.uint8(0xEB) > 1)
    leads = np.flatnonzero(lead)
    if not len(leads):
        return leads
    padded = np.concatenate([data, np.zeros(3, np.uint8)]) if leads[-1] + 3 >= len(data) else data
    first = data[leads].astype(np.int32)
    second, third, fourth = (padded[leads + n].astype(np.int32) & 0x3F for n in (1, 2, 3))
    code = np.where(
        first < 0xE0,
        (first & 0x1F) << 6 | second,
        np.where(
            first < 0xF0,
            (first & 0x0F) << 12 | second << 6 | third,
            (first & 0x07) << 18 | second << 12 | third << 6 | fourth,
        ),
    )
    return leads[_nfc_table()[code]]


@functools.cache
def _nfc_table() -> npt.NDArray[np.bool_]:
    """True for every character that is not in NFC alone, or could join or move (30 ms, once)."""
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
    return table


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
    places = places[(two_before == _NEWLINE) | (two_before == _BREAK[0])]
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
