"""Choose the words to learn merges from: all, or, where memory is limited, the frequent ones.

One rule: words that occur fewer than `least_count` times are left out, and that is the smallest
number for which the rest fits. So it depends on the text and the memory allowed, on nothing else.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tokenmill.errors import PrepareError
from tokenmill.preparation.planning.memory_budget import PER_DRIVER
from tokenmill.preparation.word_runs import CountedWords

BYTES_PER_SYMBOL = 32  # of memory while merges are learned; measured: 25
HIGHEST_LIMIT = 1 << 16  # words that occur as often are never left out


class ChosenWords(NamedTuple):
    """Words to learn merges from."""

    text: bytes
    """The words one after another."""
    lengths: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    least_count: int
    """Occurrences that a word must have; 1 where none is left out."""
    left_out: int
    """Different words that are left out."""


def choose_words(files: Sequence[Path], max_ram: int | None) -> ChosenWords:
    """Return the words that fit into the memory."""
    least_count = 1 if max_ram is None else _least_count(files, max_ram)
    texts: list[bytes] = []
    lengths = [np.empty(0, np.int64)]
    counts = [np.empty(0, np.int64)]
    num_words = 0
    for path in files:
        words = CountedWords.read(path)
        num_words += len(words.counts)
        words = words.take(np.flatnonzero(words.counts >= least_count))
        texts.append(words.text.tobytes())
        lengths.append(words.lengths.astype(np.int64))
        counts.append(words.counts.astype(np.int64))
    kept = np.concatenate(counts)
    return ChosenWords(
        b"".join(texts), np.concatenate(lengths), kept, least_count, num_words - len(kept)
    )


def _least_count(files: Sequence[Path], max_ram: int) -> int:
    # symbols[n]: symbols of all words that occur n times: their bytes, and one per word
    symbols = np.zeros(HIGHEST_LIMIT + 1, np.int64)
    for path in files:
        words = CountedWords.read(path)
        counts = np.minimum(words.counts, HIGHEST_LIMIT).astype(np.int64)
        symbols += np.bincount(counts, words.lengths + 1.0, len(symbols)).astype(np.int64)
    room = (max_ram - PER_DRIVER) // BYTES_PER_SYMBOL
    at_least = np.cumsum(symbols[::-1])[::-1]  # of words that occur n times or more
    if at_least[-1] > room:
        raise PrepareError(
            f"the words that occur {HIGHEST_LIMIT:,} times or more do not fit into max_ram",
            hint="allow more memory: run=Run(max_ram=...)",
        )
    return max(1, int(np.argmax(at_least <= room)))
