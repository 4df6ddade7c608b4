"""What the filters need to know of each character, as bits in one table.

The table is Python's own Unicode data and the lists below. Characters beyond it are ideographs that
are rare (letters), or no letters.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np

NUM_CLASSES = 0x20000
(SPACE, LETTER, LOWER, UPPER, OPENS, CLOSES, CUTS, MAY_CUT, BEFORE_DOT, QUOTE, SYMBOL, TERMINAL,
 PERIOD, PUNCTUATION, LINE_END) = (1 << bit for bit in range(15))  # fmt: skip
"""The same bits as in kernel/words.h, which says what each means."""
IDEOGRAPH = LETTER | LOWER | UPPER

QUOTES = "\"'`\u00ab\u00b4\u00bb\u2018-\u201a\u201c-\u201e\u2329\u232a\u27e6\u27e7"
QUOTES += "\u3008-\u3011\u3014\u3015\uff08\uff09,"
MARKS = "!#&()*,:;<>?[]_{}\u00a1\u00b7\u00bf\u060c\u061b\u061f\u066a\u06d4\u0964\u2026\u3001\u3002"
MARKS += "\uff01\uff0c\uff1a\uff1b\uff1f\uff5e"
CURRENCIES = "$\u00a3\u00a5\u0e3f\u20a0-\u20bf\ufdfc"
# A word of these alone is no word for gopher_quality: all marks of ASCII, controls, some others.
SYMBOLS = "\u0000-\u0008\u000b-\u001f!-/:-@[-`{-~\u007f-\u009f\u00ab\u00b4\u00bb\u2013\u2014\u2019"
SYMBOLS += "\u201c-\u201e\u2026\u2236\u2501\u25ba\u3001\u3002\u3008-\u300d\u3010\u3011\uff01\uff05"
SYMBOLS += "\uff08\uff09\uff0c\uff0e\uff0f\uff11\uff1a\uff1b\uff1f\uff5e"
# Characters that end sentences in any script (Sentence_Terminal of Unicode, and a few like them);
# those of the second list do so for fineweb only.
PERIODS = """21 2E 3F 589 61F 6D4 700-702 7F9 964-965 104A-104B 1362 1367-1368 166E 1735-1736 1803
    1809 1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 2E2E 2E3C
    3002 A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52
    FE56-FE57 FF01 FF0E FF1F FF61 10A56-10A57 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD
    111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7 11641-11642
    1173C-1173E 11A42-11A43 11A9B-11A9C 11C41-11C42 16A6E-16A6F 16AF5 16B37-16B38 16B44 1BC9F
    1DA88"""
OTHER_TERMINALS = """61D-61E 837 839 83D-83E 17D4-17D6 17D9-17DA 1B7D-1B7E 2E53-2E54 10F55-10F59
    10F86-10F89 11944 11946 11EF7-11EF8 11F43-11F44 16E98"""


@cache
def classes() -> np.ndarray:
    """(NUM_CLASSES,) uint32: the bits of each character."""
    characters = list(map(chr, range(NUM_CLASSES)))
    is_letter = _mask(map(str.isalpha, characters))
    is_lower = _mask(map(str.islower, characters))
    is_upper = _mask(map(str.isupper, characters))
    categories = np.array(list(map(unicodedata.category, characters)))
    has_no_case = is_letter & ~is_lower & ~is_upper
    table = np.zeros(NUM_CLASSES, np.uint32)
    icons = np.flatnonzero(categories == "So")
    marks = [*_listed(MARKS), *_listed(QUOTES), *icons]
    terminals = _numbered(PERIODS) + _numbered(OTHER_TERMINALS)
    for bit, where in [
        (SPACE, _mask(map(str.isspace, characters))),
        (LETTER, is_letter),
        (LOWER, is_lower | has_no_case),
        (UPPER, is_upper | has_no_case),
        (OPENS, [*marks, *_listed(CURRENCIES), *_listed("\u00a7%=\u2013\u2014")]),
        (CLOSES, [*marks, *_listed("\u2013\u2014")]),
        (CUTS, [*icons, 0x2026]),
        (MAY_CUT, _listed("-.,+*^:<>=/~\u2013\u2014")),
        (BEFORE_DOT, _listed(MARKS) + _listed(QUOTES) + _listed("-%|\u00b2+")),
        (QUOTE, _listed(QUOTES)),
        (SYMBOL, _listed(SYMBOLS) + terminals),
        (TERMINAL, terminals),
        (PERIOD, _numbered(PERIODS)),
        (PUNCTUATION, np.char.startswith(categories, "P")),
        (LINE_END, _listed("\n-\r\u001c-\u001e\u0085\u2028\u2029")),
    ]:
        table[where] |= bit
    return table


def with_class(bit: int) -> str:
    """All characters with this bit, escaped for a regular expression's brackets."""
    codes = np.flatnonzero(classes() & bit)
    first = codes[np.diff(codes, prepend=-2) > 1].tolist()
    last = codes[np.diff(codes, append=NUM_CLASSES + 1) > 1].tolist()
    if bit & IDEOGRAPH:
        first, last = [*first, NUM_CLASSES], [*last, 2 * NUM_CLASSES - 1]
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(first, last, strict=True))


def class_of(character: str) -> int:
    """The bits of one character."""
    code = ord(character)
    if code >= NUM_CLASSES:
        return IDEOGRAPH if code < 2 * NUM_CLASSES else 0
    return int(classes()[code])


def _mask(answers: Iterable[bool]) -> np.ndarray:
    return np.fromiter(answers, np.bool_, NUM_CLASSES)


def _listed(characters: str) -> list[int]:
    """The code points of characters, some of which are given as `a-z`."""
    codes: list[int] = []
    for number, character in enumerate(characters):
        if character == "-" and 0 < number < len(characters) - 1:
            codes += range(ord(characters[number - 1]), ord(characters[number + 1]))
        else:
            codes.append(ord(character))
    return codes


def _numbered(ranges: str) -> list[int]:
    """The code points of `21 589-58B`."""
    edges = [word.partition("-") for word in ranges.split()]
    return [code for a, _, b in edges for code in range(int(a, 16), int(b or a, 16) + 1)]
