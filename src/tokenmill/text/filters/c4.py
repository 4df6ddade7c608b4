"""The filter `c4`: the rules of C4 (Raffel et al. 2019), which take lines out of texts."""

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tokenmill import kernel
from tokenmill.text.filters.characters import PERIOD, PUNCTUATION, class_of
from tokenmill.text.filters.counts import split_batch
from tokenmill.text.filters.rule import KEPT, Batch, Rule, Verdict
from tokenmill.text.filters.word_rule import split_words, tables

_SENTENCES, _LOREM_IPSUM, _CURLY_BRACKET = range(3)
_LINE_REASONS = (
    "lines with a long word",
    "lines that end no sentence",
    "lines of few words",
    "lines with JavaScript",
    "lines about cookies and terms",
)
_FIRST_LINE_REASON = 3
_CHANGED = 8
_COLUMNS = 9
_FLAGS = (
    "remove_citations",
    "lines_end_sentences",
    "no_lorem_ipsum",
    "no_javascript",
    "no_curly_bracket",
    "no_policy",
)
_CITATION = re.compile(r"\[[0-9]*\]|\[edit\]|\[citation needed\]")
_POLICIES = (
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
)
_TO_LOWER = str.maketrans({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})


@dataclass(frozen=True)
class C4(Rule):
    """Lines that are no sentences go; then texts of few sentences."""

    name = "c4"
    reasons = ("lorem ipsum", "curly bracket", "few sentences")
    remove_citations: bool = True
    """Such as [12], [edit] and [citation needed]."""
    lines_end_sentences: bool = True
    """Lines that do not end with . ? ! or a quotation mark go; so do those that end with ..."""
    no_lorem_ipsum: bool = True
    """Texts with these words go, if they are in a line that is left; so with curly brackets."""
    no_javascript: bool = True
    no_curly_bracket: bool = True
    no_policy: bool = True
    """Lines with "privacy policy", "use cookies" and the like go."""
    min_sentences: int = 5
    """Of what is left."""
    min_words: int = 3
    """Of a line, between white space."""
    max_word_length: int = 1000
    """In characters; lines with a longer word go."""

    def apply(self, batch: Batch) -> Verdict:
        cleaned, counts = self._cleaned(batch)
        sentences = counts[_SENTENCES]
        lorem_ipsum, curly_bracket = counts[_LOREM_IPSUM], counts[_CURLY_BRACKET]
        verdict = Verdict.first_of(
            batch,
            [
                (lorem_ipsum > 0, lorem_ipsum),
                (curly_bracket > 0, curly_bracket),
                (sentences < max(1, self.min_sentences), sentences),  # of nothing, nothing stays
            ],
        )
        changed = np.flatnonzero((verdict.reasons == KEPT) & (counts[_CHANGED] > 0)).tolist()
        return Verdict(
            verdict.reasons,
            verdict.values,
            {n: cleaned.whole[cleaned.starts[n] : cleaned.ends[n]] for n in changed},
            dict(zip(_LINE_REASONS, counts[_FIRST_LINE_REASON:_CHANGED], strict=True)),
        )

    def _cleaned(self, batch: Batch) -> tuple[Batch, np.ndarray]:
        """The new texts, and (columns, documents) int64."""
        counts = np.empty((len(batch), _COLUMNS), np.int64)
        if kernel.compiled is None:
            texts = []
            for number, text in enumerate(batch.strings):
                lines, counts[number] = self.clean(text)
                texts.append(lines.encode())
            return Batch.of(texts), counts.T
        flags = sum(getattr(self, flag) << bit for bit, flag in enumerate(_FLAGS))
        whole, ends = kernel.compiled.clean_lines(
            batch.whole,
            batch.ends,
            *split_batch(batch),
            counts,
            batch.is_left,
            tables(),
            flags,
            self.max_word_length,
            self.min_words,
        )
        return Batch(whole, np.frombuffer(ends, np.int64)), counts.T

    def clean(self, text: str) -> tuple[str, list[int]]:
        """Return what the kernel does to one text, and its counts."""
        counts = Counter[int]()
        kept = []
        for line in text.splitlines():
            line = line.strip()
            words = line.split()
            if self.remove_citations:
                line = _CITATION.sub("", line)
            why = self._why_dropped(line, words)
            if why is None:
                kept.append(line)
                counts[_SENTENCES] += count_sentences(line)
                continue
            counts[why] += 1
            if why < _FIRST_LINE_REASON:
                kept.clear()
                break
        left = "\n".join(kept).strip()
        counts[_CHANGED] = int(left != text)
        return left, [counts[column] for column in range(_COLUMNS)]

    def _why_dropped(self, line: str, words: list[str]) -> int | None:
        long_word, no_end, few_words, javascript, policy = range(3, 8)
        lower = line.translate(_TO_LOWER)
        for column, is_so in (
            (long_word, any(len(word) > self.max_word_length >= 0 for word in words)),
            (no_end, self.lines_end_sentences and not _ends_sentence(line)),
            (few_words, len(words) < self.min_words),
            (_LOREM_IPSUM, self.no_lorem_ipsum and "lorem ipsum" in lower),
            (javascript, self.no_javascript and "javascript" in lower),
            (_CURLY_BRACKET, self.no_curly_bracket and "{" in line),
            (policy, self.no_policy and any(phrase in lower for phrase in _POLICIES)),
        ):
            if is_so:
                return column
        return None


def _ends_sentence(line: str) -> bool:
    return line.endswith((".", "?", "!", '"', "'")) and not line.endswith("...")


def count_sentences(line: str) -> int:
    """After a word that is a full stop, the first one that is no punctuation begins the next."""
    words = split_words(line)
    count, is_over = int(bool(words)), False
    for word in words:
        if len(word) == 1 and class_of(word) & PERIOD:
            is_over = True
        elif is_over and not all(class_of(character) & PUNCTUATION for character in word):
            count, is_over = count + 1, False
    return count
