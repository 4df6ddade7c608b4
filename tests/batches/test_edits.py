"""Edits of a running loader: what each changes, from where on, and what is refused."""

import json

import numpy as np
import pytest
from batches.numbered import numbered

import tokenmill
from tokenmill import Add, Ban, BatchLoader, Cap, Mixture, OrderMismatchError, Reweight, Skip
from tokenmill.batches.edits.edit_values import edit_from_json

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
    plain, edited = served(single(), 20), single(prefetch=4)
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
    state = tokenmill.edit_state(loader.state_dict(), *edits, note="by hand")
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
            "'wiki', which is not one of the sources",
        ),
        (Cap({"wiki": 1}), None, "source is 'wiki'; it must be one of: web, code"),
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
        (lambda: Ban(documents=[-1]), "each 0 or more"),
        (lambda: Ban(documents=["a"]), "a list of numbers"),
        (lambda: Ban(tokens=(5, 4)), "must be 0 or more, and rise"),
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
        Ban(documents=[9, 3, 4, 5]),
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
