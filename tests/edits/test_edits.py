"""Edits of a running loader: what each changes, from where on, and what is refused."""

import json
import sys
from fractions import Fraction

import flat
import numpy as np
import pytest
from batches.numbered import numbered

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.batches import BatchForm
from tokenmill.edits import Add, Ban, Cap, Reweight, Skip, edit_state
from tokenmill.edits.edit_values import edit_from_json
from tokenmill.errors import OrderMismatchError

BLOCK = 4
WEB, CODE = numbered(50 * BLOCK + 1), numbered(11 * BLOCK + 1, first=1000)


def mixed(weights=(3, 1), **options):
    web, code = weights
    mixture = Mixture({"web": WEB, "code": CODE}, weights={"web": web, "code": code})
    return BatchLoader(mixture, batch_size=8, block_size=BLOCK, **options)


def single(**options):
    return BatchLoader(WEB, batch_size=8, block_size=BLOCK, **options)


def served(loader, num_steps):
    return np.concatenate([next(loader).tokens for _ in range(num_steps)])


# Skip


def test_after_skipped_steps_comes_what_would_have_come():
    plain, edited = served(single(), 20), single()
    edited.edit(Skip(steps=(3, 7)))

    assert np.array_equal(served(edited, 16), np.delete(plain, np.s_[3 * 8 : 7 * 8], axis=0))


def test_samples_can_be_skipped_that_are_no_whole_steps():
    plain, edited = served(mixed(), 20), mixed()
    edited.edit(Skip(samples=(13, 50)), Skip(samples=(60, 61)))

    expected = np.delete(plain, [*range(13, 50), 60 + 37], axis=0)
    assert np.array_equal(served(edited, 15), expected[: 15 * 8])


def test_batches_made_ahead_do_not_outlive_an_edit():
    plain, edited = served(single(), 20), single(form=BatchForm(prefetch=4))
    for _ in range(3):
        next(edited)
    edited.edit(Skip(steps=(3, 5)))

    assert np.array_equal(next(edited).tokens, plain[5 * 8 : 6 * 8])


def test_when_does_not_know_steps_that_were_skipped():
    loader = single()
    loader.edit(Skip(steps=(2, 4)))
    targets = [(k * BLOCK + 1, k * BLOCK + 2) for k in range(50)]
    everywhere = [visit for tokens in targets for visit in loader.when(tokens=tokens)]

    assert len(everywhere) == 50 - 16
    for visit in everywhere:
        place = loader.locate(visit.step, visit.row)
        assert loader.batch(visit.step).starts[visit.row] == place.position


# Reweight


def test_other_weights_hold_from_the_step_on_and_the_past_stays():
    plain, edited = mixed(), mixed()
    before = served(plain, 5)
    edited.edit(Reweight({"web": 0, "code": 1}), at=5)

    assert np.array_equal(served(edited, 5), before)
    assert set(next(edited).sources) == {1}


