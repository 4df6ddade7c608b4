"""A small byte-level BPE learned from one text in memory: `bpe:2048` is one of 2,048 ids.

For a text that is read whole anyway, as by `tokenmill train --input_file`; `tokenmill tokenizer`
learns from files of any size. The merges follow from the text alone, so the text and the name are
enough to have the same ids again. 1 MB of English takes 0.3 seconds.
"""

from collections import Counter

import numpy as np

from tokenmill.tokens.merges import MergeLearner, TrainedTokenizer
from tokenmill.tokens.tiktoken_file import END_OF_TEXT, TiktokenTokenizer
from tokenmill.tokens.words import WordCounter

MOST_BYTES = 16 << 20  # of the text that merges are learned from: a few seconds
PATTERN = "gpt2"


def learn_bpe(text: bytes, name: str) -> TiktokenTokenizer:
    """Return the tokenizer `bpe:N` of this text; fewer ids where no pair is left that repeats."""
    size = name.removeprefix("bpe:")
    if not size.isdecimal() or not 257 <= int(size) <= 65_536:
        raise ValueError(f"tokenizer {name[:80]!r}: expected bpe:N, N from 257 to 65536 ids")
    words: Counter[bytes] = Counter()
    counter = WordCounter(PATTERN, words.update)
    counter.add(text[:MOST_BYTES].decode(errors="ignore").encode())
    counter.finish()
    lengths = np.array([len(word) for word in words], np.int64)
    counts = np.array(list(words.values()), np.int64)
    learner = MergeLearner(b"".join(words), lengths, counts, int(size) - 257)
    trained = TrainedTokenizer(PATTERN, list(learner.run()), [END_OF_TEXT])
    ranks = trained.to_tiktoken()
    return TiktokenTokenizer(name, PATTERN, trained.special_ids, END_OF_TEXT, ranks)
