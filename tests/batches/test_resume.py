"""State saved before every batch, each restored elsewhere: the rest is the uninterrupted run."""

import itertools
import json

import numpy as np
import pytest
from batches.numbered import numbered
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tokenmill import BatchLoader, Mixture
from tokenmill.batches import BatchForm
from tokenmill.dataset import from_array
from tokenmill.errors import OrderMismatchError
from tokenmill.order.blocks import Blocks

BLOCK = 4
DATA = numbered(23 * BLOCK + 3)
MIXED = Mixture(
    {"a": numbered(23 * BLOCK + 1), "b": numbered(7 * BLOCK + 2, first=10_000)},
    schedule=[(0, {"a": 0.9, "b": 0.1}), (30, {"a": 1, "b": 1})],
)
CASES = {
    "shuffle": (DATA, {}),
    "sequential": (DATA, {"order": "sequential"}),
    "random": (DATA, {"order": "random"}),
    "blocks": (DATA, {"order": "blocks"}),
    "phase": (DATA, {"phase": True}),
    "mixture": (MIXED, {}),
}


def ranks_of(case, world_size, batch_size, **more):
    data, options = CASES[case]
    return [
        BatchLoader(
            data,
            batch_size=batch_size,
            block_size=BLOCK,
            seed=11,
            rank=rank,
            world_size=world_size,
            form=BatchForm(prefetch=0),
            **{**options, **more},
        )
        for rank in range(world_size)
    ]


def rows_of(loaders, num_steps):
    """The rows of some steps in the global order, over all ranks."""
    return [
        row for _ in range(num_steps) for loader in loaders for row in next(loader).tokens.tolist()
    ]


def through_json(state):
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("case", CASES)
def test_every_state_restored_on_other_ranks_and_rows_resumes_exactly(case):
    uninterrupted = rows_of(ranks_of(case, 1, 1), 120)
    before = ranks_of(case, 2, 3)
    for step in range(12):  # 72 samples: more than three epochs of 23 windows
        state = through_json(before[step % 2].state_dict())
        for world_size, batch_size in [(1, 1), (1, 5), (3, 2), (4, 4), (2, 3)]:
            after = ranks_of(case, world_size, batch_size)
            for loader in after:
                loader.load_state_dict(state)

            rest = rows_of(after, 2)

            assert rest == uninterrupted[step * 6 : step * 6 + len(rest)]
        rows_of(before, 1)


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_the_state_counts_what_was_consumed_not_what_was_prefetched(prefetch):
    loader = BatchLoader(DATA, batch_size=2, block_size=BLOCK, form=BatchForm(prefetch=prefetch))
    for consumed in range(6):
        assert loader.state_dict()["samples"] == 2 * consumed
        next(loader)


@pytest.mark.parametrize("epochs", [1, 2])
def test_states_of_a_loader_that_ends_keep_its_end(epochs):
    """Also after the last batch, and again in a second pass."""
    loader = ranks_of("shuffle", 1, 4, epochs=epochs)[0]
    states, rows = [], []
    for _ in range(2):
        iterator = iter(loader)
        states.append(loader.state_dict())
        rows.append([])
        for batch in iterator:
            rows[-1].append(batch.tokens.tolist())
            states.append(loader.state_dict())

    for i, state in enumerate(states):
        resumed = ranks_of("shuffle", 1, 4, epochs=epochs)[0]
        resumed.load_state_dict(through_json(state))
        this_pass, step = divmod(i, len(loader) + 1)
        assert [b.tokens.tolist() for b in resumed] == rows[this_pass][step:]


