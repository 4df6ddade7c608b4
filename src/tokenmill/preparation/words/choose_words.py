"""Which words merges are learned from: all of them, or, where memory is limited, the frequent ones.

One rule: words that occur fewer than `least_count` times are left out, and that is the smallest
number for which the rest fits. So it depends on the text and the memory allowed, on nothing else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.errors import PrepareError
from tokenmill.preparation.budget.memory_budget import PER_DRIVER
from tokenmill.preparation.words.count_words import WordFile
from tokenmill.preparation.words.word_runs import CountedWords

BYTES_PER_SYMBOL = 32  # of memory while merges are learned; measured: 25
HIGHEST_LIMIT = 1 << 16  # words that occur as often are never left out


class ChosenWords(NamedTuple):
    """What merges are learned from."""

    text: bytes
    """The words one after another."""
    lengths: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    least_count: int
    """How often a word must occur; 1 where none is left out."""
    left_out: int
    """Different words that are left out."""


def choose_words(files: Sequence[WordFile], max_ram: int | None) -> ChosenWords:
    """The words that fit into the memory."""
    least_count = 1 if max_ram is None else _least_count(files, max_ram)
    texts, lengths, counts, num_words = [], [], [], 0
    for path, num in files:
        words = CountedWords.read(path, num)
        words = words.take(np.flatnonzero(words.counts >= least_count))
        texts.append(words.text.tobytes())
        lengths.append(words.lengths.astype(np.int64))
        counts.append(words.counts.astype(np.int64))
        num_words += num
    kept = np.concatenate([np.empty(0, np.int64), *lengths])
    return ChosenWords(
        b"".join(texts),
        kept,
        np.concatenate([np.empty(0, np.int64), *counts]),
        least_count,
        num_words - len(kept),
    )


def _least_count(files: Sequence[WordFile], max_ram: int) -> int:
    by_count = np.zeros(HIGHEST_LIMIT + 1, np.int64)
    """Symbols of the words that occur so many times: their bytes, and one for each word."""
    for path, num in files:
        words = CountedWords.read(path, num)
        counts = np.minimum(words.counts, HIGHEST_LIMIT).astype(np.int64)
        by_count += np.bincount(counts, words.lengths + 1.0, len(by_count)).astype(np.int64)
    room = (max_ram - PER_DRIVER) // BYTES_PER_SYMBOL
    from_here_on: npt.NDArray[Any] = np.cumsum(by_count[::-1])[::-1]
    if from_here_on[-1] > room:
        raise PrepareError(
            f"the words that occur {HIGHEST_LIMIT:,} times or more do not fit into max_ram",
            hint="allow more memory: max_ram=",
        )
    return max(1, int(np.argmax(from_here_on <= room)))
