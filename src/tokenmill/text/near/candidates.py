"""Candidates: pairs of documents that have a band in common.

All pairs of a group of up to eight. In a larger group, which has a template in common or is one
text many times, each document is paired with the four that stay first, and with the one before it.
So the number of pairs grows with the documents, not with their square.
"""

from collections.abc import Callable

import numpy as np

SMALL_GROUP = 8
FIRST_ONES = 4


def pair_up(
    keys: np.ndarray, documents: np.ndarray, by_rank: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Return pairs of different documents with equal keys, each as (larger, smaller) number.

    A pair may be there several times.

    `keys` and `documents` are (n,) uint64. `by_rank` gives a number for each of some documents;
    those of a large group with the least are paired with all others.
    """
    order = np.lexsort((documents, keys))
    keys, documents = keys[order], documents[order]
    first, size = _groups(keys)
    in_large = size > SMALL_GROUP
    pairs = [
        _pairs_in_small(*(array[(size > 1) & ~in_large] for array in (documents, first, size)))
    ]
    if in_large.any():
        pairs.append(_pairs_in_large(keys[in_large], documents[in_large], by_rank))
    found = np.concatenate(pairs)
    found = found[found[:, 0] != found[:, 1]]
    found.sort(axis=1)
    later_first: np.ndarray = found[:, ::-1]
    return later_first


def unique_pairs(pairs: np.ndarray) -> np.ndarray:
    """Return the different ones of (n, 2) numbers, sorted."""
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    is_new = np.append(True, (pairs[1:] != pairs[:-1]).any(axis=1))[: len(pairs)]
    different: np.ndarray = pairs[is_new]
    return different


def _groups(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each of some sorted keys how many equal ones are before it, and in all."""
    starts = (
        np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, int)
    )
    sizes = np.diff(starts, append=len(keys))
    return np.arange(len(keys)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)


def _pairs_in_small(documents: np.ndarray, before: np.ndarray, size: np.ndarray) -> np.ndarray:
    pairs = [np.empty((0, 2), np.uint64)]
    for distance in range(1, SMALL_GROUP):
        (later,) = np.nonzero(before >= distance)
        pairs.append(np.stack([documents[later], documents[later - distance]], axis=1))
    return np.concatenate(pairs)


def _pairs_in_large(
    keys: np.ndarray, documents: np.ndarray, by_rank: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    order = np.lexsort((documents, by_rank(documents), keys))
    keys, documents = keys[order], documents[order]
    before, _ = _groups(keys)
    starts = np.arange(len(keys)) - before
    pairs = [np.stack([documents[1:], documents[:-1]], axis=1)[keys[1:] == keys[:-1]]]
    for number in range(FIRST_ONES):
        (others,) = np.nonzero(before > number)
        pairs.append(np.stack([documents[others], documents[starts[others] + number]], axis=1))
    return np.concatenate(pairs)
