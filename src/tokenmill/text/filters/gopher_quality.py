"""The filter `gopher_quality`: the quality rules of Gopher (Rae et al. 2021, appendix A.1.1)."""

from dataclasses import dataclass

from tokenmill.text.filters.characters import LETTER, SYMBOL, class_of
from tokenmill.text.filters.counts import QUALITY, count_all, share
from tokenmill.text.filters.rule import Batch, Rule, Verdict

STOP_WORDS = frozenset(["the", "be", "to", "of", "and", "that", "have", "with"])
_COLUMNS = 10


@dataclass(frozen=True)
class GopherQuality(Rule):
    """Too few or too many words, words too short or too long, too many symbols."""

    name = "gopher_quality"
    reasons = (
        "few words",
        "many words",
        "short words",
        "long words",
        "hashes",
        "ellipses",
        "bullets",
        "lines that end with an ellipsis",
        "words without a letter",
        "few stop words",
    )
    min_words: int = 50
    max_words: int = 100_000
    """Words that have a character that is no symbol."""
    min_word_length: float = 3.0
    max_word_length: float = 10.0
    """Their mean number of characters."""
    max_symbols_per_word: float = 0.1
    """Of `#`, and of ellipses."""
    max_bullet_lines: float = 0.9
    max_ellipsis_lines: float = 0.3
    min_alphabetic_words: float = 0.8
    """Share of all words that have a letter."""
    min_stop_words: int = 2
    """Different ones of: the, be, to, of, and, that, have, with."""

    def apply(self, batch: Batch) -> Verdict:
        (words, real, characters, alphabetic, stop_words, hashes, ellipses, lines, bullets,
         ends) = count_all(batch, QUALITY, _COLUMNS, count_quality)  # fmt: skip
        length = share(characters, real)
        hashes_per_word, ellipses_per_word = share(hashes, words), share(ellipses, words)
        bullet_lines, ellipsis_lines = share(bullets, lines), share(ends, lines)
        with_letter = share(alphabetic, words)
        return Verdict.first_of(
            batch,
            [
                (real < self.min_words, real),
                (real > self.max_words, real),
                (length < self.min_word_length, length),
                (length > self.max_word_length, length),
                (hashes_per_word > self.max_symbols_per_word, hashes_per_word),
                (ellipses_per_word > self.max_symbols_per_word, ellipses_per_word),
                (bullet_lines > self.max_bullet_lines, bullet_lines),
                (ellipsis_lines > self.max_ellipsis_lines, ellipsis_lines),
                (with_letter < self.min_alphabetic_words, with_letter),
                (stop_words < self.min_stop_words, stop_words),
            ],
        )


def count_quality(text: str, words: list[str]) -> list[int]:
    """What the kernel counts in one text."""
    real = [word for word in words if not all(class_of(c) & SYMBOL for c in word)]
    lines = text.splitlines()
    return [
        len(words),
        len(real),
        sum(map(len, real)),
        sum(any(class_of(c) & LETTER for c in word) for word in words),
        len(STOP_WORDS.intersection(words)),
        text.count("#"),
        text.count("...") + text.count("\u2026"),
        len(lines),
        sum(line.lstrip().startswith(("\u2022", "-")) for line in lines),
        sum(line.rstrip().endswith(("...", "\u2026")) for line in lines),
    ]