def test_a_source_continues_where_it_was_when_weights_change():
    loader = mixed()
    loader.edit(Reweight({"web": 1, "code": 9}), at=3)
    batches = [next(loader) for _ in range(40)]
    mine = np.concatenate([batch.starts[batch.sources == 1] for batch in batches])

    epochs = mine[: len(mine) // 11 * 11].reshape(-1, 11)
    assert len(epochs) > 5
    assert (np.sort(epochs, axis=1) == np.arange(11) * BLOCK).all()


# The state


def test_a_state_holds_its_edits_as_json_and_resumes_with_them():
    loader = mixed()
    served(loader, 3)
    loader.edit(Reweight({"web": 0.5, "code": 0.5}), note="ablation 7")
    loader.edit(Skip(steps=(10, 12)), at=None)
    served(loader, 4)
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = mixed()
    resumed.load_state_dict(state)

    assert [each["at"] for each in state["edits"]] == [24, 80]
    assert [each["kind"] for each in state["edits"]] == ["reweight", "skip"]
    assert state["edits"][0]["note"] == "ablation 7"
    assert resumed.order_fingerprint == loader.order_fingerprint
    assert np.array_equal(served(resumed, 12), served(loader, 12))


def test_a_state_without_edits_has_no_word_of_them():
    assert "edits" not in mixed().state_dict()


def test_a_state_with_many_edits_costs_no_more_work_than_one_with_few():
    def calls_of(loader):
        counted = []
        loader.state_dict()
        sys.setprofile(lambda _, event, __: counted.append(event))
        try:
            loader.state_dict()
        finally:
            sys.setprofile(None)
        return counted.count("call")

    few, many = mixed(), mixed()
    few.edit(Skip(samples=(3, 4)))
    many.edit(*(Reweight({"web": 1, "code": n + 1}) for n in range(100)), note="ablation")
    many.state_dict()["edits"].clear()
    many.state_dict()["edits"][0].clear()

    assert calls_of(many) == calls_of(few)
    assert len(many.state_dict()["edits"][0]) == 5


def test_a_changed_edit_is_refused_where_it_was_served_and_taken_where_not():
    loader = mixed()
    loader.edit(Reweight({"web": 1, "code": 1}), at=2)
    loader.edit(Reweight({"web": 1, "code": 0}), at=9)
    served(loader, 5)
    state = json.loads(json.dumps(loader.state_dict()))
    past = json.loads(json.dumps(state))
    past["edits"][0]["weights"] = {"web": 2, "code": 1}
    coming = json.loads(json.dumps(state))
    del coming["edits"][1]

    with pytest.raises(OrderMismatchError, match="differs from sample 16 on"):
        mixed().load_state_dict(past)
    mixed().load_state_dict(coming)


def test_a_saved_state_is_edited_as_the_loader_would_be():
    loader = mixed()
    served(loader, 4)
    edits = Reweight({"web": 1, "code": 2}), Skip(samples=(40, 50))
    state = edit_state(loader.state_dict(), *edits, note="by hand")
    loader.edit(*edits, note="by hand")

    assert state == loader.state_dict()


# Refusals


def test_bad_edits_are_refused_and_change_nothing():
    loader = mixed()
    served(loader, 4)
    for edit, at, wrong in [
        (Skip(steps=(2, 6)), None, "in the past"),
        (Reweight({"web": 1, "code": 1}), 3, "in the past"),
        (Reweight({"web": 1}), None, "no weight is given for 'code'"),
        (
            Reweight({"web": 1, "code": 1, "wiki": 1}),
            None,
            "a source with a weight is 'wiki'; known are:",
        ),
        (Cap({"wiki": 1}), None, "source is 'wiki'; known are: web, code"),
    ]:
        before = loader.state_dict()
        with pytest.raises(ValueError, match=wrong):
            loader.edit(Skip(steps=(20, 21)), edit, at=at)
        assert loader.state_dict() == before
    with pytest.raises(ValueError, match="this run has one source"):
        single().edit(Reweight({"data": 1}))
    with pytest.raises(TypeError, match="must be one of: Reweight, Skip"):
        loader.edit({"web": 1})


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: Reweight({"web": "much"}), "the weight of 'web' is 'much'"),
        (lambda: Reweight({"web": True}), "must be a number"),
        (lambda: Reweight({"web": float("nan")}), "finite number"),
        (lambda: Reweight({"web": 0}), "one must be more"),
        (lambda: Reweight([1]), "give one a source"),
        (lambda: Skip(), "give either steps"),
        (lambda: Skip(steps=(1, 2), samples=(1, 2)), "give either steps"),
        (lambda: Skip(steps=(3, 3)), "must be 0 or more, and rise"),
        (lambda: Skip(steps=3), "give two numbers"),
        (lambda: Ban(), "give either documents"),
        (lambda: Ban(documents=[]), "at least one"),
        (lambda: Ban(documents=7), "a list of numbers"),
        (lambda: Ban(documents=[-1]), "is -1; it must be a whole number, at least 0"),
        (lambda: Ban(documents=["a"]), "the number of a document is 'a'"),
        (lambda: Ban(documents=[[[1, 2]]]), r"the number of a document is \[\[1, 2\]\]"),
        (lambda: Ban(documents=[(5, 3)]), "5 to 3; they must rise"),
        (lambda: Ban(documents=[10**300]), "and below 281,474,976,710,656"),
        (lambda: Ban(tokens=(5, 4)), "must be 0 or more, and rise"),
        (lambda: Ban(tokens=(0, 1 << 60)), "a number of tokens is 1152921504606846976"),
        (lambda: Skip(samples=(0, True)), "a number of samples is True"),
        (lambda: Reweight({"web": "1e999999999"}), "must be a number"),
        (lambda: Cap({}), "give a number a source"),
        (lambda: Cap({"web": 0}), "the cap of 'web' is 0"),
        (lambda: Cap({"web": 1}, then="stop"), "known are: share, end"),
        (lambda: Add("", WEB, weights={"": 1}), "name of a source"),
        (lambda: Add("new", WEB, weights={"web": 1}), "have no 'new'"),
    ],
)
def test_a_value_that_is_wrong_by_itself_cannot_be_made(make, wrong):
    with pytest.raises(ValueError, match=wrong):
        make()


