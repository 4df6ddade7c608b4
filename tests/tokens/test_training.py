"""Words and merges, against a plain trainer, the package `tokenizers`, and the patterns."""

import pydoc_data.topics
from collections import Counter

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokens.patterns import PATTERNS, words_of
from tokens.plain_bpe import plain_merges, tokens_of

from tokenmill.errors import TokenmillError
from tokenmill.tokens.merges import BYTE_ORDER, MergeLearner
from tokenmill.tokens.split_patterns import ONE_EXPRESSION
from tokenmill.tokens.words import WordCounter, check_pattern, split_by

COUNTS = st.integers(1, 4) | st.sampled_from([2**31, 2**33 + 1, 2**53 + 1, 2**53 + 2])
FEW_LETTERS = st.text("ab c", min_size=1, max_size=12).map(str.encode)
ANY_BYTES = st.binary(min_size=1, max_size=6)
WORDS = st.dictionaries(FEW_LETTERS | ANY_BYTES, COUNTS, max_size=12)

PIECES = st.sampled_from(
    [
        *("the", " mill", "'s", "'LL", " 123456", "\n", "\n\n", "\r\n", "  ", "\t", " ", "\u00a0"),
        *("caf\u00e9", "\u041c\u0435\u043b\u044c", "\u6c34\u8f66", "\uff0c", "\u3000", " \u0661"),
        *(
            "\U0001f33e",
            "\u200d",
            "e\u0301",
            "\u3042\u30fb",
            "\u200b",
            "/",
            "-",
            "...",
            "a/b\n/c",
            "Camel",
            "\u2028",
            "\x1c",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=30).map("".join)


def learned(words, num_merges):
    lengths = np.array([len(word) for word in words], np.int64)
    counts = np.array(list(words.values()), np.int64)
    learner = MergeLearner(b"".join(words), lengths, counts, num_merges)
    return [tuple(merge) for merge in learner.run()]


def counted(pattern, texts):
    words = Counter()
    counter = WordCounter(pattern, words.update)
    for text in texts:
        counter.add(text)
    counter.finish()
    return words


@settings(max_examples=200, deadline=None)
@given(WORDS, st.integers(0, 20))
def test_merges_are_those_of_a_plain_trainer(words, num_merges):
    assert learned(words, num_merges) == plain_merges(words, num_merges)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text("a", min_size=1, max_size=40).map(str.encode), COUNTS, min_size=1))
def test_runs_of_one_letter_are_merged_from_the_left(words):
    assert learned(words, 8) == plain_merges(words, 8)


def test_counts_are_whole_numbers_of_64_bits():
    """As floating point numbers these two would be equal, and the other pair would come first."""
    words = {b"zy": 2**60 + 1, b"ab": 2**60}

    first = learned(words, 1)[0]

    assert (BYTE_ORDER[first[0]], BYTE_ORDER[first[1]], first[2]) == (*b"zy", 2**60 + 1)


def test_vocabularies_and_words_beyond_16_bits():
    """Ids above 65,535 and a word longer than that."""
    letters = [bytes([97 + a, 97 + b]) for a in range(26) for b in range(26)]
    words = {b"x" * 70_000: 2, **{pair: 2 for pair in letters if pair != b"xx"}}

    found = learned(words, 70_000)

    assert max(map(len, tokens_of(found))) == 70_000
    assert found == plain_merges(words, 70_000)


@pytest.mark.parametrize("pattern", ONE_EXPRESSION)
@settings(max_examples=100, deadline=None)
@given(documents=st.lists(TEXTS, max_size=4))
def test_words_are_those_of_the_pattern(pattern, documents):
    found = counted(pattern, ["\0".join(documents).encode().replace(b"\0", b"\xff")])

    assert found == Counter(word.encode() for text in documents for word in words_of(pattern, text))


@pytest.mark.parametrize("pattern", ONE_EXPRESSION)
def test_words_of_texts_longer_than_a_block(pattern):
    """A run without any place to cut is carried from block to block."""
    manual = "\n".join(pydoc_data.topics.topics.values())
    russian = "\u0432\u043e\u0434\u0430 \u041c\u0435\u043b\u044c "
    documents = [
        manual * 3,
        "\u6c34\u8f66\u78e8\u574a" * 200_000,
        russian * 30_000,
        "x" * 2_500_000,
    ]
    groups = (documents[:2], documents[2:])
    found = counted(pattern, [b"\xff".join(text.encode() for text in group) for group in groups])

    assert found == Counter(word.encode() for text in documents for word in words_of(pattern, text))


def test_many_different_words_are_given_out_before_the_end():
    text = " ".join(map(str, range(1_000_000))).encode()
    given = []
    counter = WordCounter("gpt2", given.append)
    counter.add(text)
    counter.finish()

    assert len(given) > 1
    assert sum(map(Counter, given), Counter()) == Counter(
        word.encode() for word in regex.findall(PATTERNS["gpt2"], text.decode())
    )


@pytest.mark.parametrize("pattern", ["gpt2", "llama3"])
def test_the_package_tokenizers_learns_the_same_merges(pattern):
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

    documents = list(pydoc_data.topics.topics.values())
    split = pre_tokenizers.Split(Regex(ONE_EXPRESSION[pattern]), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    theirs = Tokenizer(models.BPE())
    theirs.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=2,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    theirs.train_from_iterator(documents, trainer)
    words = counted(pattern, [b"\xff".join(text.encode() for text in documents)])

    found = learned(words, 2000 - 256)

    vocabulary = sorted(theirs.get_vocab().items(), key=lambda item: item[1])
    assert len(found) == 2000 - 256
    letters = {
        letter: byte for byte, letter in zip(BYTE_ORDER, map(_letter, range(256)), strict=True)
    }
    assert tokens_of(found) == [bytes(map(letters.get, token)) for token, _ in vocabulary]


def _letter(number):
    """How byte-level vocabularies write the byte of this id: in the order of code points."""
    from tokenizers import pre_tokenizers

    return sorted(pre_tokenizers.ByteLevel.alphabet())[number]


def train_on(pattern, texts):
    """What the command does with a pattern of the user's."""
    check_pattern(pattern)
    split = split_by(pattern)
    for text in texts:
        split(text)


@pytest.mark.parametrize(
    "pattern", [r"(a|a)*b|[\s\S]", r"(\w+\s?)*!|[\s\S]", r"(\s+)+$|[\s\S]", r"(x+x+)+y|[\s\S]"]
)
def test_a_pattern_that_takes_for_ever_is_refused(pattern):
    """By what is tried before the training, or when a text needs it; nothing hangs or panics."""
    with pytest.raises(TokenmillError, match="pattern"):
        train_on(pattern, [letter * 5000 for letter in "ax \n"])
