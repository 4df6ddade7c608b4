"""How often shards and sources were used: equal to counting every target, and flat."""

import sys
from collections import Counter

import numpy as np
import pytest
from batches.numbered import numbered
from order.made_orders import source_order

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.edits import Add, Ban, Cap, Reweight, Skip
from tokenmill.edits.bans import SourceBans
from tokenmill.edits.usage import targets_before
from tokenmill.order import order
from tokenmill.order.blocks import Blocks

BLOCK = 6
LENGTHS = [50, 1, 99, 3, 47]
END = 0


def counted(loader, num_steps):
    """Targets by (source, file), one batch after the other: the slow way."""
    found = Counter()
    for step in range(num_steps):
        batch = loader.batch(step)
        for row, column in np.argwhere(batch.labels >= 0).tolist():
            place = loader.locate(step, row, column + 1)
            found[place.source, place.file] += 1
    return found


def used(loader, step):
    return Counter(
        {
            (source.source, shard.file): shard.used
            for source in loader.usage(step)
            for shard in source.shards
            if shard.used
        }
    )


def tokens(num_tokens, seed=0):
    """Documents of 2 to 20 tokens, each with the end-of-text id at its end."""
    ids = np.arange(1, num_tokens + 1, dtype=np.uint16)
    ids[np.cumsum(np.random.default_rng(seed).integers(2, 20, 60)).clip(max=num_tokens) - 1] = END
    return ids


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "sequential"},
        {"order": "blocks"},
        {"order": Blocks(2, 3)},
        {"order": "random"},
        {"phase": True},
        {"rows": "packed"},
        {"rows": "documents", "order": "sequential"},
        {"rows": "packed", "begin_token": 3},
    ],
)
def test_usage_equals_counting_every_target(in_shards, options, monkeypatch):
    monkeypatch.setattr(order, "SPANS_AT_ONCE", 5)  # several chunks
    data = in_shards(tokens(200), LENGTHS, end_of_text=END)
    loader = BatchLoader(data, batch_size=2, block_size=BLOCK, **options)

    for step in (0, 1, 5, 12, 17, 40):
        assert used(loader, step) == counted(loader, step)


def test_usage_of_a_mixture_equals_counting(in_shards):
    web, code = in_shards(tokens(200), LENGTHS, end_of_text=END), numbered(70, first=1)
    mixture = Mixture(
        {"web": web, "code": code},
        schedule=[(0, {"web": 3, "code": 1}), (30, {"web": 1, "code": 1})],
    )
    loader = BatchLoader(mixture, batch_size=3, block_size=BLOCK, rank=1, world_size=2)
    of_all_ranks = BatchLoader(mixture, batch_size=6, block_size=BLOCK)

    for step in (0, 3, 9, 21):
        assert used(loader, step) == counted(of_all_ranks, step)
        web_use, code_use = loader.usage(step)
        assert web_use.samples + code_use.samples == 6 * step
        assert sum(shard.used for shard in web_use.shards) == BLOCK * web_use.samples
        assert [each[:3] for each in loader.usage(step, shards=False)] == [
            web_use[:3],
            code_use[:3],
        ]


@pytest.mark.parametrize("options", [{}, {"rows": "packed"}, {"phase": True}])
def test_usage_after_edits_equals_counting(in_shards, options):
    web = in_shards(tokens(200), LENGTHS, end_of_text=END)
    loader = BatchLoader(web, batch_size=2, block_size=BLOCK, **options)
    loader.edit(Skip(steps=(3, 9)))
    loader.edit(Add("code", numbered_documents(), weights={"data": 1, "code": 1}), at=11)
    loader.edit(Skip(steps=(20, 90)), at=20)
    loader.edit(Ban(documents=[2, 3, 4, 17], source="data"), at=25)
    loader.edit(Reweight({"data": 3, "code": 1}), at=30)
    loader.edit(Ban(tokens=(55, 90), source="data"), at=50)

    for step in (0, 2, 3, 4, 12, 20, 21, 35, 110):  # many epochs: an epoch has 11 to 33 samples
        assert used(loader, step) == counted(loader, step)


@pytest.mark.parametrize("options", [{}, {"rows": "packed"}, {"phase": True}])
def test_a_run_that_asks_again_and_again_is_told_the_same(in_shards, options):
    web = in_shards(tokens(200), LENGTHS, end_of_text=END)
    loader = BatchLoader(web, batch_size=2, block_size=BLOCK, **options)
    for step in range(1, 60):
        next(loader)
        if step == 20:
            loader.usage(500)  # of a future that the next edits change
            loader.edit(Skip(steps=(20, 24)), Ban(documents=[2, 3, 4], source="data"))
        if step == 40:
            weights = {"data": 1, "code": 1}
            loader.edit(Add("code", numbered_documents(), weights=weights))
        if step % 15 == 0:
            assert used(loader, step) == counted(loader, step)
    assert used(loader, 30) == counted(loader, 30)
    assert used(loader, 70) == counted(loader, 70)
    state = loader.state_dict()
    for _ in range(5):
        next(loader)
    loader.usage()
    loader.load_state_dict(state)
    assert used(loader, 59) == counted(loader, 59)


def numbered_documents():
    return tokenmill.from_array(tokens(70, seed=1), end_of_text=END)