@pytest.mark.parametrize(
    "edit",
    [
        Reweight({"web": 0.7, "code": 1}),
        Skip(samples=(3, 9)),
        Reweight({"web": Fraction(1, 3), "code": Fraction(2, 3)}),
        Ban(documents=[9, 3, 4, 5]),
        Ban(documents=[(10, 10**14), 5, (3, 12)]),
        Ban(documents=range(10**14)),
        Ban(documents="forget.txt", source="web"),
        Ban(tokens=(3, 9)),
        Cap({"web": 4, "code": None}, then="end"),
        Add("new", "data/new", weights={"web": 1, "new": 2}),
    ],
)
def test_values_go_through_json(edit):
    assert edit_from_json(edit.kind, json.loads(json.dumps(edit.to_json()))) == edit


def test_an_edit_takes_at_most_a_kilobyte_of_the_state():
    loader = single()

    with pytest.raises(ValueError, match="at most 1,024"):
        loader.edit(Skip(steps=(3, 5)), note="x" * 1000)
    with pytest.raises(ValueError, match="write the numbers into a file"):
        loader.edit(Ban(documents=range(0, 1000, 2)))


# Cap, and mixtures that end


def test_a_capped_source_is_shared_out_to_the_others():
    loader = mixed((1, 1))
    loader.edit(Cap({"code": 2}))
    batches = [next(loader) for _ in range(30)]
    sources = np.concatenate([batch.sources for batch in batches])
    starts = np.concatenate([batch.starts for batch in batches])

    assert (sources == 1).sum() == 2 * 11
    assert np.bincount(starts[sources == 1] // BLOCK).tolist() == [2] * 11
    assert np.flatnonzero(sources == 1)[-1] < 64
    assert loader.when(tokens=(1, 2), source="code", epochs=[0, 1, 2, 3]) == loader.when(
        tokens=(1, 2), source="code", epochs=[0, 1]
    )


def test_a_cap_can_end_the_order_and_can_be_lifted_where_it_ends():
    loader = mixed((1, 1))
    loader.edit(Cap({"code": 2}, then="end"))
    sources = np.concatenate([batch.sources for batch in loader])

    assert len(loader) == len(sources) // 8
    assert (sources == 1).sum() <= 2 * 11 <= (sources == 1).sum() + 8
    assert list(loader) == []
    fresh = mixed((1, 1))
    fresh.edit(Cap({"code": 2}, then="end"))
    fresh.edit(Cap({"code": None}), at=2)
    with pytest.raises(TypeError, match="endless"):
        len(fresh)


def test_a_cap_that_was_reached_before_holds_at_once():
    loader = mixed((1, 1))
    served(loader, 8)
    loader.edit(Cap({"code": 1}))

    assert set(next(loader).sources) == {0}


def test_caps_of_all_sources_end_the_order():
    loader = mixed((1, 1))
    loader.edit(Cap({"code": 2, "web": 1}))
    samples = np.concatenate([batch.sources for batch in loader])

    assert len(samples) == (2 * 11 + 50) // 8 * 8


def test_a_mixture_ends_when_a_source_has_had_its_epochs():
    loader = mixed((1, 1), epochs={"code": 1})
    first = np.concatenate([batch.sources for batch in loader])
    again = np.concatenate([batch.sources for batch in loader])

    assert 11 - 8 < (first == 1).sum() <= 11
    assert len(again) > 0
    assert loader.stats()["left_out"]["samples"] < 8
    with pytest.raises(ValueError, match="source is 'wiki'"):
        mixed(epochs={"wiki": 1})
    with pytest.raises(ValueError, match="of which no sample ever comes"):
        mixed((1, 0), epochs={"code": 1})


# Add


def test_a_source_is_added_to_a_mixture_and_to_a_single_dataset():
    new = numbered(20 * BLOCK + 1, first=5000)
    for loader, weights in (
        (mixed(), {"web": 1, "code": 1, "new": 2}),
        (single(), {"data": 1, "new": 1}),
    ):
        before = served(loader, 3)
        loader.edit(Add("new", new, weights=weights))
        batches = [next(loader) for _ in range(32)]
        sources = np.concatenate([batch.sources for batch in batches])
        tokens = np.concatenate([batch.tokens for batch in batches])

        assert (sources == len(weights) - 1).sum() == 128
        assert (tokens[sources == len(weights) - 1] >= 5000).all()
        assert loader.names[-1] == "new"
        resumed = mixed() if len(weights) == 3 else single()
        assert np.array_equal(served(resumed, 3), before)
        resumed.load_state_dict(loader.state_dict(), sources={"new": new})
        assert np.array_equal(served(resumed, 9), served(loader, 9))
        with pytest.raises(ValueError, match="there is one already"):
            loader.edit(Add("new", new, weights={**weights, "new": 3}))


def test_added_data_is_opened_where_it_was_and_must_be_the_same(tmp_path):
    path = tmp_path / "new.npy"
    np.save(path, np.arange(5000, 5081, dtype=np.uint32))
    loader = single()
    loader.edit(Add("new", path, weights={"data": 1, "new": 1}))
    state = json.loads(json.dumps(loader.state_dict()))
    resumed = single()
    resumed.load_state_dict(state)

    assert np.array_equal(served(resumed, 9), served(loader, 9))
    # Another file in its place: one that is cut short while it is mapped ends the process.
    np.save(tmp_path / "other.npy", np.arange(6000, 6081, dtype=np.uint32))
    (tmp_path / "other.npy").replace(path)
    with pytest.raises(OrderMismatchError, match="differs from sample 0 on"):
        single().load_state_dict(state)
    path.unlink()
    with pytest.raises(OrderMismatchError, match="cannot be opened"):
        single().load_state_dict(state)


# A mixture at resume


def schedule(*stages):
    times = [(at, {"web": web, "code": code}) for at, (web, code) in stages]
    mixture = Mixture({"web": WEB, "code": CODE}, schedule=times)
    return BatchLoader(mixture, batch_size=8, block_size=BLOCK)


def test_a_mixture_that_agrees_up_to_the_saved_sample_is_accepted():
    loader = schedule((0, (3, 1)), (40, (1, 1)))
    served(loader, 7)
    state = loader.state_dict()
    for other, expected in (
        (schedule((0, (3, 1)), (40, (1, 1)), (80, (0, 1))), [None, None, None, {1}]),
        (schedule((0, (3, 1)), (40, (1, 1)), (56, (1, 0))), [{0}, {0}, {0}, {0}]),
    ):
        other.load_state_dict(state)
        kinds = [set(next(other).sources) for _ in range(4)]

        assert all(wanted in (None, kind) for wanted, kind in zip(expected, kinds, strict=True))
        assert [each["kind"] for each in other.edits] == ["reweight"]
        again = schedule((0, (3, 1)), (40, (1, 1)))
        again.load_state_dict(other.state_dict())
        assert np.array_equal(served(again, 9), served(other, 9))


def test_a_mixture_with_another_past_is_refused():
    loader = schedule((0, (3, 1)), (40, (1, 1)))
    served(loader, 7)

    for other, first, now in (
        (mixed((1, 1)), 0, "{'web': 1, 'code': 1}"),
        (schedule((0, (3, 1)), (48, (1, 1))), 40, "{'web': 3, 'code': 1}"),
    ):
        with pytest.raises(
            OrderMismatchError, match=f"differ from sample {first} on, and 56 samples were served"
        ) as refusal:
            other.load_state_dict(loader.state_dict())
        assert f"-> {now}" in str(refusal.value)


def test_other_weights_are_accepted_where_nothing_was_served():
    state = mixed((3, 1)).state_dict()
    other = mixed((0, 1))
    other.load_state_dict(state)

    assert set(next(other).sources) == {1}


# Data that has grown


@pytest.fixture
def growing(tmp_path):
    """A dataset of two shards, and the same after `--append` has added two more."""
    rng = np.random.default_rng(3)

    def write(name):
        words = rng.choice(["red", "green", "blue", "grey"], (40, 12))
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join(" ".join(line) for line in words) + "\n")
        return path

    out = tmp_path / "data"
    options = {"tokenizer": "bytes", "tokens_per_shard": 1500, "val_fraction": 0, "dedup": "none"}
    flat.prepare([write("one")], out, document_is="line", **options)
    before = tokenmill.open(out)
    flat.prepare([write("two")], out, append=True, document_is="line", **options)
    return before, tokenmill.open(out)