def test_the_end_of_an_epoch_announced_by_a_trainer_gives_no_empty_epoch():
    """A state saved after the last batch; the trainer then calls set_epoch with the next one."""
    loader = ranks_of("shuffle", 1, 4, epochs=1)[0]
    list(loader)
    second = [batch.tokens.tolist() for batch in loader]
    first_again = ranks_of("shuffle", 1, 4, epochs=1)[0]
    list(first_again)

    resumed = ranks_of("shuffle", 1, 4, epochs=1)[0]
    resumed.load_state_dict(first_again.state_dict())
    resumed.set_epoch(1)

    assert [batch.tokens.tolist() for batch in resumed] == second


def test_set_epoch_begins_a_pass_and_leaves_the_present_one_alone():
    plain, asked = ranks_of("shuffle", 1, 4, epochs=1) + ranks_of("shuffle", 1, 4, epochs=1)
    first, second, third = ([batch.tokens.tolist() for batch in plain] for _ in range(3))

    assert next(asked).tokens.tolist() == first[0]
    asked.set_epoch(0)
    assert [batch.tokens.tolist() for batch in asked] == first[1:]
    asked.set_epoch(0)
    assert [batch.tokens.tolist() for batch in asked] == first
    asked.set_epoch(2)
    assert next(asked).tokens.tolist() == third[0]
    asked.set_epoch(1)
    assert [batch.tokens.tolist() for batch in asked] == second
    with pytest.raises(IndexError, match="epoch is -1"):
        asked.set_epoch(-1)


def test_an_endless_loader_has_one_pass():
    plain, asked = ranks_of("shuffle", 1, 4) + ranks_of("shuffle", 1, 4)

    for epoch in range(20):
        asked.set_epoch(epoch)
        assert next(asked).tokens.tolist() == next(plain).tokens.tolist()


@pytest.mark.parametrize("epochs", [None, 1])
def test_the_state_that_comes_with_a_batch_resumes_at_it(epochs):
    """A loop that fetches one batch ahead saves the state of the batch that it holds."""
    loader = ranks_of("shuffle", 1, 4, epochs=epochs)[0]
    pairs = list(itertools.islice(loader.with_state(), 30))
    if epochs:
        pairs += loader.with_state()  # the next pass

    for batch, state in pairs:
        resumed = ranks_of("shuffle", 1, 4, epochs=epochs)[0]
        resumed.load_state_dict(through_json(state))
        assert next(resumed).tokens.tolist() == batch.tokens.tolist()
    assert len({state["samples"] for _, state in pairs}) == len(pairs)


def test_steps_continue_counting_where_a_run_of_the_same_size_stopped():
    loader = BatchLoader(DATA, batch_size=2, block_size=BLOCK)
    for _ in range(5):
        next(loader)

    resumed = BatchLoader(DATA, batch_size=2, block_size=BLOCK)
    resumed.load_state_dict(loader.state_dict())

    assert resumed.step == loader.step == 5
    assert next(resumed).step == 5
    assert np.array_equal(resumed.batch(5).tokens, loader.batch(5).tokens)


def test_resuming_far_out_is_immediate():
    """No sample before the position is computed: a billion steps on takes no longer."""
    loader = BatchLoader(DATA, batch_size=2, block_size=BLOCK, form=BatchForm(prefetch=0))

    loader.load_state_dict({**loader.state_dict(), "samples": 2 * 10**12})

    batch = next(loader)
    assert batch.step == 10**12
    assert batch.samples.tolist() == [2 * 10**12, 2 * 10**12 + 1]


