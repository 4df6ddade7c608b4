"""BPE training as the books have it: count all pairs, merge one, count all again.

Nothing here comes from the code under test. The rule for ties is that of docs/guides/tokenizers.md.
"""

from collections import Counter
from itertools import pairwise

PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
BYTES = PRINTABLE + [byte for byte in range(256) if byte not in PRINTABLE]


def plain_merges(words, num_merges):
    """[(left id, right id, count)] from {word: count}."""
    spelled = {word: [BYTES.index(byte) for byte in word] for word in words}
    merges = []
    for new in range(256, 256 + num_merges):
        pairs = Counter()
        for word, ids in spelled.items():
            for pair in pairwise(ids):
                pairs[pair] += words[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        if pairs[best] < 2:
            break
        merges.append((*best, pairs[best]))
        spelled = {word: merged(ids, best, new) for word, ids in spelled.items()}
    return merges


def merged(ids, pair, new):
    found, at = [], 0
    while at < len(ids):
        if tuple(ids[at : at + 2]) == pair:
            found.append(new)
            at += 2
        else:
            found.append(ids[at])
            at += 1
    return found


def tokens_of(merges):
    """The bytes of every id."""
    tokens = [bytes([byte]) for byte in BYTES]
    for left, right, _ in merges:
        tokens.append(tokens[left] + tokens[right])
    return tokens
