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
    plain: Callable[..., list[int]],
    short_line: int = 0,
) -> np.ndarray:
    """(columns, documents) int64, of documents that are left; `plain` gives those of a text, all in
    Python, by its words unless lines are counted."""
    counts = np.zeros((len(batch), num_columns), np.int64)
    if kernel.compiled is not None:
        words = split_batch(batch) if what != LINES else (b"", bytes(batch.ends.nbytes))
        kernel.compiled.measure_texts(
            batch.whole, batch.ends, *words, counts, batch.is_left, tables(), what, short_line
        )
    else:
        for number in np.flatnonzero(batch.is_left).tolist():
            text = batch.texts[number].decode()
            counts[number] = plain(text) if what == LINES else plain(text, split_words(text))
    return counts.T


def num_words(batch: Batch, which: np.ndarray) -> np.ndarray:
    """(which,) the number of words of some documents of a batch."""
    if kernel.compiled is None:
        texts = [batch.texts[number].decode() for number in which.tolist()]
        return np.array([len(split_words(text)) for text in texts], np.int64)
    if not batch.shared and len(which) < len(batch):
        some = Batch.of([batch.texts[number] for number in which.tolist()])
        return num_words(some, np.arange(len(some)))
    stops = np.frombuffer(split_batch(batch)[1], np.int64)
    counts: np.ndarray = np.diff(stops, prepend=0)[which]
    return counts


def split_batch(batch: Batch) -> tuple[bytes, bytes]:
    """The words of a batch as the kernel has them, and their number up to the end of each text."""
    if "words" not in batch.shared:
        assert kernel.compiled is not None
        batch.shared["words"] = kernel.compiled.split_words(batch.whole, batch.ends, tables())
    words: tuple[bytes, bytes] = batch.shared["words"]
    return words


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
