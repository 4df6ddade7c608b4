"""Promise: however a file is cut into units and chunks, the documents are the same."""

import re

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from text.naive import ANYWHERE, LETTERS, naive_clean, naive_documents, read_all

from tokenmill.text.cleaning.clean import clean, join_edge
from tokenmill.text.reading.chunks import Edge, ReadRules
from tokenmill.text.reading.document_rules import split_at

SETTINGS = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ATOMS = [
    "a", "b c", " ", "  ", "\n", "\n\n", "\n \t\r\n", "\r\n", "\t", "ab", "aa", "aba", "<|>", "<|",
    "\u00e9", "e\u0301", "\u4e2d\u6587", "\u5b57", "\U0001f600", "\ufeff", "\x00", "word and word ",
    "\n" * 7, " " * 30, "x" * 40, "-" * 9,
]  # fmt: skip
# Repeated, they outgrow what the readers look at around a place: 64 bytes, or 1,002 for paragraphs.
TEXTS = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from([1, 1, 1, 1, 3, 90, 700])).map(
        lambda pair: pair[0] * pair[1]
    ),
    max_size=30,
).map(lambda parts: "".join(parts)[:3000])
UNITS = st.sampled_from([13, 20, 64, 301, 1000, 5000])
CHUNKS = st.sampled_from([5, 17, 100, 1200, 4096])
WAYS = st.one_of(
    st.sampled_from(["file", "line", "paragraph"]).map(lambda kind: {"document_is": kind}),
    st.sampled_from(["<|>", "\n\n", "a", "aa", "aba", "\n", "---", "\u4e2d"]).map(
        lambda separator: {"separator": separator}
    ),
)


@SETTINGS
@given(
    text=TEXTS,
    way=WAYS,
    unit_bytes=UNITS,
    chunk_bytes=CHUNKS,
    long_line=st.sampled_from([1, 2, 4, 9, 33, 500]),
    cuts=st.sampled_from([None, LETTERS, ANYWHERE]),
)
@example("\n" * 90, {"separator": "\n\n"}, 3, 2, 1, ANYWHERE)
@example("a" * 91 + "b", {"separator": "aa"}, 5, 100, 4, ANYWHERE)
@example(" " * 30 + "a", {"separator": "a"}, 1, 1, 1, ANYWHERE)
@example("ab aba" * 30, {"separator": "aba"}, 7, 5, 4, LETTERS)
def test_units_and_chunks_of_any_size_give_the_same_documents(
    tmp_path, text, way, unit_bytes, chunk_bytes, long_line, cuts
):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    rules = ReadRules(**way, long_line=long_line)
    expected = naive_documents(text.encode(), rules)

    documents, dropped, _ = read_all(
        path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=cuts
    )

    assert documents == [document for document in expected if document]
    assert dropped.get("empty", 0) == expected.count(b"")


@SETTINGS
@given(
    text=TEXTS,
    unit_bytes=UNITS,
    chunk_bytes=CHUNKS,
    long_line=st.sampled_from([1, 4, 9, 33]),
    cuts=st.sampled_from([LETTERS, ANYWHERE]),
)
@example("a b\n" * 200, 20, 17, 3, ANYWHERE)
def test_only_documents_longer_than_long_line_are_left_open(
    tmp_path, text, unit_bytes, chunk_bytes, long_line, cuts
):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    rules = ReadRules(separator="<|>", long_line=long_line)

    documents, _, chunks = read_all(
        path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=cuts
    )

    number = -1
    so_far = b""
    for chunk in chunks:
        for text_number, piece in enumerate(chunk.texts):
            if text_number or chunk.continues is Edge.NONE:
                number, so_far = number + 1, b""
            so_far += piece
            piece.decode()
        if chunk.texts and chunk.open is not Edge.NONE:
            assert len(documents[number]) > long_line
            line_start = so_far.rfind(b"\n") + 1
            line = documents[number][line_start:].split(b"\n")[0]
            if chunk.open is Edge.LINE:
                assert so_far[-1:] == b"\n"
            else:
                assert len(line) > long_line


