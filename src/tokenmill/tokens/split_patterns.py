r"""Split patterns: which pieces a text is split into, before BPE merges bytes inside each piece.

A pattern is a regular expression. gigatoken runs none: it has code of its own for most published
patterns, ten times as fast. So a pattern is looked up here as it is written; tests compare each
entry with tiktoken and with `tokenizers`. For each of them, the argument of `cuts.py` holds.

Two dialects are in use, and the same text may mean two things: in `tokenizer.json` files, `{1,3}+`
repeats a repetition and `$` is the end of a line. In rank files, as tiktoken reads them, the first
takes all it can for good, and the second is the end of the text.
"""

import re
from typing import NamedTuple

from tokenmill.base.suggest import did_you_mean

# Parts that several patterns share.
_SUFFIXES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE_WORD = r"[^\r\n\p{L}\p{N}]?"
_REST = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CAPITALISED = rf"{_BEFORE_WORD}{_UPPER}*{_LOWER}+"
_IN_CAPITALS = rf"{_BEFORE_WORD}{_UPPER}+{_LOWER}*"
_SIGNS_AND_SLASHES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|"

_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_SUFFIXES}|{_BEFORE_WORD}\p{{L}}+|\p{{N}}{{1,3}}{_SIGNS}{_REST}"
_QWEN2 = rf"{_SUFFIXES}|{_BEFORE_WORD}\p{{L}}+|\p{{N}}{_SIGNS}{_REST}"
_QWEN35 = (
    rf"{_SUFFIXES}|{_BEFORE_WORD}[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_REST}"
)
_O200K = (
    rf"{_CAPITALISED}{_SUFFIXES}?|{_IN_CAPITALS}{_SUFFIXES}?|\p{{N}}{{1,3}}"
    rf"{_SIGNS_AND_SLASHES}{_REST}"
)
_NEMOTRON = rf"{_CAPITALISED}|{_IN_CAPITALS}|\p{{N}}{_SIGNS_AND_SLASHES}{_REST}"
_DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
)
# The same as one expression. What one step isolates is split by the next ones, but by itself: so
# nothing has characters of both sides of an edge, and white space looks ahead no further.
_CJK = "\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff"
_INSIDE = f"(?=[{_CJK}])"
_OUTSIDE = f"(?![{_CJK}])"
_LETTER = r"[\p{L}\p{M}]"
_SIGN = r"[\p{P}\p{S}]"
_OTHER = r"[^\s\p{L}\p{M}\p{N}\p{P}\p{S}]"
_DEEPSEEK3_AT_ONCE = (
    r"\p{N}{1,3}"
    rf"|(?:{_INSIDE}{_OTHER})?(?:{_INSIDE}{_LETTER})+|(?:{_INSIDE}{_SIGN})+"
    rf"|(?:{_INSIDE}{_OTHER}(?!{_INSIDE}{_LETTER}))+"
    "|[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    rf"|(?:{_OUTSIDE}[^\r\n\p{{L}}\p{{N}}\p{{P}}\p{{S}}])?(?:{_OUTSIDE}{_LETTER})+"
    rf"| ?(?:{_OUTSIDE}{_SIGN})+[\r\n]*|\s*[\r\n]+|\s+(?![^\s\p{{N}}{_CJK}])|\s+"
    rf"|(?:{_OUTSIDE}{_OTHER}(?!{_OUTSIDE}{_LETTER}))+"
)
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
_POSSESSIVE_WORDS = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+"


class SplitPattern(NamedTuple):
    """A published pattern."""

    scheme: str
    """gigatoken's name for it."""
    splits: tuple[tuple[str, ...], ...] = ()
    """How files write it, the same in both dialects: one expression, or several in turn."""
    regexes: tuple[str, ...] = ()
    """How else it is written for rank files."""
    known: str | None = None
    """How gigatoken knows it, if not by the first of `splits`."""


PATTERNS = {
    "gpt2": SplitPattern(
        "gpt2",
        (
            (_GPT2,),
            (r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",),
        ),
        (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",),
    ),
    "cl100k": SplitPattern(
        "gpt4",
        (
            (
                r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?![\s\S])|\s*[\r\n]|\s+(?!\S)|\s",
            ),
        ),
        (_CL100K,),
        known=_CL100K + "+",
    ),
    "o200k": SplitPattern("o200k", ((_O200K,),)),
    # The second way is how cl100k is often written in a `tokenizer.json`. It is not cl100k: white
    # space at the end of a text is split at its last line end.
    "llama3": SplitPattern("olmo3", ((_LLAMA3,), (_LLAMA3.replace(r"[\r\n]+", r"[\r\n]"),))),
    "qwen2": SplitPattern("qwen2", ((_QWEN2,),)),
    "qwen3.5": SplitPattern("qwen35", ((_QWEN35,),)),
    "nemotron": SplitPattern("nemotron", ((_NEMOTRON,),)),
    "deepseek3": SplitPattern("deepseek_v3", (_DEEPSEEK3, (_DEEPSEEK3_AT_ONCE,))),
    "nanochat": SplitPattern(
        "olmo3",  # which takes up to three numbers at once: `split_alike.py`
        (
            (
                rf"{_POSSESSIVE_WORDS}|\p{{N}}{{1,2}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*"
                r"|\s*[\r\n]|\s+(?!\S)|\s+",
            ),
        ),
    ),
}

ONE_EXPRESSION = {
    name: next(splits[0] for splits in pattern.splits if len(splits) == 1)
    for name, pattern in PATTERNS.items()
}
"""Every pattern as one regular expression, the same in both dialects."""


def find_pattern(given: str) -> str:
    """The name of a pattern that is named or written; one that is not published is as it is."""
    if given in PATTERNS:
        return given
    for name, pattern in PATTERNS.items():
        if given in pattern.regexes or (given,) in pattern.splits:
            return name
    if re.fullmatch(r"[\w.-]*", given):
        known = ", ".join(sorted(PATTERNS))
        raise ValueError(
            f"unknown pattern {given!r}{did_you_mean(given, PATTERNS)}; known are: {known}; "
            "others are given as a regular expression"
        )
    return given


def pattern_of_splits(splits: tuple[str, ...]) -> SplitPattern | None:
    """The published pattern that a `tokenizer.json` has, by its expressions in turn."""
    return next((p for p in PATTERNS.values() if splits in p.splits), None)


def known_to_gigatoken(pattern: SplitPattern) -> tuple[str, ...]:
    """The expressions by which gigatoken knows the scheme of a pattern."""
    first = next(p for p in PATTERNS.values() if p.scheme == pattern.scheme)
    return (first.known,) if first.known else first.splits[0]
