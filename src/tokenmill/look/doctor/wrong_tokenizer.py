"""wrong-tokenizer, ids-beyond-vocabulary and one-token: ids that the named tokenizer does not give.

An id at or above the size of the vocabulary has no text. A tokenizer that does not know the text
writes its unknown token everywhere. And a tokenizer gives one list of ids for a text: ids of
another one decode to some text too, but encoding that text again gives other ids in many places.
Pairs of neighbours are compared: of right ids all come back, of text encoded line by line 99 %, of
GPT-2's ids in another numbering 86 to 93 %, of another vocabulary under 50 %.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.errors import TokenmillError
from tokenmill.look.doctor.token_sample import SplitSample, percent
from tokenmill.look.doctor.trap import Trap
from tokenmill.look.shown_tokens import one_line

LEAST_TOKENS = 1000  # from which shares mean something
TOO_COMMON = 0.5  # share of one id; the space of character-level text has 0.18
NUM_PLACES = 64
TOKENS = 512  # at each place
LEAST_RUN = 16  # tokens between two ends of documents
LEAST_PAIRS = 400
AGREE = 0.97


def check(sample: SplitSample) -> Iterator[Trap]:
    """The ids as numbers, then the text that they stand for."""
    yield from _check_ids(sample)
    yield from _check_text(sample)


def _check_ids(sample: SplitSample) -> Iterator[Trap]:
    """The largest id against the vocabulary, and the most common one."""
    ids, data = sample.ids, sample.data
    if not len(ids):
        return
    largest, limit = int(ids.max()), data.vocab_size
    if limit is not None and largest >= limit:
        beyond = int((ids >= limit).sum())
        first = next(
            block.start + int((block.ids >= limit).argmax())
            for block in sample.blocks
            if int(block.ids.max(initial=0)) >= limit
        )
        yield Trap(
            "ids-beyond-vocabulary",
            sample.split,
            f"{beyond:,} of {len(ids):,} ids are {limit:,} or more, the vocabulary ends at "
            f"{limit - 1:,}; the largest is {largest:,}, the first at token {first:,}",
            "these ids are of another tokenizer, or the file is damaged there: look with "
            f"`tokenmill show PATH --tokens {max(0, first - 8)}:{first + 8}`",
        )
    if len(ids) >= LEAST_TOKENS:
        # An id that is more than half of all is the median.
        common = int(np.partition(ids, len(ids) // 2)[len(ids) // 2])
        count = int((ids == common).sum())
        if count / len(ids) > TOO_COMMON:
            yield Trap(
                "one-token",
                sample.split,
                f"{percent(count, len(ids))} of the tokens are id {common}",
                "a tokenizer that does not know the text writes its unknown token everywhere: "
                "prepare the text again with one that does",
            )


def _check_text(sample: SplitSample) -> Iterator[Trap]:
    """Decode pieces spread over the split, encode them again, compare."""
    try:
        tokenizer = sample.tokenizer
    except (TokenmillError, ImportError) as error:
        yield Trap(
            "wrong-tokenizer",
            sample.split,
            str(error).splitlines()[0],
            getattr(error, "hint", None) or "install the package that the tokenizer needs",
            is_fault=False,
        )
        return
    if tokenizer is None:
        return
    runs = _runs(sample, tokenizer)
    texts = [tokenizer.decode(run).decode("utf-8", "ignore").encode() for run in runs]
    again, ends = tokenizer.encode_batch(texts)
    kept = total = 0
    worst, shown = 1.0, ""
    for run, text, back in zip(runs, texts, _parts(again, ends), strict=True):
        same, pairs = _pairs_that_come_back(run, back)
        kept, total = kept + same, total + pairs
        if same / pairs < worst:
            worst, shown = same / pairs, one_line(text[:60])
    if total >= LEAST_PAIRS and kept < AGREE * total:
        yield Trap(
            "wrong-tokenizer",
            sample.split,
            f"{percent(total - kept, total)} of {total:,} pairs of ids change when their text is "
            f"encoded again with {tokenizer.name}; they decode to '{shown}' ...",
            "name the tokenizer that made them with --tokenizer, or prepare the text again",
        )


def _runs(sample: SplitSample, tokenizer: Any) -> list[np.ndarray]:
    """Runs of ids from places spread over the split, without anything special in them."""
    data = sample.data
    last = max(0, data.num_tokens - TOKENS)
    places = np.unique(np.linspace(0, last, NUM_PLACES).astype(np.int64)).tolist()
    windows = [data.tokens(at, min(at + TOKENS, data.num_tokens)).astype(np.int64) for at in places]
    seen = np.unique(np.concatenate(windows))
    outside = (seen < 0) | (seen >= tokenizer.vocab_size) | (seen == tokenizer.end_of_text_id)
    special = np.concatenate([seen[outside], _never_given(seen[~outside], tokenizer)])
    runs = []
    for window in windows:
        for run in np.split(window, np.flatnonzero(np.isin(window, special))):
            if len(run) > LEAST_RUN:
                runs.append(run[1:])  # the first is the special one, or one of a cut word
    return runs


def _never_given(ids: np.ndarray, tokenizer: Any) -> np.ndarray:
    """Those whose text alone gives other ids: special tokens of chats and the like."""
    texts, known = [], []
    for number in ids.tolist():
        try:
            text = tokenizer.decode(np.array([number]))
            text.decode()
        except ValueError:  # a part of a character
            continue
        texts.append(text)
        known.append(number)
    again, ends = tokenizer.encode_batch(texts)
    parts = zip(known, _parts(again, ends), strict=True)
    return np.array([n for n, part in parts if part.tolist() != [n]], np.int64)


def _parts(ids: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """What `encode_batch` gave, one array a text."""
    return np.split(np.asarray(ids, np.int64), np.asarray(ends)[:-1]) if len(ends) else []


def _pairs_that_come_back(ids: np.ndarray, again: np.ndarray) -> tuple[int, int]:
    """How many neighbours of these are neighbours again, of how many; edges are left out."""
    mine, theirs = _pairs(ids[2:-2]), _pairs(again)
    numbers = np.unique(np.concatenate([mine, theirs]), return_inverse=True)[1]
    return common(numbers[: len(mine)], numbers[len(mine) :]), len(mine)


def _pairs(ids: np.ndarray) -> np.ndarray:
    pairs: np.ndarray = (ids[:-1] << 32) | ids[1:]
    return pairs


def common(a: np.ndarray, b: np.ndarray) -> int:
    """How many numbers both have, each as often as in both.

    >>> common(np.array([1, 1, 2, 5]), np.array([1, 2, 2]))
    2
    """
    size = int(max(a.max(initial=0), b.max(initial=0))) + 1
    return int(np.minimum(np.bincount(a, minlength=size), np.bincount(b, minlength=size)).sum())