def test_a_run_that_asks_again_looks_only_at_what_came_since(in_shards, monkeypatch):
    monkeypatch.setattr(order, "SPANS_AT_ONCE", 1)  # so that each sample is a call
    loader = BatchLoader(in_shards(tokens(2000), [2000]), batch_size=1, block_size=2)
    calls = []
    for _ in range(300):
        next(loader)
        before = len(calls)
        sys.setprofile(lambda *what: calls.append(what[1]))
        try:
            loader.usage()
        finally:
            sys.setprofile(None)
        assert len(calls) - before < 1000


@pytest.mark.parametrize("edit", [Cap({"data": 2}), Cap({"data": 2}, then="end"), None])
def test_nothing_is_used_after_the_last_step(in_shards, edit):
    data = in_shards(tokens(200), LENGTHS)  # 33 windows
    epochs = 2 if edit is None else None
    loader = BatchLoader(data, batch_size=4, block_size=BLOCK, epochs=epochs)
    if edit is not None:
        loader.edit(edit, Ban(tokens=(1, 199)), at=9)
    num_steps = len(list(loader))

    assert num_steps == 66 // 4
    assert used(loader, 1000) == counted(loader, num_steps) == used(loader, num_steps)
    assert loader.usage(1000)[0].samples == 4 * num_steps


def test_a_skipped_epoch_before_data_has_grown_is_no_epoch_that_was_served(in_shards):
    data = in_shards(tokens(200), LENGTHS)
    before = BatchLoader(data.part(0, 61), batch_size=2, block_size=BLOCK)  # 10 windows an epoch
    before.edit(Skip(samples=(2, 12)))
    for _ in range(2):
        next(before)
    loader = BatchLoader(data, batch_size=2, block_size=BLOCK)
    loader.load_state_dict(before.state_dict())

    # 2 samples of epoch 0 and 8 of epoch 1; then 33 windows an epoch.
    assert loader.usage(5)[0].epochs == pytest.approx(1)
    assert loader.usage(5 + 33)[0].epochs == pytest.approx(3)
    assert loader.usage(5 + 33)[0].samples == 2 * 38


@pytest.mark.parametrize("step", [-1, 1 << 46, 1 << 61, 1 << 70])
def test_a_step_too_far_away_to_count_is_refused(in_shards, step):
    loader = BatchLoader(in_shards(tokens(200), LENGTHS), batch_size=4, block_size=BLOCK)
    for look in (loader.usage, loader.batch, lambda step: loader.locate(step, 0)):
        with pytest.raises(IndexError, match=f"step is {step}; .* 0 to {(1 << 46) - 1}"):
            look(step)
    assert loader.usage((1 << 46) - 1)[0].used == BLOCK * 4 * ((1 << 46) - 1)
    assert loader.batch((1 << 46) - 1).samples[0] == (1 << 48) - 4


def test_usage_is_of_what_was_taken_so_far_and_moves_nothing(in_shards):
    loader = BatchLoader(in_shards(tokens(200), LENGTHS), batch_size=4, block_size=BLOCK)
    for _ in range(7):
        next(loader)

    assert loader.usage() == loader.usage(7)
    assert next(loader).step == 7
    with pytest.raises(IndexError, match="step is -1"):
        loader.usage(-1)


@pytest.mark.parametrize("order", ["shuffle", "blocks", "sequential"])
def test_use_is_flat_to_within_one_window_an_epoch(in_shards, order):
    data = in_shards(tokens(2000), [700, 13, 900, 387])
    loader = BatchLoader(data, batch_size=1, block_size=BLOCK, order=order)
    per_epoch = (2000 - 1) // BLOCK

    for epochs in (1, 2, 7, 1000):
        for shard in loader.usage(epochs * per_epoch)[0].shards:
            assert abs(shard.used - epochs * shard.targets) <= epochs * BLOCK
    for step in range(0, 3 * per_epoch, 50):
        epoch, use = step // per_epoch, loader.usage(step)[0].shards
        for shard in use:  # within an epoch no shard is ahead by more than that epoch
            assert epoch * (shard.targets - BLOCK) <= shard.used <= (epoch + 1) * shard.targets


@pytest.mark.parametrize("options", [{}, {"begin_token": 3}])
def test_the_use_of_packed_rows_is_exactly_flat_after_an_epoch(in_shards, options):
    data = in_shards(tokens(200), LENGTHS, end_of_text=END)
    loader = BatchLoader(data, batch_size=1, block_size=BLOCK, rows="packed", **options)
    per_epoch = loader.stats()["sources"]["data"]["rows_per_epoch"]

    (use,) = loader.usage(3 * per_epoch)

    assert use.epochs == 3
    assert all(shard.used == 3 * shard.targets for shard in use.shards)


def test_whole_epochs_of_a_trillion_tokens_are_not_enumerated(monkeypatch):
    """10^12 tokens have 10^9 windows: to look at each would take minutes."""
    source = source_order(10**12, 1024, seed=7)
    edges = np.arange(0, 10**12 + 1, 10**10)
    monkeypatch.setattr(order, "SPANS_AT_ONCE", 1 << 10)

    num_samples = 5 * source.samples_per_epoch + 10_000
    found = np.diff(targets_before(edges, source, SourceBans(), 0, num_samples))

    assert found.sum() == 1024 * num_samples
    assert abs(found - 5 * 10**10).max() <= 5 + 5 * 1024 + 10_000 * 1024