@SETTINGS
@given(
    pieces=st.lists(st.sampled_from([*(a.encode() for a in ATOMS), b"\xff", b"\xe4\xb8", b"\x80"])),
    times=st.sampled_from([1, 5, 40]),
    way=WAYS,
    unit_bytes=UNITS,
    chunk_bytes=CHUNKS,
    long_line=st.sampled_from([1, 9, 500]),
)
def test_replacing_bad_bytes_does_not_depend_on_the_cuts(
    tmp_path, pieces, times, way, unit_bytes, chunk_bytes, long_line
):
    path = tmp_path / "a.txt"
    data = (b"".join(pieces) * times)[:3000]
    path.write_bytes(data)
    rules = ReadRules(**way, long_line=long_line, on_bad_input="replace")
    expected = [d.decode("utf-8", "replace").encode() for d in naive_documents(data, rules) if d]

    documents, _, _ = read_all(
        path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=ANYWHERE
    )

    assert documents == expected


@SETTINGS
@given(
    text=TEXTS,
    way=WAYS,
    unit_bytes=UNITS,
    chunk_bytes=CHUNKS,
    long_line=st.sampled_from([1, 4, 9, 33]),
)
def test_pieces_cleaned_on_their_own_and_joined_are_the_documents_cleaned_whole(
    tmp_path, text, way, unit_bytes, chunk_bytes, long_line
):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    rules = ReadRules(**way, long_line=long_line)
    _, _, chunks = read_all(
        path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=ANYWHERE
    )

    documents: list[bytes] = []
    for chunk in chunks:
        pieces = clean(chunk.texts, continues=chunk.continues, open=chunk.open).texts
        if chunk.continues is not Edge.NONE:
            documents[-1] += join_edge(documents[-1][-3:], pieces.pop(0))
        documents += pieces

    expected = [document for document in naive_documents(text.encode(), rules) if document]
    assert documents == [naive_clean(document.decode()).encode() for document in expected]


HARD = [
    ("x" * 40 + "\n\n" + "b c") * 6,
    ("x" * 150 + "\n \n" + "a b c d " * 25 + "<|><|>\n\n\n" + "y" * 90 + "\n<|>") * 2,
    ("no aba" * 30 + "ababa" + "word " * 40 + "\n") * 2,
]


@pytest.mark.parametrize("text", HARD)
@pytest.mark.parametrize(
    "way",
    [{"document_is": "line"}, {"document_is": "paragraph"}]
    + [{"separator": separator} for separator in ("\n\n", "<|>", "aba")],
)
@pytest.mark.parametrize("cuts", [None, LETTERS, ANYWHERE])
def test_every_place_of_a_cut_gives_the_same_documents(tmp_path, text, way, cuts):
    """Units and chunks of consecutive sizes end inside every separator and blank line."""
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    rules = ReadRules(**way, long_line=4, max_document_bytes=120, on_bad_input="skip")
    expected = [document for document in naive_documents(text.encode(), rules) if document]
    if cuts is None:
        expected = [document for document in expected if len(document) <= 120]

    for unit_bytes, chunk_bytes in [
        *((n, 50) for n in range(30, 45)),
        *((999, n) for n in range(1, 24)),
    ]:
        documents, _, _ = read_all(
            path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes, cuts=cuts
        )
        assert documents == expected, (unit_bytes, chunk_bytes)


def test_a_paragraph_ends_after_a_line_longer_than_is_looked_at(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes((b"x" * 1300 + b"\n\n" + b"b c\n \n") * 2)
    rules = ReadRules(document_is="paragraph", long_line=4)

    for unit_bytes in range(90, 120):
        documents, _, _ = read_all(
            path, rules, unit_bytes=unit_bytes, chunk_bytes=400, cuts=LETTERS
        )
        assert documents == [b"x" * 1300, b"b c"] * 2


def test_a_long_run_of_overlapping_separators_needs_no_place_to_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.text.reading.cut_pieces.CUT_BOUND", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a" + b"\n" * 501 + b"b")
    rules = ReadRules(separator="\n\n", long_line=5)

    documents, dropped, _ = read_all(path, rules, unit_bytes=50, chunk_bytes=50, cuts=ANYWHERE)

    assert (documents, dropped) == ([b"a", b"\nb"], {"empty": 249})


