"""A ban: from its step on no token of the documents is trained on, and all else is as it was."""

import json
import pickle

import numpy as np
import pytest
import torch

from tokenmill import BatchLoader, Mixture, from_array
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.batches import BatchForm
from tokenmill.edits import Add, Ban, Reweight, Skip
from tokenmill.errors import OrderMismatchError
from tokenmill.torch import TorchLoader
from tokenmill.torch.torch_batch import batch_as, from_arrays

LENGTHS = np.random.default_rng(3).integers(1, 60, 80)
ENDS = np.cumsum(LENGTHS)
BANNED = [0, 5, 6, 7, 8, 9, 30, 31, 32, 33, 34, 35, 36, 60, 79]
KINDS = [
    {},
    {"phase": True},
    {"order": "sequential"},
    {"order": "blocks"},
    {"order": "random"},
    {"documents": True},
    {"rows": "packed"},
    {"rows": "documents"},
    {"rows": "packed", "begin_token": 99_999},
]
of_kinds = pytest.mark.parametrize("options", KINDS, ids=str)


def numbered(first=0, **options):
    """Token i has the id first + i, so that an id says which token it is."""
    ids = np.arange(first, first + ENDS[-1], dtype=np.uint32)
    return from_array(ids, document_ends=ENDS, vocab_size=100_000, **options)


def loader_of(options, data=None, **more):
    settings = {
        "batch_size": 4,
        "block_size": 16,
        "seed": 1,
        "form": BatchForm(prefetch=0),
        **options,
        **more,
    }
    return BatchLoader(data or numbered(), **settings)


def tokens_of(documents):
    return {t for d in documents for t in range(ENDS[d] - LENGTHS[d], ENDS[d])}


def trained_on(batch):
    """The tokens that have a loss, by all ways to ask for it."""
    _, unpacked = batch
    labels = batch.labels
    kept = labels[labels != -100]
    if batch.loss_mask is not None:
        assert np.array_equal(batch.loss_mask, labels != -100)
        known = batch.targets[batch.loss_mask]
        assert np.array_equal(known, kept)
    assert set(kept.tolist()) <= set(unpacked[unpacked != -100].tolist())
    return kept.tolist()


def epoch_of(loader, epoch):
    """All tokens trained on in an epoch of a loader with one source, at any step."""
    first, stop = (loader._run.order.samples_in_epochs(0, e) or 0 for e in (epoch, epoch + 1))
    windows = loader.windows(stop)
    return sorted(trained_on(windows.batch(range(first, stop))))


@of_kinds
def test_from_the_ban_on_nothing_of_the_documents_is_trained_on_and_all_else_is(options):
    plain, edited = loader_of(options), loader_of(options)
    banned = tokens_of(BANNED)
    edited.edit(Ban(documents=BANNED))

    for epoch in (0, 1, 5):
        expected = [token for token in epoch_of(plain, epoch) if token not in banned]
        assert epoch_of(edited, epoch) == expected


@of_kinds
def test_a_ban_masks_targets_and_changes_no_row(options):
    plain, edited = loader_of(options), loader_of(options)
    edited.edit(Ban(documents=BANNED), Ban(tokens=(700, 800)))
    banned = sorted(tokens_of(BANNED) | set(range(700, 800)))
    masked_rows = 0
    for _ in range(60):
        before, after = next(plain), next(edited)
        assert np.array_equal(after.tokens, before.tokens)
        assert np.array_equal(after.segments, before.segments)
        expected = np.where(np.isin(before.labels, banned), -100, before.labels)
        assert np.array_equal(after.labels, expected)
        masked_rows += (after.labels == -100).all(axis=1).sum()
    assert masked_rows  # a row with nothing left is served


@of_kinds
def test_what_was_served_before_the_ban_stays(options):
    plain, edited = loader_of(options), loader_of(options)
    for _ in range(3):
        next(edited)

    edited.edit(Ban(documents=BANNED), at=9)

    for step in range(9):
        assert np.array_equal(edited.batch(step).tokens, plain.batch(step).tokens)
        assert edited.batch(step).banned is None
    after = [token for step in range(9, 30) for token in trained_on(edited.batch(step))]
    assert not tokens_of(BANNED) & set(after)
    steps = [next(edited) for _ in range(20)]
    assert all(np.array_equal(b.tokens, edited.batch(b.step).tokens) for b in steps)


