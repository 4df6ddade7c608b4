"""missing-begin-token and doubled-begin-token: documents that do not begin as they should.

A model that was trained with one begin token before each document has never seen two, nor none.
Where the data says which id begins its documents, some documents of each split are looked at.
Where nothing says so, a special token that most documents begin with twice is still found.
"""

from collections.abc import Iterator

import numpy as np

from tokenmill.errors import TokenmillError
from tokenmill.look.token_sample import SplitSample, percent
from tokenmill.look.trap import Trap

NUM_DOCUMENTS = 200
LEAST_DOCUMENTS = 8
MOST = 0.5  # share of documents that begin alike, where nothing names the id


def check(sample: SplitSample) -> Iterator[Trap]:
    """The first two ids of some documents, spread over the split."""
    data = sample.data
    ranges = list(sample.documents(NUM_DOCUMENTS, least=2))
    if len(ranges) < LEAST_DOCUMENTS:
        return
    heads = np.stack([data.tokens(start, start + 2) for start, _ in ranges])
    begin = data.begin_token_id
    if begin is None:
        yield from _unnamed(sample, heads)
        return
    # The very first may be the rest of a document, where the end of the tokens was held out.
    whole = heads[1:] if ranges[0][0] == 0 else heads
    if without := int((whole[:, 0] != begin).sum()):
        evidence = (
            f"{without:,} of {len(whole):,} documents looked at do not begin with the begin token "
            f"{begin}"
        )
        fix = "name the id that they begin with, or prepare the text again with --begin_token"
        yield Trap("missing-begin-token", sample.split, evidence, fix)
    if doubled := int((heads == begin).all(axis=1).sum()):
        yield _doubled(sample, begin, doubled, len(heads))


def _unnamed(sample: SplitSample, heads: np.ndarray) -> Iterator[Trap]:
    """Documents that begin with a special token twice, most of them with the same."""
    values, counts = np.unique(heads[heads[:, 0] == heads[:, 1], 0], return_counts=True)
    if not len(values) or counts.max() < MOST * len(heads):
        return
    try:
        special = getattr(sample.tokenizer, "special_ids", {})
    except (TokenmillError, ImportError):
        return
    found = int(values[counts.argmax()])
    if found in special.values() and found != sample.data.end_of_text_id:
        yield _doubled(sample, found, int(counts.max()), len(heads))


def _doubled(sample: SplitSample, begin: int, doubled: int, looked_at: int) -> Trap:
    evidence = (
        f"{doubled:,} of {looked_at:,} documents looked at ({percent(doubled, looked_at)}) begin "
        f"with the begin token {begin} twice"
    )
    fix = "tokenizer and writer each added one: prepare again with only one of them adding it"
    return Trap("doubled-begin-token", sample.split, evidence, fix)
