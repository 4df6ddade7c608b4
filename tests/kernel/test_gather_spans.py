"""The gather in C: equal to a copy token by token, and no span reaches outside of an array."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tokenmill import kernel

pytestmark = pytest.mark.skipif(kernel.compiled is None, reason="the loops are not compiled")
DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
NO_MARKS = (None, 0, False)
NUMBERS = st.one_of(st.integers(-3, 45), st.sampled_from([-(2**63), 2**62, 2**63 - 1]))


def maps_of(sizes, dtype, missing=()):
    edges = np.cumsum([0, *sizes])
    tokens = np.arange(edges[-1], dtype=np.int64).astype(dtype) * 3
    maps = kernel.compiled.Maps(edges, np.dtype(dtype).itemsize, np.dtype(dtype).kind == "i")
    for run in set(range(len(sizes))) - set(missing):
        maps.put(run, tokens[edges[run] : edges[run + 1]])
    return maps, tokens, edges


def plain_gather(tokens, edges, missing, out, spans, largest, flags, mark, marks_next):
    """Copy token by token; the number of the first span that cannot be copied, and its run."""
    unsigned = tokens.view(f"u{tokens.itemsize}")
    for number, (row, column, start, length) in enumerate(spans):
        for at in range(length):
            run = int(np.searchsorted(edges, start + at, side="right")) - 1
            if run in missing:
                return number, run
            part = unsigned[start + at : min(start + length, edges[run + 1])]
            if int(part.max()) > largest:
                return number, -1
            out[row, column + at] = tokens[start + at].astype(out.dtype)
            flag = column + at + marks_next
            if tokens[start + at] == mark and flag < flags.shape[1]:
                flags[row, flag] = False
    return len(spans), -1


@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=6).filter(sum),
    dtype=st.sampled_from(DTYPES),
    out=st.sampled_from(DTYPES),
    largest=st.sampled_from([20, 2**64 - 1]),
    mark=st.sampled_from([0, 6, 21, 250, 2**40]),
    marks_next=st.booleans(),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_spans_are_copied_as_one_token_after_the_other_is(
    sizes, dtype, out, largest, mark, marks_next, data
):
    missing = data.draw(st.sets(st.integers(0, len(sizes) - 1), max_size=1))
    maps, tokens, edges = maps_of(sizes, dtype, missing)
    spans = []
    for _ in range(data.draw(st.integers(0, 6))):
        length = data.draw(st.integers(0, min(9, sum(sizes))))
        start = data.draw(st.integers(0, sum(sizes) - length))
        spans.append(
            (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 9 - length)), start, length)
        )
    tables = np.array(spans, np.int64).reshape(-1, 4).T.copy()
    rows, expected = np.zeros((4, 9), out), np.zeros((4, 9), out)

    flags, expected_flags = np.ones((4, 9), bool), np.ones((4, 9), bool)

    found = maps.gather(rows, *tables, largest, 0, flags, mark, marks_next)

    assert found == plain_gather(
        tokens, edges, missing, expected, spans, largest, expected_flags, mark, marks_next
    )
    if found[0] == len(spans):
        assert rows.tolist() == expected.tolist()
        assert flags.tolist() == expected_flags.tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_id_is_refused_from_the_first_one_above_the_largest_on(dtype):
    maps, *_ = maps_of([4, 4], dtype)  # 0, 3, 6, 9 | 12, 15, 18, 21
    tables = [np.array([number], np.int64) for number in (0, 0, 0, 8)]
    rows = np.zeros((1, 8), np.int64)

    assert maps.gather(rows, *tables, 21, 0, *NO_MARKS) == (1, -1)
    assert maps.gather(rows, *tables, 20, 0, *NO_MARKS) == (0, -1)


@given(row=NUMBERS, column=NUMBERS, start=NUMBERS, length=NUMBERS)
@settings(max_examples=300, deadline=None)
@example(row=3, column=5, start=0, length=5)
@example(row=0, column=-1, start=0, length=5)
@example(row=4, column=0, start=0, length=5)
@example(row=-1, column=0, start=0, length=5)
@example(row=0, column=0, start=36, length=5)
@example(row=0, column=0, start=-1, length=5)
@example(row=0, column=0, start=0, length=-1)
def test_a_span_outside_of_the_axis_or_of_the_rows_is_refused(row, column, start, length):
    maps, *_ = maps_of([20, 20], "uint16")
    guarded = np.full((6, 9), 7, np.int64)
    rows = guarded[1:5]
    is_inside = 0 <= row < 4 and column >= 0 and length >= 0 and column + length <= 9
    is_inside = is_inside and start >= 0 and start + length <= 40

    tables = [np.array([number], np.int64) for number in (row, column, start, length)]
    if is_inside:
        assert maps.gather(rows, *tables, 2**64 - 1, 0, *NO_MARKS) == (1, -1)
    else:
        with pytest.raises(IndexError, match="outside of the axis or of the rows"):
            maps.gather(rows, *tables, 2**64 - 1, 0, *NO_MARKS)
        assert (guarded == 7).all()
    assert (guarded[[0, 5]] == 7).all()


@pytest.mark.parametrize("edges", [[], [0], [1, 5], [0, 5, 3], [-1, 4], [0, 2**62]], ids=str)
def test_edges_that_are_none_are_refused(edges):
    with pytest.raises(ValueError, match="must rise from 0"):
        kernel.compiled.Maps(np.array(edges, np.int64), 2, False)


def test_buffers_and_arrays_of_other_sizes_are_refused():
    maps, *_ = maps_of([20, 20], "uint16")
    one = np.zeros(1, np.int64)

    with pytest.raises(ValueError, match="not as long as its run"):
        maps.put(0, np.zeros(19, np.uint16))
    with pytest.raises(IndexError):
        maps.put(2, np.zeros(20, np.uint16))
    with pytest.raises(IndexError):
        maps.drop(-1)
    with pytest.raises(ValueError, match="int64"):
        maps.gather(np.zeros((1, 9)), one, one, one, one[:0], 0, 0, *NO_MARKS)
    with pytest.raises(ValueError, match="int64"):
        maps.gather(np.zeros((1, 9)), one.astype(np.int32), one, one, one, 0, 0, *NO_MARKS)
    with pytest.raises(ValueError, match="2-D"):
        maps.gather(np.zeros(9), one, one, one, one, 0, 0, *NO_MARKS)
    for flags in (np.ones(8, bool), b"123456789"):
        with pytest.raises(ValueError, match="one flag for each token"):
            maps.gather(np.zeros((1, 9)), one, one, one, one, 0, 0, flags, 0, False)
    with pytest.raises((BufferError, ValueError), match="contiguous"):
        maps.gather(np.zeros((1, 9))[:, ::2], one, one, one, one, 0, 0, *NO_MARKS)


@given(
    sizes=st.lists(st.integers(0, 90), min_size=1, max_size=4).filter(sum),
    widths=st.lists(st.sampled_from([0, 1, 2, 6]), min_size=1, max_size=3),
    missing=st.sampled_from([None, 0]),
    data=st.data(),
)
@settings(max_examples=200, deadline=None)
def test_columns_are_copied_by_the_spans_of_their_tokens(sizes, widths, missing, data):
    """A width of 0 is one bit per token; its run begins at any bit of its first byte."""
    maps, tokens, edges = maps_of(sizes, "uint16")
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    columns, values, rows = [], [], []
    for width in widths:
        value = random.integers(0, 256, (len(tokens), width or 1)).astype(np.uint8)
        value = value & 1 if width == 0 else value
        column = kernel.compiled.Maps(edges, width, False)
        for run, (start, stop) in enumerate(itertools.pairwise(edges)):
            part = value[start:stop]
            skipped = int(random.integers(0, 8)) if width == 0 else 0
            if width == 0:
                before = random.integers(0, 2, skipped).astype(np.uint8)
                part = np.packbits(np.append(before, part), bitorder="little")
            if run != missing:
                column.put(run, np.ascontiguousarray(part), skipped)
        columns.append(column)
        values.append(value)
        rows.append(np.full((3, 80, width or 1), 7, np.uint8))
    length = data.draw(st.integers(0, min(80, len(tokens))))
    start = data.draw(st.integers(0, len(tokens) - length))
    column = data.draw(st.integers(0, 80 - length))
    tables = [np.array([number], np.int64) for number in (1, column, start, length)]
    out = np.zeros((3, 80), np.int64)

    pairs = tuple(zip(columns, rows, strict=True))
    found = maps.gather(out, *tables, 2**64 - 1, 0, *NO_MARKS, pairs)

    if missing == 0 and length and start < edges[1]:
        assert found == (0, 0)
        return
    assert found == (1, -1)
    assert out[1, column : column + length].tolist() == tokens[start : start + length].tolist()
    for value, row in zip(values, rows, strict=True):
        expected = np.full_like(row, 7)
        expected[1, column : column + length] = value[start : start + length]
        assert row.tolist() == expected.tolist()


def test_columns_of_other_runs_or_rows_are_refused():
    maps, *_ = maps_of([20, 20], "uint16")
    table = [np.array([number], np.int64) for number in (0, 0, 15, 9)]
    out = np.zeros((1, 9), np.int64)
    shorter = kernel.compiled.Maps(np.array([0, 16, 40]), 1, False)
    shorter.put(0, bytes(16))
    shorter.put(1, bytes(24))

    done, missing = maps.gather(
        out, *table, 2**64 - 1, 0, *NO_MARKS, ((shorter, np.zeros((1, 9), np.uint8)),)
    )

    assert (done, missing) == (0, 0)  # nothing is read outside of its run
    with pytest.raises(ValueError, match="one value of a column for each token"):
        maps.gather(out, *table, 0, 0, *NO_MARKS, ((shorter, np.zeros((1, 8), np.uint8)),))
    many = tuple((shorter, np.zeros((1, 9), np.uint8)) for _ in range(17))
    with pytest.raises(ValueError, match="at most 16 columns"):
        maps.gather(out, *table, 0, 0, *NO_MARKS, many)
    bits = kernel.compiled.Maps(np.array([0, 20]), 0, False)
    with pytest.raises(ValueError, match="not as long as its run"):
        bits.put(0, bytes(3), 5)
    bits.put(0, bytes(4), 5)
