"""Rules 1 to 4 of cleaning: which characters stay, and NFC.

Few texts have anything to change, and these are looked for first. NFC decodes only if some
character could change. Most text holds no character that NFC touches, though much of it is not
ASCII: accented Latin letters, Greek, Cyrillic, Chinese, curly quotes and emoji are all in NFC
unless a combining mark follows. So the characters are looked up in a table of those that NFC could
change, join or move.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, starmap

import numpy as np
import numpy.typing as npt

from tokenmill import kernel
from tokenmill.text.cleaning.cache_blocks import BREAK, in_blocks
from tokenmill.text.reading.split_at import split_at

_CONTROLS = bytes(set(range(0x20)) - {9, 10} | {0x7F})
_CONTROLS_2 = re.compile(rb"\xc2[\x80-\x9f]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DELETED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xef\xbb\xbf")
_RARE = 100  # below one character that NFC may change in so many bytes, words are picked out
_NFC_RANGES = [(0x300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20)]


def clean_characters(texts: Sequence[bytes]) -> list[bytes]:
    """The texts (valid UTF-8) after rules 1 to 4."""
    texts = list(texts)
    if odd := _odd_texts(texts):
        joined = BREAK.join([texts[number] for number in odd])
        cleaned = b"".join(map(_clean_block, in_blocks(joined)))
        for number, text in zip(odd, split_at(BREAK, cleaned), strict=True):
            texts[number] = text
    return texts


def _odd_texts(texts: list[bytes]) -> list[int]:
    """Numbers of the texts that may change, and perhaps of some others."""
    if kernel.compiled is not None:
        bits = b"" if all(map(bytes.isascii, texts)) else _nfc_bits()
        odd: list[int] = kernel.compiled.odd_texts(texts, bits)
        return odd
    return [
        number
        for number, text in enumerate(texts)
        if _DELETED.search(text) or (not text.isascii() and len(may_change(text)))
    ]


def _clean_block(text: bytes) -> bytes:
    text = text.translate(None, _CONTROLS)
    if text.isascii():
        return text
    return nfc(_CONTROLS_2.sub(b"", text).replace(_BYTE_ORDER_MARK, b""))


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


@functools.cache
def _nfc_bits() -> bytes:
    """The same with a bit for each character, the lowest first."""
    return np.packbits(_nfc_table(), bitorder="little").tobytes()
