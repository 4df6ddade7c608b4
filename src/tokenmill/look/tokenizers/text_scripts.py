"""Texts are cut where their script changes, and their words are counted by script.

Spaces, digits and punctuation belong to the script before them, but one space before a word belongs
to the word. Chinese characters and Japanese kana are one script here, since Japanese mixes them in
every sentence. A word is a run of letters, marks and digits; in scripts that put no spaces between
words every letter counts as one, and so does every emoji.
"""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

HAN, EMOJI, OTHER, NO_SCRIPT = "Han and Kana", "Emoji", "Other", "Numbers and signs"
# By how Unicode names their letters.
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
SCRIPTS = (NO_SCRIPT, *dict.fromkeys(_SCRIPT_OF_NAME.values()), EMOJI, OTHER)
WITHOUT_SPACES = frozenset({HAN, "Thai", "Lao", "Khmer", "Myanmar", "Tibetan", EMOJI})
_IS_UNSPACED = np.array([name in WITHOUT_SPACES for name in SCRIPTS])
_UNSEEN = 255
_MARK, _LETTER = 1, 2  # what is in a word; 0: what is not


@dataclass
class CutTexts:
    """Pieces of one script each, and what they hold."""

    pieces: list[bytes]
    scripts: list[str]
    """Of each piece."""
    words: Counter[str] = field(default_factory=Counter)
    """By script."""


class ScriptCutter:
    """Cuts texts; remembers what it looked up about characters."""

    def __init__(self) -> None:
        self._script = np.full(0x110000, _UNSEEN, np.uint8)
        """The number of the script of each code point, or _UNSEEN."""
        self._in_word = np.zeros(0x110000, np.uint8)

    def cut(self, texts: Sequence[bytes]) -> CutTexts:
        """Cut UTF-8 texts; none of the pieces is empty."""
        strings = [text.decode() for text in texts if text]
        data = "".join(strings)
        if not data:
            return CutTexts([], [])
        points = np.frombuffer(data.encode("utf-32-le"), "<u4")
        self._look_up(points)
        starts = np.cumsum([0, *map(len, strings)])[:-1]
        script = _filled(self._script[points], starts)
        cuts = np.flatnonzero(script[1:] != script[:-1]) + 1
        cuts = np.setdiff1d(cuts, starts)
        has_space = (points[cuts - 1] == 0x20) & ~np.isin(cuts - 1, starts)
        script[(cuts - 1)[has_space]] = script[cuts[has_space]]
        begins = np.union1d(starts, cuts - has_space)
        found = CutTexts(_slices(data, points, begins), [SCRIPTS[n] for n in script[begins]])
        found.words.update(_count_words(self._in_word[points], script, starts))
        return found

    def _look_up(self, points: Array) -> None:
        for point in np.unique(points).tolist():
            if self._script[point] == _UNSEEN:
                script, category = _script_of(chr(point)), unicodedata.category(chr(point))[0]
                self._script[point] = SCRIPTS.index(script)
                if category in "LMN" or script == EMOJI:
                    self._in_word[point] = _MARK if category == "M" else _LETTER


def _script_of(letter: str) -> str:
    category = unicodedata.category(letter)
    if category == "So" and ord(letter) >= 0x2600:
        return EMOJI
    if category[0] not in "LM":
        return NO_SCRIPT
    name = unicodedata.name(letter, "").partition(" ")[0]
    if name in _SCRIPT_OF_NAME:
        return _SCRIPT_OF_NAME[name]
    return OTHER if category[0] == "L" else NO_SCRIPT  # a mark takes that of its letter


def _filled(script: Array, starts: Array) -> Array:
    """Characters without a script take that before them, or at the start of a text the next one."""
    places = np.arange(len(script))
    is_known = script != 0
    text = np.searchsorted(starts, places, "right")  # the number of each one's text
    before = np.maximum.accumulate(np.where(is_known, places, 0))
    after = np.minimum.accumulate(np.where(is_known, places, len(script) - 1)[::-1])[::-1]
    in_text = is_known[before] & (text[before] == text)
    source = np.where(in_text, before, np.where(text[after] == text, after, places))
    filled: Array = script[source]
    return filled


def _slices(data: str, points: Array, begins: Array) -> list[bytes]:
    sizes = 1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000).astype(np.int64)
    offsets = (np.cumsum(sizes) - sizes)[begins].tolist()
    encoded = data.encode()
    stops = [*offsets[1:], len(encoded)]
    return [encoded[start:stop] for start, stop in zip(offsets, stops, strict=True)]


def _count_words(in_word: Array, script: Array, starts: Array) -> dict[str, int]:
    begins = in_word > 0
    begins[1:] &= (in_word[:-1] == 0) | (script[1:] != script[:-1])
    begins[starts] = in_word[starts] > 0
    begins = np.where(_IS_UNSPACED[script], in_word == _LETTER, begins)
    counts = np.bincount(script[begins], minlength=len(SCRIPTS)).tolist()
    return {name: count for name, count in zip(SCRIPTS, counts, strict=True) if count}
