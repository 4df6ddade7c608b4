"""Sketches: texts that are similar have a band in common, so that only such pairs are compared.

A sketch has 40 bins, each with the least hash of the runs of words that fall into it. For two texts
of similarity J, a bin is equal with probability J. Four bins are a band, and one of the ten bands
is equal with probability 1 - (1 - J**4)**10: 0.995 at J = 0.8, and 0.9993 at 0.85; but 0.08 at 0.3.
A document is 10 hashes.

Bins are filled round by round (fast similarity sketching): one hash for each run of words, where
MinHash needs forty, and texts of few words fill their bins in later rounds.
"""

from itertools import count

import numpy as np

from tokenmill import kernel
from tokenmill.text.near.word_runs import hash_runs, mix

NUM_BANDS = 10
ROWS = 4
_FREE_ROUNDS = 32
_OF_ROUND = 0xD1342543DE82EF95


def hash_bands(
    texts: list[bytes], width: int, *, code: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return (texts, NUM_BANDS) uint64, and the runs of each text, 0 if it has no word."""
    if kernel.compiled is not None:
        bands, counts = kernel.compiled.hash_bands(texts, code, width, NUM_BANDS, ROWS)
        hashes = np.frombuffer(bands, np.uint64).reshape(-1, NUM_BANDS)
        return hashes, np.frombuffer(counts, np.int64)
    runs = [hash_runs(text, width, code=code) for text in texts]
    hashes = np.zeros((len(texts), NUM_BANDS), np.uint64)
    for number, of_text in enumerate(runs):
        if len(of_text):
            hashes[number] = _join_bins(_fill_bins(of_text))
    return hashes, np.fromiter(map(len, runs), np.int64, len(runs))


def _fill_bins(runs: np.ndarray) -> np.ndarray:
    num_bins = NUM_BANDS * ROWS
    bins = np.zeros(num_bins, np.uint64)
    is_free = np.ones(num_bins, np.bool_)
    for round_number in count():
        hashes = mix(runs ^ np.uint64((round_number + 1) * _OF_ROUND % (1 << 64)))
        into = (hashes >> np.uint64(32)) * np.uint64(num_bins) >> np.uint64(32)
        if round_number >= _FREE_ROUNDS:
            into[:] = round_number - _FREE_ROUNDS
        least = np.full(num_bins, np.iinfo(np.uint64).max)
        np.minimum.at(least, into.astype(np.intp), hashes)
        is_new = is_free & (np.bincount(into.astype(np.intp), minlength=num_bins) > 0)
        bins[is_new] = least[is_new]
        is_free &= ~is_new
        if not is_free.any():
            break
    return bins


def _join_bins(bins: np.ndarray) -> np.ndarray:
    hashes = np.arange(NUM_BANDS, dtype=np.uint64)
    for row in bins.reshape(NUM_BANDS, ROWS).T:
        hashes = mix(hashes ^ row)
    return hashes
