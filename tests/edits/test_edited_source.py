"""A source with bans and new data equals a plain walk through its epochs, and inverts."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill import from_array
from tokenmill.edits.banned_tokens import BannedTokens
from tokenmill.edits.edited_source import EditedSource
from tokenmill.order.blocks import Blocks
from tokenmill.order.row_order import RowOrder
from tokenmill.order.source_order import SourceOrder, arrangement_of
from tokenmill.order.windows import Windows

ORDERS = ["sequential", "shuffle", "blocks", Blocks(3, 2)]


def windows_of(num_tokens, block_size, order, phase, seed=5):
    windows = Windows(num_tokens, block_size, seed, phase and order != "random")
    return SourceOrder(windows, arrangement_of(order, windows, [num_tokens // 3 + 1] * 3))


def rows_of(lengths, block_size, kind, order, begin, seed=5):
    data = from_array(np.zeros(sum(lengths), np.uint16), document_ends=np.cumsum(lengths))
    arrangement = arrangement_of(order)
    return RowOrder(data.documents_by_length(), kind, arrangement, block_size, seed, begin)


def banned(*ranges, lengths=()):
    """Ranges of tokens, with the documents that have some of them."""
    starts, stops = np.array(ranges, np.int64).reshape(-1, 2).T
    ends = np.cumsum(lengths, dtype=np.int64)
    firsts = ends - np.array(lengths, np.int64)
    touched = [any(a < end and first < b for a, b in ranges if a < b)
               for first, end in zip(firsts, ends, strict=True)]  # fmt: skip
    return BannedTokens(starts, stops, (firsts[touched], np.diff(ends, prepend=0)[touched]))


def edited_source(order, changes):
    source = EditedSource(order)
    for change in changes:
        source = source.changed(*change)
    return source


def tokens_of(bans):
    return {t for ban in bans for a, b in zip(ban.starts, ban.stops, strict=True)
            for t in range(a, b)}  # fmt: skip


def walk(order, changes, count, served_at):
    """(epoch, what is served) of the first samples, walking through positions one by one.

    `served_at(order, epoch, position, banned)` is what is left of it, or None: passed over.
    """
    found, epoch, position, begun = [], 0, 0, False

    def order_now():
        grown = [each for at, each in changes if at <= len(found)]
        grown = [each for each in grown if not isinstance(each, BannedTokens)]
        return grown[-1] if grown else order

    while len(found) < count:
        if not begun:
            position, order_here = 0, order_now()
        bans = [each for at, each in changes if at <= len(found)]
        tokens = tokens_of(each for each in bans if isinstance(each, BannedTokens))
        served = None
        while served is None:
            if position == order_here.samples_per_epoch:
                epoch, position, order_here = epoch + 1, 0, order_now()
            served = served_at(order_here, epoch, position, tokens)
            position += 1
        begun = True
        found.append((epoch, served))
        if position == order_here.samples_per_epoch:
            epoch, begun = epoch + 1, False
    return found


def window_at(order, epoch, position, tokens):
    start = int(order.starts(np.array([epoch * order.samples_per_epoch + position]))[0])
    targets = set(range(start + 1, start + 1 + order.block_size))
    return start if targets - tokens else None


def row_at(order, epoch, position, tokens):
    pieces = order.locate(np.array([epoch * order.samples_per_epoch + position]))
    left = []
    for first, length, begins in zip(pieces.starts, pieces.lengths, pieces.begins, strict=True):
        own = list(range(first, first + length - begins))
        targets = own if begins or len(own) == 1 else own[1:]
        if set(targets) - tokens:
            left.append((int(first), int(length), bool(begins)))
    return left or None


ranges = st.lists(
    st.tuples(st.integers(0, 130), st.integers(0, 60)).map(lambda r: (r[0], r[0] + r[1])),
    max_size=3,
)
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
def test_windows_of_an_edited_source(order, num_tokens, block_size, phase, times, data):
    base = windows_of(num_tokens, block_size, order, phase)
    changes, size = [], num_tokens
    for at in times:
        if data.draw(st.booleans()):
            size += data.draw(st.integers(1, 40))
            changes.append((at, windows_of(size, block_size, order, phase)))
        else:
            changes.append((at, banned(*data.draw(ranges))))
    bans = tokens_of(each for _, each in changes if isinstance(each, BannedTokens))
    if len(bans & set(range(1, num_tokens - 2 * block_size))) > num_tokens // 2:
        return  # little or nothing may be left
    count = 90
    expected = walk(base, changes, count, window_at)

    edited = edited_source(base, changes)

    index = np.arange(count)
    epochs = edited.epoch_of(index).tolist()
    assert list(zip(epochs, edited.starts(index).tolist(), strict=True)) == expected
    for source in (edited, pickle.loads(pickle.dumps(edited))):
        some = index.reshape(9, 10)[::-2]
        assert source.starts(some).tolist() == np.array([s for _, s in expected])[some].tolist()
    for epoch in range(max(epochs)):
        assert edited.first_of_epoch(epoch) == np.searchsorted(epochs, epoch)
        assert edited.num_samples(epoch) == epochs.count(epoch)
    low = data.draw(st.integers(0, num_tokens))
    check_inverse(edited, changes, expected, low, low + data.draw(st.integers(0, 30)), block_size)


def check_inverse(edited, changes, expected, low, high, block_size):
    """Targets that are not banned at their time are found, and no others."""
    found = {}
    for i, (epoch, start) in enumerate(expected):
        bans = [each for at, each in changes if at <= i and isinstance(each, BannedTokens)]
        targets = set(range(start + 1, start + 1 + block_size))
        if (targets & set(range(low, high))) - tokens_of(bans):
            found.setdefault(epoch, []).append(i)
    for epoch in range(expected[-1][0]):
        assert edited.samples_targeting(low, high, epoch).tolist() == found.get(epoch, [])


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
def test_rows_of_an_edited_source(kind, order, lengths, block_size, begin, times, data):
    def made(lengths):
        return rows_of(lengths, block_size, kind, order, begin)

    changes, now, hit = [], list(lengths), set()
    for at in times:
        if data.draw(st.booleans()):
            now = [*now, data.draw(st.integers(1, 25))]
            changes.append((at, made(now)))
        else:
            some = data.draw(st.lists(st.integers(0, len(lengths) - 2), max_size=4))
            ends = np.cumsum(now)
            wanted = [(int(ends[d] - now[d]), int(ends[d])) for d in some]
            hit |= set(some)
            if data.draw(st.booleans()) and wanted:  # a part of a document
                wanted[0] = (wanted[0][0], wanted[0][1] - 1)
            changes.append((at, banned(*wanted, lengths=now)))
    count = 60
    expected = walk(made(lengths), changes, count, row_at)

    edited = edited_source(made(lengths), changes)

    index = np.arange(count)
    pieces = edited.locate(index)
    tables = zip(pieces.starts.tolist(), pieces.lengths.tolist(), pieces.begins.tolist(),
                 strict=True)  # fmt: skip
    flat = list(tables)
    rows = [flat[a:b] for a, b in zip(pieces.firsts[:-1], pieces.firsts[1:], strict=True)]
    epochs = edited.epoch_of(index).tolist()
    assert list(zip(epochs, rows, strict=True)) == expected
    for row, first in zip(rows, pieces.firsts.tolist(), strict=False):
        columns = np.cumsum([0, *(length for _, length, _ in row[:-1])])
        assert pieces.columns[first : first + len(row)].tolist() == columns.tolist()
    document = data.draw(st.integers(0, len(lengths) - 1))
    check_visits(edited, changes, expected, lengths, document, begin)


def check_visits(edited, changes, expected, lengths, document, begin):
    """The rows with a target of a document that is not banned at its time."""
    start, length = sum(lengths[:document]), lengths[document]
    found = {}
    for i, (epoch, row) in enumerate(expected):
        bans = [each for at, each in changes if at <= i and isinstance(each, BannedTokens)]
        for first, size, begins in row:
            targets = set(range(first + (not begins), first + size - begins))
            if (targets & set(range(start, start + length))) - tokens_of(bans):
                found.setdefault(epoch, set()).add(i)
    where = [np.array([n]) for n in (start, length, 0, length)]
    for epoch in range(expected[-1][0]):
        assert edited.samples_targeting(*where, epoch).tolist() == sorted(found.get(epoch, []))


@pytest.mark.parametrize("phase", [False, True])
def test_parts_of_rows_that_are_banned(phase):
    first, second = banned((3, 9), (20, 21)), banned((9, 30), (70, 75))
    edited = edited_source(windows_of(100, 8, "shuffle", phase), [(4, first), (15, second)])
    index = np.arange(60)
    starts = edited.starts(index)

    which, lows, highs = edited.banned_parts(index, starts, 9)

    found = {(i, t) for i, a, b in zip(which, lows, highs, strict=True) for t in range(a, b)}
    assert found == {
        (i, t)
        for i, start in enumerate(starts)
        for t in range(start, start + 9)
        if t in tokens_of([first] * (i >= 4) + [second] * (i >= 15))
    }
    assert which.tolist() == sorted(which)


def test_a_draw_with_nothing_but_banned_targets_is_drawn_again():
    plain = windows_of(400, 6, "random", phase=False)
    ban = banned((100, 300), (310, 317))
    edited = edited_source(plain, [(50, ban)])
    index = np.arange(5000)

    before, after = plain.starts(index), edited.starts(index)

    gone = np.array([window_at(plain, 0, i, tokens_of([ban])) is None for i in index])
    gone &= index >= 50
    assert np.array_equal(after[~gone], before[~gone])
    left = [s for s in range(394) if set(range(s + 1, s + 7)) - tokens_of([ban])]
    again = np.bincount(after[gone], minlength=394)
    assert set(after[gone]) == set(left)  # each start that is left, and no other
    assert again.max() < 6 * gone.sum() / len(left)
    assert edited.first_of_epoch(3) == 3 * plain.samples_per_epoch
    hits = [i for i in range(66, 132) if set(range(after[i] + 1, after[i] + 7)) & {98, 99, 310}]
    assert edited.samples_targeting(98, 312, 1).tolist() == sorted(
        {*hits, *(i for i in range(66, 132) if set(range(after[i] + 1, after[i] + 7))
                  & set(range(300, 310)))}
    )  # fmt: skip


@pytest.mark.parametrize("order", ["shuffle", "random"])
@pytest.mark.parametrize("phase", [False, True])
def test_a_ban_that_leaves_nothing_is_refused(order, phase):
    with pytest.raises(ValueError, match="leaves nothing"):
        edited_source(
            windows_of(100, 8, order, phase), [(0, banned((0, 40))), (7, banned((40, 100)))]
        )


def test_rows_of_which_nothing_is_left_are_refused():
    lengths = [4, 1, 20]
    with pytest.raises(ValueError, match="leaves nothing"):
        edited_source(
            rows_of(lengths, 6, "packed", "shuffle", False),
            [(3, banned((0, 25), lengths=lengths))],
        )


def test_data_that_has_grown_may_be_all_that_is_left():
    grown = windows_of(100, 8, "shuffle", False)

    edited = edited_source(windows_of(50, 8, "shuffle", False), [(2, grown), (4, banned((0, 50)))])

    assert edited.epoch_of(np.arange(6)).tolist() == [0, 0, 0, 0, 1, 1]
    assert edited.starts(np.arange(4, 50)).min() >= 48


def test_a_million_epochs_of_one_window_are_found_at_once():
    """One window of many is left, and only that one is looked for."""
    edited = edited_source(windows_of(10_001, 10, "shuffle", False), [(5, banned((0, 9_991)))])

    index = np.arange(10**6, 10**6 + 40)
    assert np.array_equal(edited.epoch_of(index), index - edited.num_samples(0) + 1)
    assert edited.first_of_epoch(10**6) == 10**6 + edited.num_samples(0) - 1
    assert set(edited.starts(index).tolist()) == {9_990}
