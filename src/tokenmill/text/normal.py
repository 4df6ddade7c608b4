"""Unicode NFC for a large buffer, decoded only if some character in it could change.

Most text holds no character that NFC touches, though much of it is not ASCII: accented Latin
letters, Greek, Cyrillic, Chinese, curly quotes and emoji are all in NFC unless a combining mark
follows. So the buffer's characters are looked up in a table of those that NFC could change, join
or move; without any, the buffer is in NFC as it is.
"""

import functools
import unicodedata
from itertools import chain, starmap

import numpy as np
import numpy.typing as npt

_NUL = b"\x00"
_LOOKED_AT = [(0x300, 0x3400), (0xA000, 0xAC00), (0xF900, 0x20000), (0x2F800, 0x2FA20)]


def nfc(text: bytes, separator: bytes) -> bytes:
    """The UTF-8 texts, joined by one byte that is not UTF-8, in NFC; they hold no NUL."""
    if not may_change(text):
        return text
    # NUL is a character of its own that nothing joins, so it keeps the texts apart meanwhile.
    decoded = text.replace(separator, _NUL).decode()
    if unicodedata.is_normalized("NFC", decoded):
        return text
    return unicodedata.normalize("NFC", decoded).encode().replace(_NUL, separator)


def may_change(text: bytes) -> bool:
    """Whether the text holds a character that NFC could change, join or move."""
    data = np.frombuffer(text, np.uint8)
    # U+0300 and up begin with 0xCC and up; below, NFC changes nothing.
    leads = np.flatnonzero(data >= 0xCC)
    leads = leads[data[leads] < 0xF8]
    if not len(leads):
        return False
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
    return bool(_table()[code].any())


@functools.cache
def _table() -> npt.NDArray[np.bool_]:
    """True for every character that is not in NFC alone, or could join or move (30 ms, once)."""
    table = np.zeros(0x200000, np.bool_)
    # Left out: ideographs, Hangul syllables, surrogates, private use, and what has no meaning yet.
    for code in chain(*starmap(range, _LOOKED_AT)):
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
