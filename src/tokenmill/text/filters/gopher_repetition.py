"""The filter `gopher_repetition`: repeated lines, paragraphs and n-grams (Gopher, table A1).

Words, lines and n-grams are known by 64-bit hashes, within one document: of a million different
n-grams, two meet in one hash with a probability of 3 in 100 million.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tokenmill.text.filters.counts import REPETITION, count_all, repeated, share
from tokenmill.text.filters.rule import Batch, Rule, Verdict

_COLUMNS = 7
_MOST_WORDS = 100
Shares = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class GopherRepetition(Rule):
    """Too much of the text is there before, or is one n-gram."""

    name = "gopher_repetition"
    max_repeated_lines: float = 0.3
    max_repeated_paragraphs: float = 0.3
    """Shares of the number of lines, or of paragraphs, between empty lines."""
    max_characters_in_repeated_lines: float = 0.2
    max_characters_in_repeated_paragraphs: float = 0.2
    """Shares of all characters of the text."""
    max_top_ngrams: Shares = ((2, 0.2), (3, 0.18), (4, 0.16))
    """For n words, the share of characters in the n-gram that is there most often."""
    max_repeated_ngrams: Shares = (
        (5, 0.15),
        (6, 0.14),
        (7, 0.13),
        (8, 0.12),
        (9, 0.11),
        (10, 0.10),
    )
    """For n words, the share of characters in n-grams that are there before; none counts twice."""

    def __post_init__(self) -> None:
        for key in ("max_top_ngrams", "max_repeated_ngrams"):
            for pair in getattr(self, key):
                if not _is_share(pair):
                    raise ValueError(
                        f"{key} of the filter {self.name} has {pair!r}; expected is a number of "
                        f"words, from 2 to {_MOST_WORDS}, and a share, such as [2, 0.2]"
                    )

    @property
    def reasons(self) -> tuple[str, ...]:  # type: ignore[override]
        return (
            "repeated paragraphs",
            "characters in repeated paragraphs",
            "repeated lines",
            "characters in repeated lines",
            *(f"top {n}-gram" for n, _ in self.max_top_ngrams),
            *(f"repeated {n}-grams" for n, _ in self.max_repeated_ngrams),
        )

    def apply(self, batch: Batch) -> Verdict:
        sizes = [n for n, _ in (*self.max_top_ngrams, *self.max_repeated_ngrams)]
        longest = max(sizes, default=1)
        num_columns = _COLUMNS + 2 * (longest - 1)
        counts = count_all(
            batch, REPETITION, num_columns, partial(count_repetition, longest=longest)
        )
        characters, paragraphs, same_paragraphs, in_paragraphs, lines, same_lines, in_lines = (
            counts[:_COLUMNS]
        )
        top, again = counts[_COLUMNS : _COLUMNS + longest - 1], counts[_COLUMNS + longest - 1 :]
        found = [
            (share(same_paragraphs, paragraphs), self.max_repeated_paragraphs),
            (share(in_paragraphs, characters), self.max_characters_in_repeated_paragraphs),
            (share(same_lines, lines), self.max_repeated_lines),
            (share(in_lines, characters), self.max_characters_in_repeated_lines),
            *((share(top[n - 2], characters), most) for n, most in self.max_top_ngrams),
            *((share(again[n - 2], characters), most) for n, most in self.max_repeated_ngrams),
        ]
        return Verdict.first_of(batch, [(value > most, value) for value, most in found])


def _is_share(pair: object) -> bool:
    match pair:
        case (int(n), int() | float()):
            return 2 <= n <= _MOST_WORDS
    return False


def count_repetition(text: str, words: list[str], longest: int) -> list[int]:
    """What the kernel counts in one text, with n-grams of up to `longest` words."""
    paragraphs, lines = re.split("\n{2,}", text.strip()), re.split("\n+", text)
    sizes = range(2, longest + 1)
    return [
        len(text),
        len(paragraphs),
        *repeated(paragraphs),
        len(lines),
        *repeated(lines),
        *(_top_characters(list(_ngrams(words, n))) for n in sizes),
        *(_repeated_characters(list(_ngrams(words, n))) for n in sizes),
    ]


def _ngrams(words: list[str], n: int) -> Iterator[tuple[str, ...]]:
    return zip(*(words[first:] for first in range(n)), strict=False)


def _top_characters(ngrams: list[tuple[str, ...]]) -> int:
    """Characters of the most frequent n-gram, the first of several, with spaces between words."""
    if not ngrams:
        return 0
    ((top, count),) = Counter(ngrams).most_common(1)
    return count * len(" ".join(top))


def _repeated_characters(ngrams: list[tuple[str, ...]]) -> int:
    seen: set[tuple[str, ...]] = set()
    total = at = 0
    while at < len(ngrams):
        ngram = ngrams[at]
        is_new = ngram not in seen
        seen.add(ngram)
        total += 0 if is_new else sum(map(len, ngram))
        at += 1 if is_new else len(ngram)
    return total
