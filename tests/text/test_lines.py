"""Lines of many texts at once, against loops over one text after the other."""

import re
from itertools import compress

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import kernel
from tokenmill.text.cleaning.line_work import (
    find_lines,
    hash_selected,
    lines_that_count,
    with_surplus_empty_lines,
    without_lines,
)

TEXTS = st.lists(st.text("ab\n", max_size=12).map(str.encode), max_size=6)


def plain_lines(texts):
    return [line for text in texts for line in text.split(b"\n")]


def plainly_without(texts, dropped):
    """Each line goes with the newline after it; the last line of a text has none."""
    left, number = [], 0
    for text in texts:
        lines = re.findall(rb"[^\n]*\n|[^\n]+\Z|\Z", text)
        lines = lines[: text.count(b"\n") + 1]
        left.append(b"".join(line for n, line in enumerate(lines, number) if n not in dropped))
        number += len(lines)
    return left


def plainly_squeezed(text):
    return re.sub(rb"\A\n{2,}", b"\n", re.sub(rb"\n{3,}", b"\n\n", text))


@given(TEXTS)
def test_lines_are_those_of_each_text_in_turn(texts):
    lines = find_lines(texts)

    assert [
        lines.whole[start:stop] for start, stop in zip(lines.starts, lines.stops, strict=True)
    ] == plain_lines(texts)
    counts = [text.count(b"\n") + 1 for text in texts]
    assert lines.first_of_text.tolist() == [sum(counts[:n]) for n in range(len(counts) + 1)]


@pytest.mark.parametrize("with_kernel", [True, False])
@given(
    lines=st.lists(st.text("ab \t\u00e9\u4e2d\x0b}", max_size=12), min_size=1, max_size=8),
    min_chars=st.integers(0, 6),
)
def test_which_lines_count(with_kernel, lines, min_chars):
    blank = " \t\x0b\n\r\x0c"
    expected = [
        len(line) >= max(1, min_chars) and bool(line.strip(blank)) and len(line.encode()) <= 20
        for line in lines
    ]
    text = "\n".join(lines).encode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", kernel.compiled if with_kernel else None)
        assert lines_that_count(find_lines([text]), min_chars, 20).tolist() == expected


@pytest.mark.parametrize("with_kernel", [True, False])
@given(texts=TEXTS, data=st.data())
def test_lines_are_hashed_with_their_newlines(with_kernel, texts, data):
    lines = find_lines(texts)
    which = data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", kernel.compiled if with_kernel else None)
        found = hash_selected(lines, np.array(which, bool))

    wanted = compress(plain_lines(texts), which)
    expected = [line + b"\n" for line in wanted]
    assert found.tobytes() == b"".join(map(xxhash.xxh3_128_digest, expected))


def test_lines_of_every_length_have_the_hash_of_the_package():
    """XXH3 has a way of its own for each range of lengths, and blocks of 1,024 bytes."""
    letters = np.random.default_rng(0).integers(32, 256, 9000, np.uint8).tobytes()
    sizes = [*range(1, 1300), 2047, 2048, 2049, 4096, 5000, 8999]
    lines = find_lines([letters[:size] for size in sizes])

    found = hash_selected(lines, np.ones(len(lines), bool))

    expected = [xxhash.xxh3_128_digest(letters[:size] + b"\n") for size in sizes]
    assert found.tobytes() == b"".join(expected)


@given(TEXTS, st.data())
def test_lines_go_with_their_newlines(texts, data):
    lines = find_lines(texts)
    dropped = np.flatnonzero(
        data.draw(st.lists(st.booleans(), min_size=len(lines), max_size=len(lines)))
    )

    assert without_lines(lines, dropped) == plainly_without(texts, set(dropped.tolist()))


@given(TEXTS, st.booleans(), st.data())
def test_empty_lines_that_meet_become_one_as_in_cleaning(texts, continues, data):
    texts = [plainly_squeezed(text) for text in texts]
    lines = find_lines(texts)
    filled = [number for number, line in enumerate(plain_lines(texts)) if line]
    dropped = data.draw(st.sets(st.sampled_from(filled))) if filled else set()

    found = without_lines(
        lines,
        with_surplus_empty_lines(lines, np.array(sorted(dropped), int), continues=continues),
    )

    expected = plainly_without(texts, dropped)
    if continues and expected:  # something else is before the first
        expected[0] = plainly_squeezed(b"." + expected[0])[1:]
    assert found == [
        text if continues and number == 0 else plainly_squeezed(text)
        for number, text in enumerate(expected)
    ]
