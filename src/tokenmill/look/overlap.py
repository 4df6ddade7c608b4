"""train-val-overlap: held-out text that is trained on.

Runs of 32 tokens are hashed at every position, one in 64 of the hashes is kept (the same ones
wherever a run occurs), and blocks of train are compared with all that was kept of val. It finds
copies at any offset and in any order of documents. A sentence that two documents share is not
enough: a block counts when most of its hashes are in val.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.look.token_sample import BLOCK_TOKENS, SplitSample, Trap

RUN = 32  # tokens; a power of two
KEEP = 64  # one hash in 64 is kept
VAL_TOKENS = 64 << 20
LEAST_HASHES = 8
SHARE = 0.5  # of the hashes of a piece of train that are in val
PIECE_TOKENS = 1 << 12  # tokens of train that are judged together
NOTED = 0.01  # share of val; pages that occur twice are in every crawl
FAULTY = 0.05


def check(train: SplitSample, val: SplitSample) -> Iterator[Trap]:
    """Pieces of the sample of train whose text is in val."""
    kept = [np.empty(0, np.uint64)]
    total = val.data.num_tokens
    for start in range(0, min(total, VAL_TOKENS), BLOCK_TOKENS):
        block = val.data.tokens(start, min(start + BLOCK_TOKENS + RUN - 1, total))
        kept.append(_kept(block)[0])
    known = np.unique(np.concatenate(kept))
    if not len(known):
        return
    pieces = 0
    shared = []
    matched = [known[:0]]
    for start, ids in train.blocks:
        hashes, places = _kept(ids)
        nearest = known[np.minimum(np.searchsorted(known, hashes), len(known) - 1)]
        inside = nearest == hashes
        for low in range(0, len(ids), PIECE_TOKENS):
            here = (places >= low) & (places < low + PIECE_TOKENS)
            if int(here.sum()) < LEAST_HASHES:
                continue
            pieces += 1
            if float(inside[here].mean()) > SHARE:
                shared.append(start + low)
                matched.append(hashes[here & inside])
    # Each text of val counts once, however often train has it.
    looked_at = len(train.ids) / train.data.num_tokens
    of_val = min(1.0, len(np.unique(np.concatenate(matched))) / len(known) / looked_at)
    if of_val >= NOTED:
        both = f"{len(shared):,} of {pieces:,} pieces of train, the first at token {shared[0]:,}"
        evidence = f"about {of_val:.0%} of {val.split} is in train: {both}"
        fix = "split again, by document, before writing, and remove doubled documents"
        where = f"{train.split} and {val.split}"
        yield Trap("train-val-overlap", where, evidence, fix, is_fault=of_val >= FAULTY)


def _kept(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The kept hashes of all runs in these ids, and where each run begins."""
    hashes = ids.astype(np.uint64)
    # Hash of 2 runs side by side from the hashes of each: 5 passes give runs of 32.
    width = 1
    while width < RUN and len(hashes) > width:
        left, right = hashes[:-width], hashes[width:]
        hashes = (left ^ (left >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + right
        width *= 2
    if width < RUN:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    places = np.flatnonzero((hashes >> np.uint64(40)) % np.uint64(KEEP) == 0)
    return hashes[places], places