@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_data_grown_by_append_joins_with_the_next_epoch(growing, rows):
    before, after = growing
    loader = BatchLoader(before, batch_size=4, block_size=64, rows=rows)
    per_epoch = len(loader.windows())
    rest = served(BatchLoader(before, batch_size=1, block_size=64, rows=rows), per_epoch)[12:]
    served(loader, 3)
    resumed = BatchLoader(after, batch_size=1, block_size=64, rows=rows)
    resumed.load_state_dict(loader.state_dict())

    assert np.array_equal(served(resumed, per_epoch - 12), rest)
    assert resumed.epoch == 1
    grown = BatchLoader(after, batch_size=1, block_size=64, rows=rows)
    count = len(grown.windows())
    epoch_1 = grown.windows(2 * count)
    assert np.array_equal(served(resumed, count), [epoch_1[count + i] for i in range(count)])
    assert resumed.edits[0]["kind"] == "grow"
    once_more = BatchLoader(after, batch_size=4, block_size=64, rows=rows)
    once_more.load_state_dict(json.loads(json.dumps(resumed.state_dict())))
    assert np.array_equal(served(once_more, 5), served(resumed, 20))


def test_new_documents_can_be_a_source_of_their_own_at_once(growing):
    before, after = growing
    loader = BatchLoader(before, batch_size=4, block_size=64)
    served(loader, 3)
    tokens = (len(before), len(after))
    loader.edit(Add("new", after, weights={"data": 1, "new": 1}, tokens=tokens))
    batches = [next(loader) for _ in range(16)]
    starts = np.concatenate([batch.starts[batch.sources == 1] for batch in batches])

    assert len(starts) == 32
    row = batches[0].tokens[batches[0].sources == 1][0]
    assert np.array_equal(row, after[len(before) :][starts[0] : starts[0] + 65])
    resumed = BatchLoader(before, batch_size=4, block_size=64)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert np.array_equal(served(resumed, 5), served(loader, 5))


