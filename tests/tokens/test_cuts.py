"""At every cut, the ids of the two parts are the ids of the whole: tiktoken decides."""

import itertools
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokens.patterns import PATTERNS

from tokenmill.tokens.cuts import AT_CHARACTERS, AT_SPACES_AND_COMMAS, last_cut
from tokenmill.tokens.tokenizer_json import KNOWN_PATTERNS

# White space of every kind, letters of every kind, marks, numbers, signs, all around spaces.
ALPHABET = (
    " \t\n\r\x0b\x0c\x1c\x1f\x85\u00a0\u1680\u2000\u200b\u2028\u202f\u205f\u3000\ufeff"
    "aZsStTmMdDlLvVeErR''\u2019019/.,-_(<|\\"
    "\u00df\u0130\u01c5\u02b0\u0301\u0308\u00bd\u0661\u2167\u216b"
    "\u5000\u6c34\u8fff\u4e2d\u9000\u3042\uff0c\uff0c\u3001\u3002\uac00\U00020000\U0001f33e\U0001f3fd"
)
TEXTS = st.one_of(
    st.text(st.sampled_from(ALPHABET), max_size=24),
    st.text(st.one_of(st.sampled_from(" \n\uff0c"), st.characters(exclude_categories=["Cs"]))),
)


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=600, deadline=None)
@given(text=TEXTS)
def test_a_cut_never_changes_the_ids(oracle, pattern, text):
    encode, data = oracle(pattern).encode_ordinary, text.encode()

    for match in AT_SPACES_AND_COMMAS.finditer(data):
        left, right = data[: match.end()].decode(), data[match.end() :].decode()
        assert encode(left) + encode(right) == encode(text), (left, right)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_real_text_cut_everywhere_at_once_keeps_its_ids(oracle, pattern):
    text = Path(sys.modules["subprocess"].__file__).read_text() + "\u6c34\u8eca\uff0c\u6c34\u8eca"
    data = text.encode()
    cuts = [0, *(m.end() for m in AT_SPACES_AND_COMMAS.finditer(data)), len(data)]

    parts = [data[a:b].decode() for a, b in itertools.pairwise(cuts)]
    ids = [i for part in parts for i in oracle(pattern).encode_ordinary(part)]

    assert len(parts) > 5000
    assert ids == oracle(pattern).encode_ordinary(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two words", [3]),
        ("two  spaces", []),
        (" first and last ", [6, 10]),
        ("line\n break", []),
        ("line\nbreak\n\nend\n/\n}\n/", [5, 16, 18]),
        ("no\u00a0 break", []),  # NO-BREAK SPACE is white space
        ("a \u3000b", []),
        ("\u6c34 \u8eca", [3]),
        ("\u6c34\u8eca\uff0c\u6c34\u8eca", [6]),
        ("a\uff0cb", []),
        ("\u6c34\uff0c\uff0c\u6c34", []),
        ("x \U0001f33e y", [1, 6]),
    ],
)
def test_cuts_stand_at_single_spaces_newlines_and_chinese_commas(text, expected):
    assert [m.end() for m in AT_SPACES_AND_COMMAS.finditer(text.encode())] == expected


@given(text=st.text())
def test_characters_are_never_cut_in_two(text):
    data = text.encode()

    for match in AT_CHARACTERS.finditer(data):
        assert data[: match.end()].decode() + data[match.end() :].decode() == text


@settings(max_examples=500)
@given(
    text=TEXTS,
    start=st.integers(0, 30),
    length=st.integers(0, 80),
    repeat=st.sampled_from([1, 900]),
)
def test_last_cut_is_the_last_of_all_cuts_in_between(text, start, length, repeat):
    data = (text + "\n" * repeat).encode() + text.encode()
    stop = min(start + length * repeat, len(data))
    between = [m.end() for m in AT_SPACES_AND_COMMAS.finditer(data) if start < m.end() < stop]

    assert last_cut(AT_SPACES_AND_COMMAS, data, start, stop) == (between[-1] if between else None)


def test_published_split_patterns_are_recognised_as_they_are_written():
    assert KNOWN_PATTERNS["llama3"] == PATTERNS["llama3"]
    assert KNOWN_PATTERNS["qwen2"] == PATTERNS["qwen2"]
    assert KNOWN_PATTERNS["o200k"] == PATTERNS["o200k"]
