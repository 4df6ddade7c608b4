"""Counts of all documents of a batch, by the kernel or by its plain twin."""

from collections.abc import Callable

import numpy as np

from tokenmill import kernel
from tokenmill.text.filters.rule import Batch
from tokenmill.text.filters.word_rule import tables

QUALITY, REPETITION, LINES = range(3)
"""What `measure_texts` of the kernel counts."""


def count_all(
    batch: Batch, what: int, num_columns: int, plain: Callable[[str], list[int]], short_line: int = 0
) -> np.ndarray:
    """(columns, documents) int64; `plain` gives the columns of one text, all in Python."""
    counts = np.empty((len(batch), num_columns), np.int64)
    if kernel.compiled is not None:
        kernel.compiled.measure_texts(batch.whole, batch.ends, counts, tables(), what, short_line)
    else:
        for number, text in enumerate(batch.texts):
            counts[number] = plain(text.decode())
    return counts.T


def share(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole; 0 of nothing is 0."""
    shares: np.ndarray = part / np.maximum(whole, 1)
    return shares


def repeated(items: list[str]) -> tuple[int, int]:
    """How many items were there before, and their characters."""
    seen: set[str] = set()
    again = [item for item in items if item in seen or seen.add(item)]  # type: ignore[func-returns-value]
    return len(again), sum(map(len, again))
