"""wrong-tokenizer: ids that the named tokenizer would not give for the text it makes of them.

A tokenizer gives one list of ids for a text. Ids of another tokenizer decode to some text too, but
encoding that text again gives other ids in many places. Compared are pairs of neighbours: of right
ids all come back, of text encoded line by line 99 %, of GPT-2's ids in another numbering 86 to
93 %, of another vocabulary under 50 %.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tokenmill.errors import TokenmillError
from tokenmill.look.doctor.finding import Finding
from tokenmill.look.doctor.token_sample import Patient, percent
from tokenmill.look.shown_tokens import one_line

NUM_PLACES = 64
TOKENS = 512  # at each place
LEAST_RUN = 16  # tokens between two ends of documents
LEAST_PAIRS = 400
AGREE = 0.97


def check(patient: Patient) -> Iterator[Finding]:
    """Decode pieces spread over the split, encode them again, compare."""
    try:
        tokenizer = patient.tokenizer
    except (TokenmillError, ImportError) as error:
        yield Finding(
            "wrong-tokenizer",
            patient.split,
            str(error).splitlines()[0],
            getattr(error, "hint", None) or "install the package that the tokenizer needs",
            is_fault=False,
        )
        return
    if tokenizer is None:
        return
    runs = _runs(patient, tokenizer)
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
        yield Finding(
            "wrong-tokenizer",
            patient.split,
            f"{percent(total - kept, total)} of {total:,} pairs of ids change when their text is "
            f"encoded again with {tokenizer.name}; they decode to '{shown}' ...",
            "name the tokenizer that made them with --tokenizer, or prepare the text again",
        )


def _runs(patient: Patient, tokenizer: Any) -> list[np.ndarray]:
    """Runs of ids from places spread over the split, without anything special in them."""
    data = patient.data
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
