"""Documents that do not begin or end as they should, come in a sorted order, or are held out.

Without a mark the model never learns that a text ends; with two (one by the tokenizer, one by the
writer) it learns that an end is followed by an end. Neighbours in documents that are sorted by
source, language, date or length are alike; in shuffled data their correlation is 0, give or take
1/sqrt(n). Nothing is said of the order of tokenmill's datasets, which is that of the input files.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.errors import TokenmillError
from tokenmill.look.token_sample import BLOCK_TOKENS, SplitSample, Trap

NUM_DOCUMENTS = 200
LEAST_DOCUMENTS = 8
LEAST_TOKENS = 200_000  # a split without one mark may be one book; more is more likely a mistake
MOST = 0.5  # share of documents that begin alike, where nothing names the id
ADDED_TWICE = "tokenizer and writer each added one: prepare again with only one of them adding it"
DOUBLED = 0.2  # share of marks that are followed by another; empty documents make a few
ORDER_DOCUMENTS = 800
LEAST_ORDER_DOCUMENTS = 64
ORDER_TOKENS = 256  # of each document
ALIKE = 0.35  # correlation
SIGMAS = 5  # chance gives 1 / sqrt(n), and rarely 5 times that
RUN = 32  # tokens; a power of two
KEEP = 64  # one hash in 64 is kept
VAL_TOKENS = 64 << 20
LEAST_HASHES = 8
SHARE = 0.5  # of the hashes of a piece of train that are in val
PIECE_TOKENS = 1 << 12  # tokens of train that are judged together
NOTED = 0.01  # share of val; pages that occur twice are in every crawl
FAULTY = 0.05


def doubled_ends(sample: SplitSample) -> Iterator[Trap]:
    """Count end-of-text ids that are followed by another."""
    end = sample.data.end_of_text_id
    if end is None:
        return
    marks = pairs = 0
    for _, ids in sample.blocks:
        is_mark = ids == end
        marks += int(is_mark.sum())
        pairs += int((is_mark[1:] & is_mark[:-1]).sum())
    # Padding is a run of marks, which shard_files.py names; here they come in pairs.
    if pairs >= LEAST_DOCUMENTS and DOUBLED < pairs / marks < 0.7:
        evidence = f"{pairs:,} of {marks:,} end-of-text ids ({end}) are followed by another"
        yield Trap("doubled-end-of-text", sample.split, evidence, ADDED_TWICE)


def no_ends(sample: SplitSample) -> Iterator[Trap]:
    """Look for an end-of-text id in the sample, where no index says how documents end."""
    ids = sample.ids
    end = sample.data.end_of_text_id
    if sample.data.num_documents is not None or end is None:
        return
    if len(ids) >= LEAST_TOKENS and not bool((ids == end).any()):
        evidence = f"not one of {len(ids):,} tokens is the end-of-text id {end}"
        fix = "prepare again with an end-of-text id after each document, unless it is one long text"
        yield Trap("missing-end-of-text", sample.split, evidence, fix, is_fault=False)


def missing_ends(sample: SplitSample) -> Iterator[Trap]:
    """Look at the edges of some documents of the index."""
    data = sample.data
    if data.num_documents is None or data.details.get("rows"):
        return
    ranges = list(sample.documents(NUM_DOCUMENTS))
    if len(ranges) < LEAST_DOCUMENTS:
        return
    last = np.concatenate([data.tokens(stop - 1, stop) for _, stop in ranges])
    first = np.concatenate([data.tokens(start, start + 1) for start, _ in ranges])
    end = data.end_of_text_id
    if end is not None:
        marked = int(((last == end) | (first == end)).sum())
        least = 1.0
    else:
        # Nothing names the id: good documents still agree on their last token, or on their first,
        # and have it nowhere else (as they have the end of a line).
        marked = max(_marked_by_their_own(sample, ranges, x) for x in (last, first))
        least = 0.9
    if marked < least * len(ranges):
        without = len(ranges) - marked
        mark = f"the end-of-text id {end}" if end is not None else "a mark common to all"
        evidence = f"{without:,} of {len(ranges):,} documents neither end nor begin with {mark}"
        fix = "write a mark at the end of each (Megatron: --append-eod; datatrove: eos_token)"
        is_fault = end is not None and data.has_manifest
        yield Trap("missing-end-of-text", sample.split, evidence, fix, is_fault)


def _marked_by_their_own(
    sample: SplitSample, ranges: list[tuple[int, int]], edge: np.ndarray
) -> int:
    """Documents that have the most common token of their edges once, there and nowhere else."""
    values, counts = np.unique(edge, return_counts=True)
    mark = values[counts.argmax()]
    found = 0
    for (start, stop), token in zip(ranges, edge.tolist(), strict=True):
        if token == mark:
            found += int((sample.data.tokens(start, stop) == mark).sum()) == 1
    return found


def begin_tokens(sample: SplitSample) -> Iterator[Trap]:
    """Check the first two ids of some documents, spread over the split."""
    data = sample.data
    ranges = list(sample.documents(NUM_DOCUMENTS, least=2))
    if len(ranges) < LEAST_DOCUMENTS:
        return
    heads = np.stack([data.tokens(start, start + 2) for start, _ in ranges])  # (documents, 2)
    begin = data.begin_token_id
    if begin is None:
        begin = _unnamed_begin(sample, heads)
    else:
        # The very first may be the rest of a document, where the end of the tokens was held out.
        whole = heads[1:] if ranges[0][0] == 0 else heads
        if without := int((whole[:, 0] != begin).sum()):
            evidence = f"{without:,} of {len(whole):,} documents do not begin with token {begin}"
            fix = "name the id that they begin with, or prepare the text again with --begin_token"
            yield Trap("missing-begin-token", sample.split, evidence, fix)
    if doubled := int((heads == begin).all(axis=1).sum()):
        evidence = f"{doubled:,} of {len(heads):,} documents begin with token {begin} twice"
        yield Trap("doubled-begin-token", sample.split, evidence, ADDED_TWICE)


def _unnamed_begin(sample: SplitSample, heads: np.ndarray) -> int:
    """Return the special id that most documents begin with twice; -1 if there is none."""
    values, counts = np.unique(heads[heads[:, 0] == heads[:, 1], 0], return_counts=True)
    if not len(values) or counts.max() < MOST * len(heads):
        return -1
    try:
        special = getattr(sample.tokenizer, "special_ids", {})
    except (TokenmillError, ImportError):
        return -1
    begin = int(values[counts.argmax()])
    is_begin = begin in special.values() and begin != sample.data.end_of_text_id
    return begin if is_begin else -1


def never_shuffled(sample: SplitSample) -> Iterator[Trap]:
    """Correlation of each feature between neighbours in the sample."""
    data = sample.data
    if data.has_manifest or data.details.get("rows"):
        return
    rows = []
    for start, stop in sample.documents(ORDER_DOCUMENTS):
        ids = data.tokens(start, min(stop, start + ORDER_TOKENS)).astype(np.int64)
        rows.append((np.log2(stop - start), np.log2(ids + 1).mean(), (ids < 512).mean()))
    if len(rows) < LEAST_ORDER_DOCUMENTS:
        return
    names = ("length", "mean id", "share of common ids")
    found = dict(zip(names, map(_correlation, np.array(rows).T), strict=True))
    name = max(names, key=lambda name: found[name])
    if found[name] > max(ALIKE, SIGMAS / len(rows) ** 0.5):
        alike = f"correlation {found[name]:.2f} of their {name} (0 in shuffled data)"
        evidence = f"{len(rows):,} documents are like their neighbours: {alike}"
        fix = "none for tokenmill's shuffled order; for others, shuffle documents before writing"
        yield Trap("never-shuffled", sample.split, evidence, fix, is_fault=False)


def _correlation(values: np.ndarray) -> float:
    """Between each value and the next; by rank, so that one long document does not decide."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(float)
    if np.ptp(values) == 0:
        return 0.0
    return float(np.corrcoef(ranks[:-1], ranks[1:])[0, 1])


def train_in_val(train: SplitSample, val: SplitSample) -> Iterator[Trap]:
    """Find pieces of the sample of train whose text is in val, by hashes of runs of 32 tokens.

    One in 64 of the hashes is kept, the same ones wherever a run occurs, so copies are found at any
    offset and in any order of documents. A sentence that two documents share is not enough: a piece
    counts when most of its hashes are in val.
    """
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