@pytest.mark.parametrize("way", [{"document_is": "file"}, {"separator": "<|>"}])
def test_chunks_of_a_large_document_stay_near_the_limits(tmp_path, way):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words and more\n" * 50_000 + b"no line end here " * 60_000)
    rules = ReadRules(**way, long_line=10_000)

    documents, _, chunks = read_all(path, rules, chunk_bytes=5_000, cuts=LETTERS)

    assert b"".join(documents) == path.read_bytes()
    assert max(sum(map(len, chunk.texts)) for chunk in chunks) < 20_000
    assert {chunk.open for chunk in chunks} == set(Edge)


def test_a_text_that_the_tokenizer_cannot_cut_is_held_whole_or_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"word " * 1000)

    documents, _, chunks = read_all(path, ReadRules(long_line=10), unit_bytes=64, chunk_bytes=64)

    assert documents == [b"word " * 1000]
    assert len(chunks[0].texts) == 1
    small = ReadRules(long_line=10, max_document_bytes=4_999)
    with pytest.raises(Exception, match="more than 4,999 bytes"):
        read_all(path, small, chunk_bytes=64)


@SETTINGS
@given(
    text=TEXTS,
    way=WAYS,
    unit_bytes=UNITS,
    chunk_bytes=CHUNKS,
    most=st.sampled_from([1, 3, 10, 40]),
)
def test_which_documents_are_too_large_does_not_depend_on_the_cuts(
    tmp_path, text, way, unit_bytes, chunk_bytes, most
):
    path = tmp_path / "a.txt"
    path.write_bytes(text.encode())
    rules = ReadRules(**way, max_document_bytes=most, on_bad_input="skip")
    expected = [document for document in naive_documents(text.encode(), rules) if document]

    documents, dropped, _ = read_all(path, rules, unit_bytes=unit_bytes, chunk_bytes=chunk_bytes)

    assert documents == [document for document in expected if len(document) <= most]
    assert dropped.get("too large", 0) == len(expected) - len(documents)


def test_documents_too_large_are_left_out_and_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"small\n" + b"x" * 5000 + b"\n" + b"also small\n" + b"y" * 5000)
    rules = ReadRules(document_is="line", max_document_bytes=100, on_bad_input="skip")

    for unit_bytes in (17, 1000, 1 << 20):
        documents, dropped, _ = read_all(path, rules, unit_bytes=unit_bytes, chunk_bytes=64)

        assert documents == [b"small", b"also small"]
        assert dropped == {"too large": 2}


def test_no_place_to_cut_is_an_error_that_names_the_offset(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmill.text.reading.cut_pieces.CUT_BOUND", 1000)
    path = tmp_path / "a.txt"
    path.write_bytes(b"a line\n" + b"x" * 5000)
    rules = ReadRules(long_line=100)

    with pytest.raises(Exception, match=r"a\.txt has no place to cut in 1,\d+ bytes from byte 7 "):
        read_all(path, rules, chunk_bytes=64, cuts=LETTERS)
    with pytest.raises(Exception, match=r"a\.txt has no place to cut in 1,\d+ bytes from byte 2,"):
        read_all(path, rules, unit_bytes=2000, chunk_bytes=64, cuts=LETTERS)


def test_cuts_of_several_bytes_are_found_alike_from_every_place(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"aaa bbb ccc ddd eee fff ggg " * 20)
    cuts = re.compile(rb"[a-z]{2} [a-z]{2}|[a-z] (?=[a-z])")

    for unit_bytes in range(1, 40):
        documents, _, _ = read_all(
            path, ReadRules(long_line=5), unit_bytes=unit_bytes, chunk_bytes=9, cuts=cuts
        )
        assert documents == [path.read_bytes()]


@given(
    st.lists(st.sampled_from(["x" * 3000, "y" * 700, "a", "ab", "aba", "<|", "<|>", "\n", "\n\n"])),
    st.sampled_from(["<|>", "aba", "aa", "\n\n", "\n", "x"]),
)
@example(["x" * 5000] * 3 + ["<|><|>", "<|"] * 40 + ["x" * 5000, "<|>"], "<|>")
def test_a_separator_that_is_rare_is_found_wherever_it_is(parts, separator):
    text, separator = "".join(parts).encode(), separator.encode()

    assert split_at(separator, text) == text.split(separator)
