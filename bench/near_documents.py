"""Made-up documents with near-duplicates planted among them, and all similar pairs by brute force.

Nothing of tokenmill is used here: runs of words are tuples of words, and similarity is counted.
"""

import random
from collections.abc import Iterator

import numpy as np

WIDTH = 5  # words of a run
MEAN_WORDS = 280  # a document; some are of a dozen words
SHARE_EDITED = 0.3


def vocabulary(size: int = 20_000) -> list[str]:
    """Words of about the length of English ones; a few are frequent."""
    chosen = random.Random(0)
    letters = "eeeeettttaaaooiinnsshhrrdlucmfwgypbvk"
    return [
        "".join(chosen.choices(letters, k=chosen.choice((2, 3, 4, 5, 6, 7, 9))))
        for _ in range(size)
    ]


def edited(words: list[str], known: list[str], chosen: random.Random) -> list[str]:
    """A copy with some words replaced, left out or added, and sometimes with a piece cut off."""
    words = list(words)
    for _ in range(int(chosen.expovariate(1 / (0.015 * len(words))))):
        at = chosen.randrange(len(words))
        kind = chosen.random()
        if kind < 0.5:
            words[at] = chosen.choice(known)
        elif kind < 0.75 and len(words) > WIDTH:
            del words[at]
        else:
            words.insert(at, chosen.choice(known))
    if chosen.random() < 0.2:
        words = words[: int(len(words) * chosen.uniform(0.7, 1))] or words
    return words


def documents(number: int, seed: int = 0, share_edited: float = SHARE_EDITED) -> Iterator[str]:
    """Yield documents; a share of them are edited copies of one of the last 5,000."""
    chosen = random.Random(seed)
    known = vocabulary()
    frequent = known[:200]
    footer = chosen.choices(known, k=60)
    recent: list[list[str]] = []
    for _ in range(number):
        if recent and chosen.random() < share_edited:
            words = edited(
                chosen.choice(recent[-40:] if chosen.random() < 0.3 else recent), known, chosen
            )
        else:
            size = (
                chosen.choice((12, 40))
                if chosen.random() < 0.1
                else int(chosen.gauss(MEAN_WORDS, 80))
            )
            words = [
                chosen.choice(frequent if chosen.random() < 0.5 else known)
                for _ in range(max(8, size))
            ]
            if chosen.random() < 0.1:
                words += footer
        recent.append(words)
        if len(recent) > 5_000:
            recent = recent[-2_500:]
        yield as_text(words, chosen)


def as_text(words: list[str], chosen: random.Random) -> str:
    """Sentences in paragraphs."""
    text = []
    for number, word in enumerate(words):
        text.append(word.capitalize() if number % 14 == 0 else word)
        text.append(
            ". "
            if number % 14 == 13
            else "\n\n"
            if number % 70 == 69
            else ", "
            if chosen.random() < 0.05
            else " "
        )
    return "".join(text).strip()


def similar_pairs(texts: list[str], threshold: float) -> dict[tuple[int, int], float]:
    """Return every pair of documents of at least this similarity, with it."""
    numbers: dict[tuple[str, ...], int] = {}
    runs: list[int] = []
    owners: list[int] = []
    sizes = np.zeros(len(texts), np.int64)
    for document, text in enumerate(texts):
        words = "".join(c.lower() if c.isalnum() else " " for c in text).split()
        width = min(WIDTH, len(words))
        own = (
            {tuple(words[at : at + width]) for at in range(len(words) - width + 1)}
            if words
            else set()
        )
        sizes[document] = len(own)
        runs += [numbers.setdefault(run, len(numbers)) for run in own]
        owners += [document] * len(own)
    order = np.lexsort((owners, runs))
    run, owner = np.array(runs)[order], np.array(owners, np.int64)[order]
    shared: dict[int, int] = {}
    keys = []
    for distance in range(1, len(texts)):
        same = run[distance:] == run[:-distance]
        if not same.any():
            break
        keys.append(owner[:-distance][same] * len(texts) + owner[distance:][same])
    pairs, shared = np.unique(np.concatenate(keys), return_counts=True)
    left, right = np.divmod(pairs, len(texts))
    values = shared / (sizes[left] + sizes[right] - shared)
    is_similar = values >= threshold
    return {
        (int(a), int(b)): float(value)
        for a, b, value in zip(left[is_similar], right[is_similar], values[is_similar], strict=True)
    }
