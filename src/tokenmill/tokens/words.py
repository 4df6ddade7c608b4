"""Count words: the pieces that a split pattern makes of a text, inside which BPE merges.

A text is first cut where no match of a published pattern changes (`cuts.py`: spaces and newlines
inside ordinary text), and equal runs between two cuts are counted. The pattern then sees each
different run once: on 28 MB of English this takes 0.5 to 0.8 of the time of the pattern on the
whole text. Any other pattern sees whole documents.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tokenmill.errors import BadInputError, FormatError, MissingExtraError
from tokenmill.tokens.same_ids import probes
from tokenmill.tokens.split_patterns import ONE_EXPRESSION
from tokenmill.tokens.tiktoken_file import not_matched
from tokenmill.tokens.tokenizer import failures_of

END = 0xFF  # between two documents: no byte of UTF-8
_BLOCK = 1 << 20  # bytes that are cut at a time: what fits a cache
MOST_RUNS = 1 << 19  # different ones in memory, some 80 MB
MOST_WORDS = 1 << 18  # the same, some 40 MB
# A pattern of the user's may split a text; usual ones split some million characters in a second.
SECONDS_OF_A_TEXT = 5
CHARACTERS_OF_A_SECOND = 100_000

Flags = npt.NDArray[np.bool_]


def _bytes_in(*ranges: tuple[int, int]) -> Flags:
    flags = np.zeros(256, bool)
    for first, last in ranges:
        flags[first : last + 1] = True
    return flags


# As in cuts.py: first bytes of characters that are known not to be white space.
_LEAD_2 = _bytes_in((0xC3, 0xDF))
_LEAD_3 = _bytes_in((0xE0, 0xE0), (0xE4, 0xEF))
_LEAD_4 = _bytes_in((0xF0, 0xF4))
_ASCII = _bytes_in((0x21, 0x7E))
_AFTER_SPACE = _bytes_in((0x21, 0x7E), (0xC3, 0xE0), (0xE4, 0xF4))
_AFTER_NEWLINE = _bytes_in((0x21, 0x2E), (0x30, 0x7E), (0xE5, 0xE8))


class WordCounter:
    """Counts the words of texts, for a split pattern by name or as it is written.

    `spill` is given the words whenever there are many different ones, and in the end; none of its
    calls knows of the others, so the counts are to be added up.
    """

    def __init__(self, pattern: str, spill: Callable[[dict[bytes, int]], None]) -> None:
        self._words: Counter[str] = Counter()
        self._runs: Counter[bytes] = Counter()
        self._split = split_by(pattern)
        self._is_cut = pattern in ONE_EXPRESSION
        self._spill = spill

    def add(self, text: bytes | memoryview) -> None:
        """Count whole documents, with END between them."""
        if not self._is_cut:
            for document in bytes(text).split(bytes([END])):
                self._count(document, 1)
            return
        rest = b""
        for start in range(0, len(text), _BLOCK):
            data = np.frombuffer(rest + bytes(text[start : start + _BLOCK]), np.uint8)
            *runs, rest = np.insert(data, find_cuts(data), END).tobytes().split(bytes([END]))
            self._runs.update(runs)
            if len(self._runs) > MOST_RUNS:
                self._split_runs()
        self._runs[rest] += 1

    def finish(self) -> None:
        """Spill what is left."""
        self._split_runs()
        self._give_out()

    def _split_runs(self) -> None:
        for run, count in self._runs.items():
            self._count(run, count)
        self._runs.clear()

    def _count(self, run: bytes, count: int) -> None:
        for word in self._split(run.decode()):
            self._words[word] += count
        if len(self._words) > MOST_WORDS:
            self._give_out()

    def _give_out(self) -> None:
        words = {word.encode(): count for word, count in self._words.items()}
        self._words.clear()
        if words:
            self._spill(words)


def find_cuts(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.intp]:
    """Return positions at which a text may be cut: nearly all of them in ordinary text."""
    gap = np.flatnonzero((data == 0x20) | (data == 0x0A))
    gap = gap[(gap >= 4) & (gap < len(data) - 1)]
    before = _ASCII[data[gap - 1]] | _LEAD_2[data[gap - 2]]
    before |= _LEAD_3[data[gap - 3]] | _LEAD_4[data[gap - 4]]
    is_space = data[gap] == 0x20
    after = np.where(is_space, _AFTER_SPACE[data[gap + 1]], _AFTER_NEWLINE[data[gap + 1]])
    cuts = gap + ~is_space  # before a space, after a newline
    found: npt.NDArray[np.intp] = cuts[before & after]
    return found


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that means something else to `tokenizers`, which reads the result."""
    if pattern in ONE_EXPRESSION:
        return
    with failures_of("regex", f"use the pattern {pattern!r:.200}"):
        split = split_by(pattern)
    with failures_of("tokenizers", f"use the pattern {pattern!r:.200}"):
        from tokenizers import Regex, pre_tokenizers

        theirs = pre_tokenizers.Split(Regex(pattern), "isolated")
    for text in map(bytes.decode, probes()):
        with failures_of("tokenizers", f"split {text[:40]!r} by the pattern {pattern!r:.200}"):
            pieces = [piece for piece, _ in theirs.pre_tokenize_str(text)]
        if split(text) != pieces:
            raise FormatError(
                f"the pattern {pattern!r:.200} splits {text[:40]!r} in one way for the package "
                "regex, and in another for tokenizers",
                hint="`$`, `^` and `{1,3}+` mean different things to them; write it without",
            )


def split_by(pattern: str) -> Callable[[str], list[str]]:
    """Return a function that splits a text; text that does not match is a BadInputError."""
    try:
        import regex
    except ImportError:
        raise MissingExtraError(
            "training a tokenizer", package="regex", extra="tokenizers"
        ) from None
    compiled = regex.compile(ONE_EXPRESSION.get(pattern, pattern))

    def split(text: str) -> list[str]:
        seconds = SECONDS_OF_A_TEXT + len(text) // CHARACTERS_OF_A_SECOND
        try:
            words = [match[0] for match in compiled.finditer(text, timeout=seconds)]
        except TimeoutError:
            raise BadInputError(
                f"the pattern {pattern!r:.200} does not split {text[:40]!r}, {len(text):,} "
                f"characters, within {seconds} seconds",
                hint="a repeated group that matches one text in several ways takes for ever; "
                "write a+ in place of (a+)+",
            ) from None
        if (kept := sum(map(len, words))) != len(text):
            raise not_matched(pattern, kept, len(text), "characters")
        return words

    return compiled.findall if pattern in ONE_EXPRESSION else split
