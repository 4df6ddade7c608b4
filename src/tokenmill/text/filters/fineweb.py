"""The filter `fineweb`: what FineWeb (Penedo et al. 2024) added to the rules of Gopher and C4."""

import re
from dataclasses import dataclass
from functools import partial

import numpy as np

from tokenmill.text.filters.characters import TERMINAL, class_of
from tokenmill.text.filters.counts import LINES, count_all, num_words, repeated, share
from tokenmill.text.filters.rule import Batch, Rule, Verdict

_COLUMNS = 7
_BEGINS = re.compile(r"(?:\A|(?<=[ \t-\r]))[!-}]")


@dataclass(frozen=True)
class Fineweb(Rule):
    """Lists, tables and menus, by their lines; lines are not blank."""

    name = "fineweb"
    reasons = (
        "no text",
        "few lines that end a sentence",
        "short lines",
        "characters in repeated lines",
        "many lines",
    )
    min_lines_that_end_a_sentence: float = 0.12
    short_line: int = 30
    """Most characters of a short line."""
    max_short_lines: float = 0.67
    max_characters_in_repeated_lines: float = 0.01
    max_newlines_per_word: float = 0.3

    def apply(self, batch: Batch) -> Verdict:
        lines, ends, short, again, characters, newlines, words = count_all(
            batch,
            LINES,
            _COLUMNS,
            partial(count_lines, short_line=self.short_line),
            self.short_line,
        )
        end_share, short_share = share(ends, lines), share(short, lines)
        again_share, newline_share = share(again, characters), share(newlines, words)
        # At least these words are there: only where they are too few, all are counted.
        unsure = np.flatnonzero(newline_share > self.max_newlines_per_word)
        newline_share[unsure] = share(newlines[unsure], num_words(batch, unsure))
        return Verdict.first_of(
            batch,
            [
                (lines == 0, lines),
                (end_share < self.min_lines_that_end_a_sentence, end_share),
                (short_share > self.max_short_lines, short_share),
                (again_share > self.max_characters_in_repeated_lines, again_share),
                (newline_share > self.max_newlines_per_word, newline_share),
            ],
        )


def count_lines(text: str, short_line: int) -> list[int]:
    """What the kernel counts in one text."""
    lines = [line for line in text.split("\n") if line.strip()]
    return [
        len(lines),
        sum(class_of(line[-1]) & TERMINAL != 0 for line in lines),
        sum(len(line) <= short_line for line in lines),
        repeated(lines)[1],
        len(text) - text.count("\n"),
        text.count("\n"),
        len(_BEGINS.findall(text)),
    ]
