"""The gather in C: equal to a copy token by token, and no span reaches outside of an array."""

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
            out[row, column + at] = tokens[start + at]
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
