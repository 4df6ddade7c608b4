"""Cleaning, rule by rule and against a plain specification."""

import sys
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text.naive import naive_clean

from tokenmill import kernel
from tokenmill.text.cleaning.clean import clean, join_edge, nfc_bits
from tokenmill.text.cleaning.line_work import find_lines
from tokenmill.text.reading.chunks import Edge
from tokenmill.text.reading.cut_pieces import may_cut_inside

SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ATOMS = [
    "a b c", "x y",
    "a", "B", "\u00e9", "e\u0301", "\u0301", "\u0327", "\u4e2d", "\u5b57", "\U0001f600", "\u2019",
    "\ufeff", " ", "  ", "   ", "\t", "\t\t", " \t", "\n", "\n\n", "\n\n\n", "\r\n", "\r", "\x00",
    "\x1b", "\x7f", "\x85", "\u00a0", "\u2000", "\u212b", "\u1100", "\u1161", "\u11a8", "\uac00",
    "\u0387", "\u0344", "\U0001d15e", "long enough that marks are rare " * 9,
    "x" * 61, "y" * 63, "z" * 64, " " * 65, "\t" * 63, "\n" * 66, " \n" * 33, "\u4e2d" * 21,
]  # fmt: skip
TEXT = st.lists(st.sampled_from(ATOMS) | st.characters(exclude_categories=["Cs"])).map("".join)


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def way(request, monkeypatch):
    monkeypatch.setattr("tokenmill.text.cleaning.clean._BLOCK_BYTES", 7)
    if request.param == "compiled":
        if kernel.compiled is None:
            pytest.skip("tokenmill.kernel.loops is not built: there was no C compiler")
        return
    monkeypatch.setattr(kernel, "compiled", None)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\ufeffa\ufeffb", "ab"),
        ("a\r\nb", "a\nb"),
        ("a\rb", "ab"),
        ("a\x00b\x1bc\x7fd\x85e\x9ff", "abcdef"),
        ("e\u0301", "\u00e9"),
        ("e\x00\u0301", "\u00e9"),
        ("a  b", "a b"),
        ("a\t\tb \tc\t d \t \t e", "a b c d e"),
        ("a\tb", "a\tb"),
        ("\u00a0\u00a0", "\u00a0\u00a0"),
        ("    indented", " indented"),
        ("a \nb\t\nc  \t", "a\nb\nc"),
        ("a\n\nb\n\n\nc\n\n\n\n\nd", "a\n\nb\n\nc\n\nd"),
        ("a\n \n\t\n \nb", "a\n\nb"),
        ("\na", "\na"),
        ("\n\n\n\na", "\na"),
        ("a\n", "a\n"),
        ("a\n\n\n\n", "a\n\n"),
        (" \t ", ""),
        ("", ""),
    ],
)
def test_each_rule(text, cleaned):
    assert clean([text.encode()]).texts == [cleaned.encode()]


@SETTINGS
@given(texts=st.lists(TEXT, max_size=5))
def test_many_texts_at_once_are_cleaned_as_the_specification_says(texts):
    cleaned = clean([text.encode() for text in texts])

    assert cleaned.texts == [naive_clean(text).encode() for text in texts]
    assert cleaned.whole == b"".join(text + b"\n" for text in cleaned.texts)
    again, found = clean(cleaned.texts), find_lines(cleaned.texts)
    for lines in (again, found):
        assert lines.whole == cleaned.whole
        assert lines.stops.tolist() == cleaned.stops.tolist()
        assert lines.first_of_text.tolist() == cleaned.first_of_text.tolist()


@SETTINGS
@given(text=TEXT, data=st.data())
def test_a_document_cleaned_in_pieces_is_the_document_cleaned_whole(text, data):
    raw = text.encode()
    places = {}
    for at in range(1, len(raw)):
        if raw[at - 1] == 10:
            places[at] = Edge.LINE
        elif may_cut_inside(raw, at):
            places[at] = Edge.INSIDE
    chosen = data.draw(st.sets(st.sampled_from(sorted(places)))) if places else set()
    cuts = [0, *sorted(chosen), len(raw)]

    document = b""
    for start, stop in pairwise(cuts):
        first, last = places.get(start, Edge.NONE), places.get(stop, Edge.NONE)
        [piece] = clean([raw[start:stop]], continues=first, open=last).texts
        document += piece if first is Edge.NONE else join_edge(document[-3:], piece)

    assert document == naive_clean(text).encode()


def test_edges_belong_to_the_first_and_the_last_text_only():
    texts = [b"\n\nof before ", b"\n\nwhole ", b"\n\ngoes on  "]

    cleaned = clean(texts, continues=Edge.LINE, open=Edge.INSIDE).texts

    assert cleaned == [b"\n\nof before", b"\nwhole", b"\ngoes on "]


def may_change(character):
    return nfc_bits()[ord(character) // 8] >> ord(character) % 8 & 1


def test_the_table_of_characters_that_nfc_may_change_misses_none():
    """Oracle: what NFC and NFD of every single character show."""
    touched = set()
    for code in (*range(0x80, 0xD800), *range(0xE000, sys.maxunicode + 1)):
        character = chr(code)
        if unicodedata.combining(character) or not unicodedata.is_normalized("NFC", character):
            touched.add(character)
        if unicodedata.decomposition(character)[:1] not in ("", "<") or 0xAC00 <= code < 0xD7A4:
            touched.update(unicodedata.normalize("NFD", character)[1:])

    missed = [hex(ord(character)) for character in touched if not may_change(character)]

    assert len(touched) > 2000
    assert missed == []


def test_common_scripts_are_not_decoded_for_nothing():
    text = "It\u2019s na\u00efve \u2014 \u0440\u0443\u0441 \u4e2d\u6587 \ud55c\uad6d \U0001f600"

    assert not any(may_change(character) for character in text)