@of_kinds
def test_when_and_locate_agree_with_the_batches(options):
    loader = loader_of(options)
    loader.edit(Ban(documents=[7]), at=4)
    loader.edit(Ban(documents=BANNED), Ban(tokens=(1200, 1216)), at=11)
    epochs = range(3)
    seen = {}
    for step in range(60):
        labels = loader.batch(step).labels
        for row in np.flatnonzero((labels != -100).any(axis=1)).tolist():
            column = int(np.flatnonzero(labels[row] != -100)[-1])
            place = loader.locate(step, row, column + 1)
            assert place.position == labels[row, column]
            kept = labels[row][labels[row] != -100]
            for document in np.unique(np.searchsorted(ENDS, kept, side="right")).tolist():
                seen.setdefault(document, set()).add((place.epoch, step, row))
    for document in [*BANNED, 12, 40, int(np.searchsorted(ENDS, 1205, side="right"))]:
        visits = {
            (v.epoch, v.step, v.row) for v in loader.when(document, epochs=epochs) if v.step < 60
        }
        found = {each for each in seen.get(document, ()) if each[0] in epochs}
        if not options.get("documents"):  # there the first token has no loss, but is a target
            assert visits == found
        assert visits >= found
        assert document not in BANNED or all(step < 11 for _, step, _ in visits)


