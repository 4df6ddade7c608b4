"""wrong-tokenizer, ids-beyond-vocabulary and one-token: ids that the named tokenizer does not give.

An id at or above the size of the vocabulary has no text. A tokenizer that does not know the text
writes its unknown token everywhere. And a tokenizer gives one list of ids for a text: ids of
another one decode to some text too, but encoding that text again gives other ids in many places.
Pairs of neighbours are compared: of right ids all come back, of text encoded line by line 99 %, of
GPT-2's ids in another numbering 86 to 93 %, of another vocabulary under 50 %.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmill.base.human import one_line
from tokenmill.errors import TokenmillError
from tokenmill.look.token_sample import SplitSample, Trap, percent, spread_ranges

LEAST_TOKENS = 1000  # from which shares mean something
TOO_COMMON = 0.5  # share of one id; the space of character-level text has 0.18
NUM_PLACES = 64
TOKENS = 512  # at each place
LEAST_RUN = 16  # tokens between two ends of documents
LEAST_PAIRS = 400
AGREE = 0.97


def numbers(sample: SplitSample) -> Iterator[Trap]:
    """Look at the ids as numbers."""
    ids = sample.ids
    largest = int(ids.max(initial=0))
    limit = sample.data.vocab_size
    if limit is not None and largest >= limit:
        beyond = int((ids >= limit).sum())
        first = next(
            start + int((block >= limit).argmax())
            for start, block in sample.blocks
            if int(block.max(initial=0)) >= limit
        )
        place = f"the largest is {largest:,}, the first at token {first:,}"
        evidence = f"{beyond:,} of {len(ids):,} ids are {limit:,} or more: {place}"
        look = f"`tokenmill show tokens PATH {max(0, first - 8)}:{first + 8}`"
        fix = f"these ids are of another tokenizer, or the file is damaged there: look with {look}"
        yield Trap("ids-beyond-vocabulary", sample.split, evidence, fix)
    if len(ids) >= LEAST_TOKENS:
        # An id that is more than half of all is the median.
        common = int(np.partition(ids, len(ids) // 2)[len(ids) // 2])
        count = int((ids == common).sum())
        if count / len(ids) > TOO_COMMON:
            evidence = f"{percent(count, len(ids))} of the tokens are id {common}"
            fix = "if it is the unknown token, prepare again with a tokenizer that knows the text"
            yield Trap("one-token", sample.split, evidence, fix)


def texts(sample: SplitSample) -> Iterator[Trap]:
    """Decode pieces spread over the split, encode them again, compare."""
    try:
        tokenizer = sample.tokenizer
    except (TokenmillError, ImportError) as error:
        fix = getattr(error, "hint", None) or "install the package that the tokenizer needs"
        evidence = str(error).splitlines()[0]
        yield Trap("wrong-tokenizer", sample.split, evidence, fix, is_fault=False)
        return
    if tokenizer is None:
        return
    runs = _runs(sample, tokenizer)
    decoded = [tokenizer.decode(run).decode("utf-8", "ignore").encode() for run in runs]
    ids, ends = tokenizer.encode_batch(decoded)
    again = [np.asarray(ids)[a:b].tolist() for a, b in pairwise([0, *ends])]
    kept = total = 0
    worst = 1.0
    shown = b""
    for run, text, back in zip(runs, decoded, again, strict=True):
        pairs = Counter(pairwise(run[2:-2].tolist()))  # the edges are those of cut words
        same = (pairs & Counter(pairwise(back))).total()
        kept += same
        total += pairs.total()
        if same / pairs.total() < worst:
            worst = same / pairs.total()
            shown = text[:60]
    if total >= LEAST_PAIRS and kept < AGREE * total:
        evidence = (
            f"{percent(total - kept, total)} of {total:,} pairs of ids change when their text is "
            f"encoded again with {tokenizer.name}; they decode to '{one_line(shown)}' ..."
        )
        fix = "name the tokenizer that made them with tokenizer=, or prepare the text again"
        yield Trap("wrong-tokenizer", sample.split, evidence, fix)


def _runs(sample: SplitSample, tokenizer: Any) -> list[np.ndarray]:
    """Runs of ids from places spread over the split, without anything special in them."""
    data = sample.data
    ranges = spread_ranges(NUM_PLACES, TOKENS, 0, data.num_tokens)
    windows = [data.tokens(start, stop).astype(np.int64) for start, stop in ranges]
    special = [tokenizer.end_of_text_id, *tokenizer.special_ids.values()]
    runs = []
    for window in windows:
        is_text = (window >= 0) & (window < tokenizer.vocab_size) & ~np.isin(window, special)
        for run in np.split(window, np.flatnonzero(~is_text)):
            if len(run) > LEAST_RUN:
                runs.append(run[1:])  # the first is the special one, or one of a cut word
    return runs