def test_data_whose_old_shards_are_others_is_refused(growing):
    before, after = growing
    state = BatchLoader(before, block_size=64).state_dict()
    other = after.part(1, len(after))

    with pytest.raises(OrderMismatchError, match="the saved data"):
        BatchLoader(other, block_size=64).load_state_dict(state)


@pytest.mark.parametrize("weight", [0, 1])
def test_a_ban_in_a_capped_source_moves_no_sample_of_another(weight):
    def loader(*more):
        made = mixed((3, weight))
        made.edit(Cap({"code": 1}), Skip(samples=(20, 30)))
        made.edit(*more, at=2)
        made.edit(Cap({"code": 2}), at=9)
        return made

    banned = Ban(tokens=(1, 11 * BLOCK), source="code")  # all but one token of it

    assert np.array_equal(served(loader(banned), 20), served(loader(), 20))


# What it costs


def calls_of(loader, edits):
    """The functions of the package that run while these edits are made, each at its step."""
    count = 0

    def look(frame, what, _):
        nonlocal count
        count += what == "call" and "/tokenmill/" in frame.f_code.co_filename

    sys.setprofile(look)
    try:
        for step, edit in edits:
            loader.edit(edit, at=step)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "make",
    [
        lambda i: Reweight({"web": i + 1, "code": 1}),
        lambda i: Ban(tokens=(2 * i, 2 * i + 1), source="web"),
        lambda i: Skip(samples=(8 * i, 8 * i + 1)),
        lambda i: Cap({"code": 1000 + i}),
    ],
)
def test_an_edit_costs_the_same_however_many_there_are(make):
    edits = [(i, make(i)) for i in range(90)]
    loader = mixed()
    loader.edit(Cap({"web": 10_000}))

    first, _, last = (calls_of(loader, edits[i : i + 30]) for i in (0, 30, 60))

    assert last < 1.2 * first


def test_many_bans_in_one_edit_cost_as_much_each_as_few():
    def work(number):
        bans = [Ban(tokens=(2 * i, 2 * i + 1)) for i in range(number)]
        calls = []
        sys.setprofile(lambda *what: calls.append(what[1]))
        try:
            single().edit(*bans)
        finally:
            sys.setprofile(None)
        return len(calls)

    assert work(90) - work(60) < 1.1 * (work(60) - work(30))


@pytest.mark.parametrize("state", [None, [], {}, {"samples": 3}, {"model": 1, "pass": 0}])
def test_what_is_no_state_is_not_edited(state):
    with pytest.raises(OrderMismatchError, match="not the state of a BatchLoader") as caught:
        edit_state(state, Skip(samples=(1, 2)))

    assert "loader.state_dict()" in caught.value.hint