@of_kinds
@pytest.mark.parametrize("world_size", [1, 3])
def test_a_state_with_bans_resumes_on_other_ranks(options, world_size):
    one = loader_of(options, batch_size=6)
    for _ in range(5):
        next(one)
    one.edit(Ban(documents=BANNED[:5], source="data"), note="asked for by the owner")
    for _ in range(2):
        next(one)
    state = json.loads(json.dumps(one.state_dict()))
    ranks = [
        loader_of(options, batch_size=6 // world_size, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for loader in ranks:
        loader.load_state_dict(state)
    ranks = [pickle.loads(pickle.dumps(loader)) for loader in ranks]

    for _ in range(12):
        together = np.concatenate([next(loader).labels for loader in ranks])
        assert np.array_equal(together, next(one).labels)


def test_a_source_of_a_mixture_is_banned_from_its_own_next_sample_on():
    sources = {"a": numbered(), "b": numbered(first=10_000)}
    loader = loader_of({}, Mixture(sources, weights={"a": 1, "b": 2}))
    plain = loader_of({}, loader.data)

    loader.edit(Ban(documents=BANNED, source="b"), at=7)

    served = [token for step in range(80) for token in trained_on(loader.batch(step))]
    late = [token for step in range(7, 80) for token in trained_on(loader.batch(step))]
    assert not {10_000 + token for token in tokens_of(BANNED)} & set(late)
    before = [token for step in range(80) for token in trained_on(plain.batch(step))]
    of_a = [token for token in served if token < 10_000]
    assert of_a == [token for token in before if token < 10_000]


def test_edits_of_all_kinds_together():
    loader = loader_of({"rows": "packed"})
    loader.edit(Ban(documents=[3, 4]), at=5)
    loader.edit(Skip(steps=(8, 12)))
    loader.edit(Add("more", numbered(first=10_000), weights={"data": 1, "more": 1}), at=14)
    loader.edit(Ban(documents=[3], source="more"), Reweight({"data": 3, "more": 1}), at=20)

    after = [token for step in range(20, 90) for token in trained_on(loader.batch(step))]

    assert not (tokens_of([3, 4]) | {10_000 + t for t in tokens_of([3])}) & set(after)
    assert {10_000 + t for t in sorted(tokens_of([4]))[1:]} <= set(after)


def test_banned_targets_are_100_below_zero_and_inputs_stay():
    data, ban = numbered(), Ban(tokens=(4, 9))
    plain, edited = (
        loader_of({"order": "sequential"}, data),
        loader_of({"order": "sequential"}, data),
    )
    edited.edit(ban)

    inputs, targets = next(edited)

    assert np.array_equal(inputs, next(plain).inputs)
    assert targets.ravel()[:10].tolist() == [1, 2, 3, -100, -100, -100, -100, -100, 9, 10]
    assert next(edited).banned is None  # the other batches are as they were


def test_with_documents_a_batch_with_banned_targets_unpacks_like_the_others():
    """First tokens of documents are targets when a batch is unpacked; the mask leaves them out."""
    edited = loader_of({"documents": True, "order": "sequential"})
    edited.edit(Ban(documents=[5]))
    batch = next(b for b in edited if b.banned is not None)

    _, targets = batch

    assert np.array_equal(targets == -100, batch.banned[:, 1:])
    marked = edited.batch(batch.step).marks.loss_mask
    assert np.array_equal(batch.loss_mask, marked & ~batch.banned[:, 1:])
    assert np.array_equal(batch.labels == -100, ~batch.loss_mask)


def test_ids_without_a_sign_are_widened_where_a_target_is_banned():
    loader = loader_of({"order": "sequential", "form": BatchForm(dtype="uint32")})
    loader.edit(Ban(tokens=(3, 5)))

    first, second = next(loader), next(loader)

    assert (first.targets.dtype, second.targets.dtype) == (np.int64, np.uint32)
    assert first.targets.min() == -100
    with pytest.raises(ValueError, match="cannot hold -100"):
        from_arrays(first, dtype="uint32")


# Torch


@pytest.mark.parametrize("items", ["pair", "dict", "hugging_face"])
@pytest.mark.parametrize("options", [{}, {"rows": "packed"}], ids=str)
def test_no_form_of_torch_items_has_a_banned_label(options, items):
    loader = loader_of(options)
    loader.edit(Ban(documents=BANNED), Ban(tokens=(1200, 1203)))
    seen = set()
    for _ in range(60):
        made = batch_as(next(loader), items)
        inputs, labels = made if items == "pair" else (made["input_ids"], made["labels"])
        assert int(inputs.min()) >= 0
        if items == "hugging_face":  # such a model shifts labels itself
            labels = labels[:, 1:]
        seen |= set(labels[labels != -100].tolist())

    assert seen
    assert not (tokens_of(BANNED) | {1200, 1201, 1202}) & seen


def test_tensors_have_the_mask_of_the_arrays():
    options = {"batch_size": 4, "block_size": 16, "seed": 1, "form": BatchForm(prefetch=0)}
    loader, arrays = TorchLoader(numbered(), **options), loader_of({})
    for each in (loader, arrays):
        each.edit(Ban(documents=BANNED))

    for _ in range(40):
        tensors, batch = next(loader), next(arrays)
        _, targets = tensors
        assert np.array_equal(targets.numpy(), batch.targets)
        assert np.array_equal(tensors.labels.numpy(), batch.labels)
        assert tensors.num_targets == (batch.labels != -100).sum()
        whole = tensors.for_hugging_face()
        assert int(whole["input_ids"].min()) >= 0
        assert torch.equal(whole["labels"][:, 1:], tensors.labels)


def test_rows_of_tokens_alone_are_refused_where_a_token_is_banned():
    loader = loader_of({"order": "sequential"})
    loader.edit(Ban(tokens=(20, 25)))
    windows = loader.windows()

    assert windows[0].tolist() == list(range(17))
    with pytest.raises(ValueError, match="cannot say which of them are banned"):
        windows[1]
    _, targets = windows.batch([1])
    assert targets[0].tolist()[:4] == [17, 18, 19, -100]
    with pytest.raises(ValueError, match="cannot say which of them are banned"):
        batch_as(windows.batch([1]), "window")


# Augmentation


def reverse(rows):
    return np.where(rows.fixed, rows.tokens, rows.tokens[:, ::-1])


reverse.name, reverse.version = "reverse", 1
SENTINELS = {"prefix_id": 99_990, "middle_id": 99_991, "suffix_id": 99_992}


@pytest.mark.parametrize(
    "augment",
    [
        [FillInTheMiddle(1.0, **SENTINELS)],
        [DropTokens(0.3)],
        [ReplaceTokens(0.2)],
        [MaskTokens(0.5, mask_id=99_993)],
        [reverse],
        [FillInTheMiddle(0.7, **SENTINELS), DropTokens(0.1), ReplaceTokens(0.1)],
        [DropTokens(0.2), MaskTokens(0.5, mask_id=99_993)],
    ],
    ids=lambda each: "-".join(getattr(one, "name", "") for one in each),
)
@pytest.mark.parametrize("rows", ["windows", "packed"])
def test_no_augmentation_makes_a_banned_token_a_label(augment, rows):
    """A replaced token may be any id, but as an input only."""
    loader = loader_of({"rows": rows, "augment": augment}, numbered(first=1))  # 0 is padding
    loader.edit(Ban(documents=BANNED), Ban(tokens=(1200, 1208)))
    banned = np.array(sorted(tokens_of(BANNED) | set(range(1200, 1208)))) + 1
    some = 0
    for _ in range(80):
        batch = next(loader)
        _, unpacked = batch
        assert not np.isin(unpacked, banned).any()
        assert not np.isin(batch.labels, banned).any()
        some += int((batch.labels >= 0).sum())

    assert some


# Large bans, and wrong ones


def test_a_ban_of_many_documents_is_a_file(tmp_path):
    path = tmp_path / "banned.txt"
    path.write_text("".join(f"{document}\n" for document in [*range(0, 60, 2), 7, 7]))
    listed, by_file = loader_of({}), loader_of({})
    listed.edit(Ban(documents=[*range(0, 60, 2), 7]))

    by_file.edit(Ban(documents=path), note="a million of them, say")

    state = by_file.state_dict()
    assert len(json.dumps(state["edits"][0])) < 1024
    resumed = loader_of({})
    resumed.load_state_dict(state)
    for step in range(40):
        assert np.array_equal(resumed.batch(step).labels, listed.batch(step).labels)
    path.write_text("1\n")
    with pytest.raises(OrderMismatchError, match=r"banned.txt is not what it was"):
        loader_of({}).load_state_dict(state)
    path.unlink()
    with pytest.raises(OrderMismatchError, match=r"banned.txt cannot be read: No such file"):
        loader_of({}).load_state_dict(state)


@pytest.mark.parametrize(
    ("text", "why"),
    [("1\ntwo\n3\n", "line 2 of .* is 'two'"), ("", "has no numbers"), ("4\n-1\n", "below 0")],
)
def test_a_file_of_something_else_is_refused(tmp_path, text, why):
    path = tmp_path / "banned.txt"
    path.write_text(text)

    with pytest.raises(ValueError, match=why):
        loader_of({}).edit(Ban(documents=path))


@pytest.mark.parametrize("rows", ["windows", "packed"])
@pytest.mark.parametrize(
    ("ban", "why"),
    [
        (Ban(documents=[80]), "does not exist is to be banned: document 80 of .* 80 documents"),
        (Ban(documents=list(range(80))), "leaves nothing of 'data'"),
        (Ban(tokens=(5, 10**6)), "tokens 5 to 1000000 are to be banned, and the source has only"),
        (Ban(documents=[1], source="web"), "source is 'web'; known are: data"),
    ],
)
def test_a_wrong_ban_is_refused_and_changes_nothing(rows, ban, why):
    loader = loader_of({"rows": rows})
    before = loader.state_dict()

    with pytest.raises(ValueError, match=why):
        loader.edit(ban)

    assert loader.state_dict() == before


def test_documents_without_a_token_cannot_be_banned():
    data = from_array(np.arange(30), document_ends=[10, 10, 30])

    with pytest.raises(ValueError, match="have no tokens"):
        loader_of({}, data, block_size=4).edit(Ban(documents=[1]))


def test_data_that_knows_its_documents_by_an_id_only():
    ids = np.arange(1, 301) * (np.arange(1, 301) % 10 > 0)
    data = from_array(ids, end_of_text=0)
    loader = loader_of({"order": "sequential"}, data)

    loader.edit(Ban(documents=[2, 4, 29]))

    trained = [token for step in range(4) for token in trained_on(loader.batch(step))]
    assert not {*range(21, 30), *range(41, 50), *range(291, 300)} & set(trained)
    assert {19, 31, 39, 51} <= set(trained)
    with pytest.raises(ValueError, match="document 30 of a dataset of 30 documents"):
        loader.edit(Ban(documents=[30]))


@of_kinds
def test_usage_counts_what_was_trained_on(options):
    """Of targets: those that begin a document count too, as in windows without masks."""
    if options.get("documents"):
        return
    loader = loader_of(options)
    loader.edit(Ban(documents=BANNED), at=6)
    loader.edit(Ban(tokens=(1200, 1215)), at=30)
    for step in (0, 6, 17, 50):
        trained = [t for s in range(step) for t in trained_on(loader.batch(s))]

        (used,) = loader.usage(step)

        assert used.used == len(trained)
    assert loader.stats()["sources"]["data"]["epochs"] == 0
