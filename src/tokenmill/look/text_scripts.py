"""Texts cut where their script changes, with the number of words in each piece.

Spaces, digits and punctuation belong to the script before them, but one space before a word belongs
to the word. Chinese characters and Japanese kana are one script here, since Japanese mixes them in
every sentence. A word is a run of letters, marks and digits; in scripts that put no spaces between
words every letter counts as one, and so does every emoji.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

HAN = "Han and Kana"
EMOJI = "Emoji"
OTHER = "Other"
NO_SCRIPT = "Numbers and signs"
# The first words of the names that Unicode gives to letters.
_NAMES = (
    "LATIN GREEK CYRILLIC ARMENIAN HEBREW ARABIC SYRIAC DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA "
    "TAMIL TELUGU KANNADA MALAYALAM SINHALA THAI LAO TIBETAN MYANMAR GEORGIAN HANGUL ETHIOPIC "
    "CHEROKEE KHMER MONGOLIAN BOPOMOFO"
)
_SCRIPT_OF_NAME = {
    **{name: name.capitalize() for name in _NAMES.split()},
    **dict.fromkeys(("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "HALFWIDTH"), HAN),
    **dict.fromkeys(("FEMININE", "MASCULINE"), "Latin"),  # ordinal indicators
}
WITHOUT_SPACES = {HAN, "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", EMOJI}
# A code for each character: a letter for its script, " " for a space, "0" where it has none.
_SCRIPT_OF_CODE = dict(
    enumerate(dict.fromkeys((*_SCRIPT_OF_NAME.values(), EMOJI, OTHER)), start=ord("A"))
)
_CODES = {script: chr(code) for code, script in _SCRIPT_OF_CODE.items()} | {NO_SCRIPT: "0"}
# One script and what belongs to it; a space before another script is left to that.
_PIECE = re.compile(r"(?:\A[ 0]+| )?([^ 0])(?:\1|0| (?=\1|[ 0]|\Z))*+|[ 0]+")
_WORD = re.compile("[LM]+")


class Piece(NamedTuple):
    """Neighbouring characters of one script."""

    script: str
    text: bytes
    num_words: int


def cut_by_script(text: bytes) -> Iterator[Piece]:
    """Cut a UTF-8 text where its script changes; no piece is empty."""
    characters = text.decode()
    kinds = characters.translate(_word_kinds)
    for match in _PIECE.finditer(characters.translate(_script_codes)):
        script = _SCRIPT_OF_CODE[ord(match[1])] if match[1] else NO_SCRIPT
        in_words = kinds[match.start() : match.end()]
        unspaced = script in WITHOUT_SPACES
        num_words = in_words.count("L") if unspaced else len(_WORD.findall(in_words))
        yield Piece(script, characters[match.start() : match.end()].encode(), num_words)


class _Table(dict[int, str]):
    """A table for `str.translate`, filled as characters are met."""

    def __init__(self, code_of: Callable[[str], str]) -> None:
        super().__init__()
        self.code_of = code_of

    def __missing__(self, point: int) -> str:
        return self.setdefault(point, self.code_of(chr(point)))


def _script_of(character: str) -> str:
    category = unicodedata.category(character)
    if category == "So" and ord(character) >= 0x2600:
        return EMOJI
    if category[0] not in "LM":
        return NO_SCRIPT
    name = unicodedata.name(character, "").partition(" ")[0]
    # A mark without a script of its own takes that of the letter before it.
    return _SCRIPT_OF_NAME.get(name, OTHER if category[0] == "L" else NO_SCRIPT)


def _word_kind(character: str) -> str:
    """L for a letter, a digit or an emoji, M for a mark, a space for what is in no word."""
    category = unicodedata.category(character)[0]
    if category in "LN" or _script_of(character) == EMOJI:
        return "L"
    return "M" if category == "M" else " "


_script_codes = _Table(lambda character: " " if character == " " else _CODES[_script_of(character)])
_word_kinds = _Table(_word_kind)
