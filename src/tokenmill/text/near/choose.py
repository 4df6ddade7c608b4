"""What goes: a document goes only if it is similar to one that stays.

Documents are looked at by rank. One that is similar to a document of lower rank that stays goes;
all others stay. So of a chain in which each is similar to the next, not all go for the first.
"""

import numpy as np

_AT_ONCE = 1 << 16


def choose_kept(pairs: np.ndarray, similarity: np.ndarray, num_documents: int) -> np.ndarray:
    """Return for each document the rank of the most similar one that stays in its place, or -1.

    `pairs` are (n, 2) ranks of similar documents, the lower one first.
    """
    order = np.lexsort((pairs[:, 0], pairs[:, 1]))
    goes = bytearray(num_documents)
    for start in range(0, len(order), _AT_ONCE):
        for kept, other in pairs[order[start : start + _AT_ONCE]].tolist():
            if not goes[kept]:
                goes[other] = 1
    stays = np.frombuffer(goes, np.uint8)[pairs[:, 0]] == 0
    pairs, similarity = pairs[stays], similarity[stays]
    # The last one written counts: the most similar, and of these the lowest rank.
    order = np.lexsort((-pairs[:, 0], similarity))
    instead = np.full(num_documents, -1, np.int64)
    instead[pairs[order, 1]] = pairs[order, 0]
    return instead