def test_the_state_is_small_json_with_the_same_keys_for_ever():
    loader = BatchLoader(MIXED, batch_size=2, block_size=BLOCK)
    fresh = loader.state_dict()
    next(loader)

    later = through_json(loader.state_dict())

    plain = BatchLoader(DATA, batch_size=2, block_size=BLOCK).state_dict()
    assert list(later) == list(fresh) == list(plain)
    assert later == loader.state_dict()
    assert len(json.dumps(later)) < 1000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"block_size": 8}, ["block_size   4 -> 8", "hint: use block_size=4 to resume"]),
        ({"seed": 1}, ["seed         0 -> 1", "use seed=0"]),
        ({"order": "sequential"}, ["order        shuffle -> sequential", "use order='shuffle'"]),
        ({"phase": True}, ["phase        False -> True"]),
        ({"data": numbered(24 * BLOCK)}, ["the saved data", "num_tokens   [95] -> [96]"]),
        ({"data": MIXED}, ["stages       None -> [[0, 9, 1], [30, 1, 1]]"]),
    ],
    ids=["block size", "seed", "order", "phase", "data", "mixture"],
)
def test_a_state_of_another_run_is_refused_with_what_differs(change, says):
    state = BatchLoader(DATA, batch_size=2, block_size=BLOCK).state_dict()
    other = BatchLoader(**{"data": DATA, "batch_size": 2, "block_size": BLOCK, **change})

    with pytest.raises(OrderMismatchError) as error:
        other.load_state_dict(state)

    for words in ["cannot resume", *says]:
        assert words in str(error.value)
    assert other.state_dict()["samples"] == 0


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({}, "not the state of a BatchLoader"),
        (None, "this is None, not the state of a BatchLoader"),
        ({"format": 2}, "has format 2, this tokenmill reads 1"),
        ({"samples": -1}, "'samples' in the state is -1"),
        ({"samples": 1.5}, "'samples' in the state is 1.5"),
        ({"pass": None}, "'pass' in the state is None"),
    ],
)
def test_a_damaged_state_is_refused(state, says):
    loader = BatchLoader(DATA, batch_size=2, block_size=BLOCK)
    given = {**loader.state_dict(), **state} if state else state

    with pytest.raises(OrderMismatchError, match=says):
        loader.load_state_dict(given)


class Resuming(RuleBasedStateMachine):
    """Any sequence of reading, saving, restoring and changing sizes reads one order, in order."""

    def __init__(self):
        super().__init__()
        self.order = ORDER
        self.read = 0
        self.loader = ranks_of("mixture", 1, 1)[0]
        self.saved = [(0, self.loader.state_dict())]

    @rule(num_steps=st.integers(1, 4))
    def take_steps(self, num_steps):
        for _ in range(num_steps):
            for row in next(self.loader).tokens.tolist():
                assert row == self.order[self.read]
                self.read += 1

    @rule()
    def save(self):
        self.saved.append((self.read, through_json(self.loader.state_dict())))

    @rule(which=st.integers(0, 100), batch_size=st.integers(1, 6), prefetch=st.integers(0, 2))
    def resume(self, which, batch_size, prefetch):
        self.read, state = self.saved[which % len(self.saved)]
        self.loader.close()
        self.loader = ranks_of("mixture", 1, batch_size)[0]
        self.loader.prefetch = prefetch
        self.loader.load_state_dict(state)

    @rule(step=st.integers(0, 10))
    def look_elsewhere(self, step):
        self.loader.batch(step)
        self.loader.locate(step, 0)

    @invariant()
    def the_state_counts_what_was_read(self):
        assert self.loader.state_dict()["samples"] == self.read

    def teardown(self):
        self.loader.close()


ORDER = rows_of(ranks_of("mixture", 1, 1), 20 * 4 * 6)
TestResuming = Resuming.TestCase
TestResuming.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)


def test_a_state_that_is_refused_leaves_the_order_as_it_was():
    data = from_array(np.arange(100_000, dtype=np.uint32))
    other = BatchLoader(data, batch_size=4, block_size=10, seed=1, order=Blocks(256, 512))
    loader = BatchLoader(data, batch_size=4, block_size=10, order="blocks")
    before = loader.state_dict()

    with pytest.raises(OrderMismatchError, match="seed"):
        loader.load_state_dict(other.state_dict())
    assert loader.state_dict() == before
    with pytest.raises(OrderMismatchError, match=r"blocks\(4, 2\) -> blocks"):
        loader.load_state_dict({**before, "order": "blocks(4, 2)", "order_fingerprint": "x"})
