"""Which documents hold a test item, by the runs of words that were found in them.

A run that is in more than ten documents, or in more than three passages, is boilerplate: an
instruction, a licence, a saying. So is one that has most of its words in such runs. Boilerplate
counts only where at least half of the runs of a passage of 26 words or more are in the document: an
item that was copied often is still an item.
"""

from dataclasses import dataclass

import numpy as np

from tokenmill.text.evals.known_runs import KnownRuns

MANY_DOCUMENTS = 10
MANY_PASSAGES = 3
SHARE = 0.5


def _different(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different pairs of two arrays, (pairs, 2), and which one each is."""
    pairs, which = np.unique(np.stack([one, other], axis=1), axis=0, return_inverse=True)
    return pairs, which.reshape(-1)


def _says_more(known: KnownRuns, is_common: np.ndarray) -> np.ndarray:
    """Return for each owner of a run if half of its words there are in no common run."""
    sizes = np.fromiter(map(len, known.words), np.int64, len(known.words))
    begin = (np.cumsum(sizes) - sizes)[known.passages] + known.positions
    width = np.minimum(known.width, sizes[known.passages])
    common = np.repeat(is_common, np.diff(known.starts))
    edges = np.bincount(begin[common], minlength=sizes.sum() + 1).astype(np.int64)
    edges -= np.bincount((begin + width)[common], minlength=sizes.sum() + 1)
    before = np.append(0, np.cumsum(np.cumsum(edges) == 0))
    more: np.ndarray = 2 * (before[begin + width] - before[begin]) >= width
    return more


@dataclass(frozen=True)
class Found:
    """Documents that hold an item, and what of it."""

    documents: np.ndarray
    """(found,) each once, ascending."""
    passages: np.ndarray
    """(found,) the passage of which the largest share is there."""
    counts: np.ndarray
    """(hits,) bool: which of the hits count."""
    all_passages: np.ndarray
    """Every passage that was found somewhere."""
    boilerplate: int
    """Runs that were found, and are in too many documents or passages."""


def judge(known: KnownRuns, documents: np.ndarray, runs: np.ndarray) -> Found:
    """Decide by all hits: (hits,) the document, and the run."""
    pairs, of_hit = _different(documents, runs)
    num_documents = np.bincount(pairs[:, 1], minlength=len(known.hashes))
    num_owners = np.diff(known.starts)
    is_common = (num_documents > MANY_DOCUMENTS) | (num_owners > MANY_PASSAGES)
    # For each document and run, every passage that has the run.
    owners = num_owners[pairs[:, 1]]
    which = np.repeat(np.arange(len(pairs)), owners)
    within = np.arange(len(which)) - np.repeat(np.cumsum(owners) - owners, owners)
    owner = known.starts[pairs[which, 1]] + within
    held, group = _different(pairs[which, 0], known.passages[owner])
    sizes = np.fromiter(map(len, known.words), np.int64, len(known.words))
    num_runs = np.maximum(1, sizes - known.width + 1)
    says_more = ~is_common[pairs[which, 1]] & _says_more(known, is_common)[owner]
    is_rare = np.bincount(group, says_more, len(held)) > 0
    share = np.bincount(group, minlength=len(held)) / num_runs[held[:, 1]]
    is_much = (share >= SHARE) & (sizes[held[:, 1]] >= 2 * known.width)
    is_held = is_rare | is_much
    # By document, the passage of the largest share comes last.
    order = np.lexsort((-held[:, 1], share, held[:, 0]))
    order = order[is_held[order]]
    last = np.append(held[order[1:], 0] != held[order[:-1], 0], True)[: len(order)]
    chosen = held[order[last]]
    is_good = np.zeros(len(pairs), np.bool_)
    is_good[which[is_held[group]]] = True
    return Found(
        documents=chosen[:, 0],
        passages=chosen[:, 1],
        counts=is_good[of_hit],
        all_passages=np.unique(held[is_held, 1]),
        boilerplate=int((is_common & (num_documents > 0)).sum()),
    )
