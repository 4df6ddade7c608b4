"""A source whose data grows equals a plain walk through its epochs; bans mask and change no row."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order.made_orders import axis

from tokenmill import from_array
from tokenmill.edits.bans import SourceBans
from tokenmill.edits.edited_order import GrownSource
from tokenmill.order.blocks import Blocks
from tokenmill.order.order_settings import OrderSettings

ORDERS = ["sequential", "shuffle", "blocks", "random", Blocks(3, 2)]


def windows_of(num_tokens, block_size, order, phase, seed=5):
    size = num_tokens // 3
    rules = OrderSettings(block_size, seed, order, phase and order != "random")
    return rules.source_order(axis([size, size, num_tokens - 2 * size]), seed)


def rows_of(lengths, block_size, kind, order, begin, seed=5):
    data = from_array(np.zeros(sum(lengths), np.uint16), document_ends=np.cumsum(lengths))
    rules = OrderSettings(block_size, seed, order, rows=kind, begin_token=1 if begin else None)
    return rules.source_order(data, seed)


def grown_source(order, changes):
    for index, grown in changes:
        order = GrownSource(order, index, grown)
    return order


def walk(order, changes, count):
    """(epoch, order, its sample) of the first samples, one after the other."""
    found, epoch, position = [], 0, 0
    while len(found) < count:
        if position == 0:
            order = [order, *(grown for index, grown in changes if index <= len(found))][-1]
        found.append((epoch, order, epoch * order.samples_per_epoch + position))
        position = (position + 1) % order.samples_per_epoch
        epoch += position == 0
    return found


def ban(first, *pairs):
    starts, stops = np.array(pairs, np.int64).reshape(-1, 2).T
    return np.full(len(starts), first), starts, stops


times = st.lists(st.integers(0, 60), min_size=1, max_size=4).map(sorted)


@given(
    order=st.sampled_from(ORDERS),
    num_tokens=st.integers(25, 140),
    block_size=st.integers(1, 12),
    phase=st.booleans(),
    times=times,
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_windows_of_a_grown_source(order, num_tokens, block_size, phase, times, data):
    base = windows_of(num_tokens, block_size, order, phase)
    changes, size = [], num_tokens
    for at in times:
        size += data.draw(st.integers(1, 40))
        changes.append((at, windows_of(size, block_size, order, phase)))
    expected = walk(base, changes, 90)
    starts = [int(own.starts(np.array([sample]))[0]) for _, own, sample in expected]

    grown = grown_source(base, changes)

    index = np.arange(90)
    epochs = grown.epoch_of(index).tolist()
    assert epochs == [epoch for epoch, _, _ in expected]
    assert grown.rows(index).start.tolist() == starts
    some = index[::-2]
    again = pickle.loads(pickle.dumps(grown))
    assert again.rows(some).start.tolist() == np.array(starts)[some].tolist()
    low = data.draw(st.integers(0, num_tokens))
    high = low + data.draw(st.integers(0, 30))
    for epoch in range(max(epochs)):
        assert grown.first_of_epoch(epoch) == epochs.index(epoch)
        assert grown.epochs_until(epochs.index(epoch)) == epoch
        targeting = [
            i for i in index.tolist()
            if epochs[i] == epoch and low < high
            and starts[i] + 1 < high and starts[i] + block_size >= low
        ]  # fmt: skip
        assert grown.targeting(low, high, epoch).tolist() == targeting


@given(
    kind=st.sampled_from(["packed", "documents"]),
    order=st.sampled_from(["shuffle", "sequential"]),
    lengths=st.lists(st.integers(1, 25), min_size=3, max_size=14),
    block_size=st.integers(2, 12),
    begin=st.booleans(),
    times=times,
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_rows_of_a_grown_source(kind, order, lengths, block_size, begin, times, data):
    base, now, changes = rows_of(lengths, block_size, kind, order, begin), list(lengths), []
    for at in times:
        now = [*now, data.draw(st.integers(1, 25))]
        changes.append((at, rows_of(now, block_size, kind, order, begin)))
    expected = walk(base, changes, 60)

    grown = grown_source(base, changes)

    spans = grown.rows(np.arange(60))
    for row, (_, own, sample) in enumerate(expected):
        mine, plain = spans.between(row, row + 1), own.rows(np.array([sample]))
        for name in ("row", "column", "start", "length"):
            assert getattr(mine, name).tolist() == getattr(plain, name).tolist()
    document = data.draw(st.integers(0, len(lengths) - 1))
    start, length = sum(lengths[:document]), lengths[document]
    for epoch in range(expected[-1][0]):
        found = grown.targeting(start, start + length, epoch).tolist()
        for i, (its_epoch, own, sample) in enumerate(expected):
            if its_epoch == epoch:
                row = own.rows(np.array([sample]))
                firsts, stops = row.targets
                hit = ((firsts < start + length) & (stops > start) & (firsts < stops)).any()
                assert (i in found) == hit


@pytest.mark.parametrize("phase", [False, True])
def test_parts_of_rows_that_are_banned(phase):
    first, second = [(3, 9), (20, 21)], [(9, 30), (70, 75)]
    bans = SourceBans([ban(15, *second), ban(4, *first)])
    source = windows_of(100, 8, "shuffle", phase)
    index = np.arange(60)
    starts = source.starts(index)

    which, lows, highs = bans.inside(index, starts, starts + 9)

    def banned_at(i):
        pairs = first * (i >= 4) + second * (i >= 15)
        return {t for a, b in pairs for t in range(a, b)}

    found = {(i, t) for i, a, b in zip(which, lows, highs, strict=True) for t in range(a, b)}
    assert found == {
        (i, t) for i, s in enumerate(starts) for t in range(s, s + 9) if t in banned_at(i)
    }


@given(
    pairs=st.lists(st.tuples(st.integers(0, 90), st.integers(0, 20)), max_size=6),
    rows=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 9)), min_size=1, max_size=9),
)
def test_ranges_answer_as_a_set_of_tokens_does(pairs, rows):
    tokens = {t for start, length in pairs for t in range(start, start + length)}
    starts, lengths = np.array(rows).T
    banned = SourceBans([ban(7, *((start, start + length) for start, length in pairs))])

    of_rows = [set(range(start, start + length)) for start, length in rows]
    which, lows, highs = banned.inside(np.full(len(rows), 7), starts, starts + lengths)
    parts = {(i, t) for i, a, b in zip(which, lows, highs, strict=True) for t in range(a, b)}
    assert parts == {(i, t) for i, row in enumerate(of_rows) for t in row & tokens}
