"""`bpe:N`: the merges of the plain rule, and every text comes back."""

import numpy as np
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from tokens.plain_bpe import plain_merges, tokens_of

from tokenmill.tokens.learn_bpe import learn_bpe
from tokenmill.tokens.load_tokenizer import from_state

GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
TEXT = "The mill turns, and the miller's mill turns grain into flour; café, 1984!\n\n" * 3
TEXT += "flour and words, words and flour\n"


def spellings(tokenizer):
    ids = range(tokenizer.vocab_size - 1)  # the last one ends a text
    return [tokenizer.decode(np.array([number])) for number in ids]


def test_it_has_the_merges_of_the_plain_rule():
    words = {}
    for word in regex.findall(GPT2, TEXT):
        words[word.encode()] = words.get(word.encode(), 0) + 1

    tokenizer = learn_bpe(TEXT.encode(), "bpe:300")

    assert spellings(tokenizer) == tokens_of(plain_merges(words, 300 - 257))
    assert tokenizer.vocab_size == 300


@given(st.text())
def test_every_text_comes_back(text):
    tokenizer = learn_bpe(TEXT.encode(), "bpe:300")

    ids, _ = tokenizer.encode_batch([text.encode()])

    assert tokenizer.decode(ids) == text.encode()
    assert tokenizer.end_of_text_id not in ids


def test_its_state_gives_the_same_tokenizer():
    tokenizer = learn_bpe(TEXT.encode(), "bpe:300")

    again = from_state(tokenizer.state())

    assert again.fingerprint == tokenizer.fingerprint
    assert again.name == "bpe:300"


def test_a_text_with_few_pairs_gives_fewer_ids():
    assert learn_bpe(b"abab", "bpe:512").vocab_size == 257 + 1
    assert learn_bpe(b"", "bpe:512").vocab_size == 257


@pytest.mark.parametrize("name", ["bpe:", "bpe:256", "bpe:65537", "bpe:2k", "bpe:-1"])
def test_a_size_that_cannot_be_meant_is_refused(name):
    with pytest.raises(ValueError, match=rf"{name}'?: expected bpe:N, N from 257 to 65536"):
        learn_bpe(b"text", name)
