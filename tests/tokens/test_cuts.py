"""At every cut, the ids of the two parts are the ids of the whole: tiktoken decides."""

import itertools
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokens.patterns import PATTERNS
from tokens.texts import TEXTS

from tokenmill.tokens.cuts import AT_CHARACTERS, AT_SPACES_AND_COMMAS, last_cut


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
