"""Counts of all documents of a batch, by the kernel or by its plain twin; words are split once."""

from collections.abc import Callable

import numpy as np

from tokenmill import kernel
from tokenmill.text.filters.rule import Batch
from tokenmill.text.filters.word_rule import split_words, tables

QUALITY, REPETITION, LINES = range(3)
"""What `measure_texts` of the kernel counts."""


def count_all(
    batch: Batch,
    what: int,
    num_columns: int,
    plain: Callable[[str, list[str]], list[int]],
    short_line: int = 0,
) -> np.ndarray:
    """(columns, documents) int64; `plain` gives those of a text and its words, all in Python."""
    counts = np.empty((len(batch), num_columns), np.int64)
    if kernel.compiled is not None:
        kernel.compiled.measure_texts(
            batch.whole, batch.ends, *split_batch(batch), counts, tables(), what, short_line
        )
    else:
        for number, (text, words) in enumerate(words_of(batch)):
            counts[number] = plain(text, words)
    return counts.T


def split_batch(batch: Batch) -> tuple[bytes, bytes]:
    """The words of a batch as the kernel has them, and their number up to the end of each text."""
    if "words" not in batch.shared:
        assert kernel.compiled is not None
        batch.shared["words"] = kernel.compiled.split_words(batch.whole, batch.ends, tables())
    words: tuple[bytes, bytes] = batch.shared["words"]
    return words


def words_of(batch: Batch) -> list[tuple[str, list[str]]]:
    """The texts of a batch, each with its words, without the kernel."""
    if "texts and words" not in batch.shared:
        batch.shared["texts and words"] = [(text, split_words(text)) for text in batch.strings]
    found: list[tuple[str, list[str]]] = batch.shared["texts and words"]
    return found


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; 0 of nothing is 0."""
    shares: np.ndarray = part / np.maximum(whole, 1)
    return shares


def repeated(items: list[str]) -> tuple[int, int]:
    """How many items were there before, and their characters."""
    seen: set[str] = set()
    again = []
    for item in items:
        if item in seen:
            again.append(item)
        seen.add(item)
    return len(again), sum(map(len, again))
