"""Rules 1 to 4 of cleaning: which characters stay, and NFC.

Few texts have anything to change, and these are looked for first. Most text holds no character that
NFC touches, though much of it is not ASCII: accented Latin letters, Greek, Cyrillic, Chinese, curly
quotes and emoji are all in NFC unless a combining mark follows. So the characters are looked up in
a table of those that NFC could change, join or move.
"""

import functools
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, starmap

import numpy as np
import numpy.typing as npt

from tokenmill import kernel

_CONTROLS = bytes(set(range(0x20)) - {9, 10} | {0x7F})
_CONTROLS_2 = re.compile(rb"\xc2[\x80-\x9f]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DELETED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xef\xbb\xbf")
_NFC_RANGES = [(0x300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20)]


def clean_characters(texts: Sequence[bytes]) -> list[bytes]:
    """Return the texts (valid UTF-8) after rules 1 to 4."""
    cleaned = list(texts)
    for number in _odd_texts(cleaned):
        text = cleaned[number].translate(None, _CONTROLS)
        cleaned[number] = text if text.isascii() else _clean_lines(text)
    return cleaned


def _odd_texts(texts: list[bytes]) -> list[int]:
    """Return the numbers of the texts that may change, and perhaps of some others."""
    if kernel.compiled is not None:
        bits = b"" if all(map(bytes.isascii, texts)) else _nfc_bits()
        odd: list[int] = kernel.compiled.odd_texts(texts, bits)
        return odd
    return [
        number
        for number, text in enumerate(texts)
        if _DELETED.search(text) or not unicodedata.is_normalized("NFC", text.decode())
    ]


def _clean_lines(text: bytes) -> bytes:
    """Clean the lines that need it: few do, and a newline joins nothing before or after it."""
    lines = text.split(b"\n")
    for number in _odd_texts(lines):
        line = _CONTROLS_2.sub(b"", lines[number]).replace(_BYTE_ORDER_MARK, b"")
        lines[number] = unicodedata.normalize("NFC", line.decode()).encode()
    return b"\n".join(lines)


@functools.cache
def nfc_table() -> npt.NDArray[np.bool_]:
    """Return True for every character that is not in NFC alone, or could join or move (30 ms)."""
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
    """Return the same with a bit for each character, the lowest first."""
    return np.packbits(nfc_table(), bitorder="little").tobytes()
