"""Masks of chat that are wrong in the ways that happen: silently, and whole datasets at a time.

A template without marks gives a mask of zeros, a missing one a mask of ones; a shift by one loses
the first token of every answer, or the end of the turn. So what is next to the answers is compared:
the token before one belongs to the header, which is always the same.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tokenmill.look.token_sample import SplitSample, Trap, percent

NUM_DOCUMENTS = 200
LEAST_ANSWERS = 8
MOST = 0.9  # of the answers
FEW = 0.5
_FIX = "prepare the conversations again, with --chat"


def targets(sample: SplitSample) -> Iterator[Trap]:
    """Look at the edges of the answers in some documents, by the column `loss`."""
    if "loss" not in sample.data.columns:
        return
    ranges = list(sample.documents(NUM_DOCUMENTS))
    masks = [sample.data.column("loss", *edges) != 0 for edges in ranges]
    num_tokens = sum(map(len, masks))
    num_targets = sum(int(mask.sum()) for mask in masks)
    if len(ranges) >= LEAST_ANSWERS and num_targets == 0:
        evidence = f"not one of {num_tokens:,} tokens in {len(ranges):,} documents is a target"
        yield Trap("no-target", sample.split, evidence, f"nothing would be learned: {_FIX}")
    elif len(ranges) >= LEAST_ANSWERS and num_targets == num_tokens:
        evidence = f"all {num_tokens:,} tokens in {len(ranges):,} documents are targets"
        fix = f"leave `loss` out if that is meant (columns=[]), or {_FIX}"
        yield Trap("all-targets", sample.split, evidence, fix)
    elif sample.tokenizer is not None:
        yield from _edges_of_answers(sample, ranges, masks)


def _edges_of_answers(
    sample: SplitSample, ranges: list[tuple[int, int]], masks: list[np.ndarray]
) -> Iterator[Trap]:
    specials = set(sample.tokenizer.special_ids.values()) | {sample.tokenizer.end_of_text_id}
    before = [Counter[int](), Counter[int]()]  # of answers: the token before, and the one before it
    ends: Counter[int] = Counter()  # special tokens right after an answer that has none at its end
    num_answers = 0
    for (start, stop), mask in zip(ranges, masks, strict=True):
        ids = sample.data.tokens(start, stop).tolist()
        edges = np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2)
        for first, last in edges.tolist():
            num_answers += 1
            before[0].update(ids[max(0, first - 1) : first])
            before[1].update(ids[max(0, first - 2) : max(0, first - 1)])
            is_ended = specials.intersection(ids[max(first, last - 2) : last])
            if last < len(ids) - 1 and ids[last] in specials and not is_ended:
                ends[ids[last]] += 1
    if num_answers < LEAST_ANSWERS:
        return
    (nearest, near), (_, beyond) = (
        counts.most_common(1)[0] if counts else (0, 0) for counts in before
    )
    if near < FEW * num_answers and beyond > MOST * num_answers:
        evidence = (
            f"what is before an answer differs (most often id {nearest}: "
            f"{percent(near, num_answers)}), and the token before that is always the same: the "
            "first token of answers is no target"
        )
        yield Trap("first-token-not-learned", sample.split, evidence, f"do not shift; {_FIX}")
    number, count = ends.most_common(1)[0] if ends else (0, 0)
    if count > MOST * num_answers:
        evidence = (
            f"after {count:,} of {num_answers:,} answers comes the special token {number}, which "
            "is no target: the model never learns to end its turn"
        )
        yield Trap("end-of-turn-not-learned", sample.split, evidence, _FIX)
