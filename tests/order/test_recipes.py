"""Packing over a histogram of lengths is best-fit decreasing, one piece at a time."""

from bisect import bisect_left, insort
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import kernel
from tokenmill.order.document_pieces import DocumentPieces
from tokenmill.order.recipes import one_each, pack


def cut(length, block_size):
    """A document in pieces, by walking along it."""
    pieces, at = [], 0
    while at + block_size + 1 <= length:
        pieces.append(block_size + 1)
        at += block_size
    return pieces if pieces and length - at == 1 else [*pieces, length - at]


def free_spaces(pieces, capacity):
    """Best-fit decreasing one by one: the free space of every row, ascending."""
    spaces = []
    for piece in sorted(pieces, reverse=True):
        at = bisect_left(spaces, piece)
        space = spaces.pop(at) if at < len(spaces) else capacity
        insort(spaces, space - piece)
    return spaces


def rows_of(recipes):
    """Each row as a list of (length, number of the piece among all of that length)."""
    rows = []
    for i in range(len(recipes.row_starts) - 1):
        entries = range(recipes.entry_starts[i], recipes.entry_starts[i + 1])
        for o in range(recipes.row_starts[i + 1] - recipes.row_starts[i]):
            rows.append(
                [
                    (int(recipes.length[e]), int(recipes.first[e] + o * recipes.count[e] + j))
                    for e in entries
                    for j in range(recipes.count[e])
                ]
            )
    return rows


@st.composite
def documents(draw):
    """A block size, and documents from 1 token to 100 rows long; often many of one length."""
    block_size = draw(st.integers(1, 60))
    short = st.integers(1, block_size + 1)
    long = st.integers(1, 100 * block_size)
    lengths = draw(st.lists(st.one_of(short, long), max_size=25))
    repeats = draw(st.lists(st.integers(1, 5), min_size=len(lengths), max_size=len(lengths)))
    return block_size, np.repeat(lengths, repeats).astype(int).tolist()


@given(documents(), st.booleans())
@settings(max_examples=600, deadline=None)
def test_rows_and_padding_are_those_of_packing_one_by_one(case, begin):
    block_size, lengths = case
    expected = [piece for length in lengths for piece in cut(length + begin, block_size)]
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    pieces = DocumentPieces(distinct, counts, block_size=block_size, begin=begin)
    assert pieces.count_of.sum() == len(expected)
    assert pieces.num_tokens == sum(expected)

    recipes = pack(
        pieces.lengths.tolist(), pieces.count_of[pieces.lengths].tolist(), block_size + 1
    )
    rows = rows_of(recipes)

    free = sorted(block_size + 1 - sum(length for length, _ in row) for row in rows)
    assert free == free_spaces(expected, block_size + 1)
    assert recipes.num_rows == len(rows)
    placed = Counter(piece for row in rows for piece in row)
    assert placed == Counter(
        (length, n) for length, count in Counter(expected).items() for n in range(count)
    )


@given(documents(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_pieces_have_numbers_and_documents_both_ways(case, begin):
    block_size, lengths = case
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    pieces = DocumentPieces(distinct, counts, block_size=block_size, begin=begin)
    numbers = np.arange(pieces.count_of.sum())

    length = pieces.length_of(numbers)
    document, piece = pieces.locate(length, numbers - pieces.first_of[length])

    assert np.array_equal(pieces.number_of(document, piece), numbers)
    assert (np.diff(pieces.length_of(numbers)) >= 0).all()
    found = sorted(
        zip(document.tolist(), piece.tolist(), pieces.length_of(numbers).tolist(), strict=True)
    )
    assert found == [
        (d, j, size)
        for d, length in enumerate(sorted(lengths))
        for j, size in enumerate(cut(length + begin, block_size))
    ]
    assert pieces.num_cut == sum(len(cut(length + begin, block_size)) > 1 for length in lengths)


@given(documents(), st.booleans(), st.sampled_from(["cut", "drop"]))
@settings(max_examples=100, deadline=None)
def test_of_long_documents_the_first_piece_is_kept_or_none(case, begin, long):
    block_size, lengths = case
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    all_pieces = [cut(length + begin, block_size) for length in sorted(lengths)]
    kept = [p if len(p) == 1 else p[: int(long == "cut")] for p in all_pieces]
    if not any(kept):
        with pytest.raises(ValueError, match="leaves no document") if lengths else nullcontext():
            DocumentPieces(distinct, counts, block_size=block_size, begin=begin, long=long)
        return
    pieces = DocumentPieces(distinct, counts, block_size=block_size, begin=begin, long=long)
    numbers = np.arange(pieces.count_of.sum())

    length = pieces.length_of(numbers)
    document, piece = pieces.locate(length, numbers - pieces.first_of[length])

    assert np.array_equal(pieces.number_of(document, piece), numbers)
    found = sorted(zip(document.tolist(), piece.tolist(), length.tolist(), strict=True))
    assert found == [(d, 0, size) for d, sizes in enumerate(kept) for size in sizes]
    assert pieces.num_long == sum(len(sizes) > 1 for sizes in all_pieces)
    assert pieces.num_left_out == sum(not sizes for sizes in kept)
    every = np.arange(len(lengths))
    assert pieces.are_there(every, np.zeros_like(every)).tolist() == list(map(bool, kept))
    assert not pieces.are_there(every, np.ones_like(every)).any()


def test_a_row_for_each_piece_has_them_from_the_shortest():
    assert rows_of(one_each([2, 5], [2, 1])) == [[(2, 0)], [(2, 1)], [(5, 0)]]


def test_a_billion_documents_are_a_table_of_a_few_thousand_recipes():
    rng = np.random.default_rng(0)
    sample = np.exp(rng.normal(6.2, 1.2, 200_000)).astype(np.int64) + 1
    lengths, counts = np.unique(sample, return_counts=True)
    pieces = DocumentPieces(lengths, counts * 5000, block_size=2048, begin=False)

    recipes = pack(pieces.lengths.tolist(), pieces.count_of[pieces.lengths].tolist(), 2049)

    assert len(recipes.row_starts) < 10_000
    padding = recipes.num_rows * 2049 - pieces.num_tokens
    assert 0 <= padding < recipes.num_rows * 2049 // 1000


@pytest.mark.parametrize("with_kernel", [True, False])
@given(documents())
@settings(max_examples=100, deadline=None)
def test_rows_expand_to_the_pieces_of_their_recipes(with_kernel, case):
    block_size, lengths = case
    distinct, counts = np.unique(np.array(lengths, np.int64), return_counts=True)
    pieces = DocumentPieces(distinct, counts, block_size=block_size, begin=False)
    recipes = pack(
        pieces.lengths.tolist(), pieces.count_of[pieces.lengths].tolist(), block_size + 1
    )
    rows = np.random.default_rng(len(lengths)).permutation(recipes.num_rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", kernel.compiled if with_kernel else None)
        expanded = recipes.expand(rows)

    plain = rows_of(recipes)
    found = [[] for _ in rows]
    column = 0
    for row, begin, length, number in zip(*(table.tolist() for table in expanded), strict=True):
        column = column if found[row] else 0
        assert begin == column
        column += length
        found[row].append((length, number))
    assert found == [plain[row] for row in rows.tolist()]
