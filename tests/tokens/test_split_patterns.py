"""A pattern by name or as text: the ids of tiktoken, whoever encodes."""

import random

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from tokenizers import pre_tokenizers
from tokens.patterns import PATTERNS
from tokens.texts import ALPHABET, TEXTS

from tokenmill.errors import BadInputError, FormatError
from tokenmill.tokens.load_tokenizer import from_state, load
from tokenmill.tokens.same_ids import probes
from tokenmill.tokens.split_patterns import PATTERNS as KNOWN
from tokenmill.tokens.split_patterns import find_pattern

ODD = r"\p{L}+|\s|[^\p{L}\s]"  # nobody's


@pytest.fixture(scope="module")
def by_pattern(tmp_path_factory, rank_file):
    """by_pattern("cl100k") -> GPT-2's ranks with that pattern."""
    path = tmp_path_factory.mktemp("ranks") / "mine.tiktoken"
    path.write_bytes(rank_file)
    kept = {}

    def load_once(pattern):
        if pattern not in kept:
            kept[pattern] = load(str(path), pattern=pattern, end_of_text=50256)
        return kept[pattern]

    return load_once


@pytest.fixture(scope="module")
def odd(oracle):
    ranks = oracle("gpt2")._mergeable_ranks
    return tiktoken.Encoding("odd", pat_str=ODD, mergeable_ranks=ranks, special_tokens={})


def random_texts(number):
    chance = random.Random(7)
    short = ["".join(chance.choices(ALPHABET, k=chance.randint(1, 12))) for _ in range(number)]
    return [*short, *(text.decode() for text in probes())]


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_a_named_pattern_gives_the_ids_of_tiktoken(by_pattern, oracle, name, text):
    tokenizer = by_pattern(name)

    assert tokenizer.backend == "gigatoken"
    assert tokenizer.encode(text).tolist() == oracle(name).encode_ordinary(text)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_published_pattern_is_known_as_it_is_written(name):
    assert find_pattern(PATTERNS[name]) == name


def every_way(name):
    return [*KNOWN[name].regexes, *(splits[0] for splits in KNOWN[name].splits if len(splits) == 1)]


@pytest.mark.parametrize(
    ("name", "regex"), [(name, regex) for name in KNOWN for regex in every_way(name)]
)
def test_all_ways_to_write_a_pattern_mean_the_same(by_pattern, oracle, name, regex):
    ranks = oracle("gpt2")._mergeable_ranks
    written = tiktoken.Encoding(name, pat_str=regex, mergeable_ranks=ranks, special_tokens={})
    texts = random_texts(3000)

    ids, _ = by_pattern(regex).encode_batch([text.encode() for text in texts])

    assert by_pattern(regex).pattern == name
    assert ids.tolist() == [i for text in texts for i in written.encode_ordinary(text)]


@pytest.mark.parametrize(
    "splits", [splits for pattern in KNOWN.values() for splits in pattern.splits]
)
def test_they_mean_the_same_in_a_tokenizer_json(tmp_path, train_bpe, splits):
    steps = [pre_tokenizers.Split(tokenizers.Regex(regex), "isolated") for regex in splits]
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    texts = random_texts(1500)
    reference = train_bpe("".join(texts), 700, pre_tokenizer=pre_tokenizers.Sequence(steps))
    reference.save(str(tmp_path / "tokenizer.json"))
    reference.encode_special_tokens = True

    tokenizer = load(str(tmp_path / "tokenizer.json"))
    ids, _ = tokenizer.encode_batch([text.encode() for text in texts])

    assert (tokenizer.backend, tokenizer.cuts is not None) == ("gigatoken", True)
    assert ids.tolist() == [i for text in texts for i in reference.encode(text).ids]
    for text in texts[:400]:
        for cut in tokenizer.cuts.finditer(text.encode()):
            parts = [text.encode()[: cut.end()], text.encode()[cut.end() :]]
            assert tokenizer.encode_batch(parts)[0].tolist() == reference.encode(text).ids


def test_numbers_of_all_scripts_are_taken_in_pairs(by_pattern, oracle):
    """Every character, as if it were a number; several texts end and begin with one."""
    characters = [chr(p) for p in range(0x21, 0x34000) if not 0xD800 <= p < 0xE000]
    shapes = [f"1{c}1{c}{c} {c * 5}a12{c}" for c in characters]
    texts = ["".join(shapes[n : n + 100]) for n in range(0, len(shapes), 100)]

    ids, ends = by_pattern("nanochat").encode_batch([b"", b"123", *map(str.encode, texts), b"4567"])

    expected = oracle("nanochat").encode_ordinary_batch(["", "123", *texts, "4567"], num_threads=1)
    assert ids.tolist() == [number for one in expected for number in one]
    assert ends.tolist() == np.cumsum([len(one) for one in expected]).tolist()


def test_an_added_token_may_hold_numbers_that_would_be_cut(tmp_path, train_bpe):
    steps = [
        pre_tokenizers.Split(tokenizers.Regex(PATTERNS["nanochat"]), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ]
    reference = train_bpe("a 123", 300, pre_tokenizer=pre_tokenizers.Sequence(steps))
    reference.add_tokens([tokenizers.AddedToken("12", normalized=False)])
    reference.save(str(tmp_path / "tokenizer.json"))

    tokenizer = load(str(tmp_path / "tokenizer.json"))

    assert tokenizer.backend == "tokenizers"
    assert tokenizer.encode("3123").tolist() == reference.encode("3123").ids


@settings(max_examples=200, deadline=None)
@given(text=TEXTS)
def test_any_other_pattern_gives_the_ids_of_tiktoken_too(by_pattern, odd, text):
    tokenizer = by_pattern(ODD)

    assert (tokenizer.backend, tokenizer.cuts) == ("tiktoken", None)
    assert tokenizer.encode(text).tolist() == odd.encode_ordinary(text)


def test_a_pattern_as_text_is_stored_and_comes_back(by_pattern):
    again = from_state(by_pattern(ODD).state())

    assert (again.pattern, again.backend) == (ODD, "tiktoken")
    assert again.encode("a b1").tolist() == by_pattern(ODD).encode("a b1").tolist()


def test_text_that_a_pattern_does_not_match_is_never_lost(tmp_path, rank_file):
    (tmp_path / "a.tiktoken").write_bytes(rank_file)
    tokenizer = load(str(tmp_path / "a.tiktoken"), pattern=r"\p{L}+| ", end_of_text=50256)

    assert tokenizer.decode(tokenizer.encode("two words")) == b"two words"
    with pytest.raises(BadInputError, match=r"matches 4 of the 5 bytes"):
        tokenizer.encode("word.")


@pytest.mark.parametrize("pattern", [r"(\p{L}+", r"\p{Nonsense}+", "["])
def test_a_pattern_that_is_none_is_refused(tmp_path, rank_file, pattern):
    (tmp_path / "a.tiktoken").write_bytes(rank_file)

    with pytest.raises(FormatError, match="tiktoken cannot use the pattern"):
        load(str(tmp_path / "a.tiktoken"), pattern=pattern, end_of_text=50256)


def test_a_mistyped_name_is_no_regular_expression():
    with pytest.raises(ValueError, match=r"unknown pattern 'cl100'.*did you mean 'cl100k'"):
        find_pattern("cl100")
