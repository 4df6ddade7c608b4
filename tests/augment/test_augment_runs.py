"""The same augmented rows on other ranks, in other batches, after a kill; and what is refused."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from special_tokens import BEGIN, END, MASK, MIDDLE, PREFIX, SUFFIX, write_tokenizer

import tokenmill
from tokenmill import BatchLoader, Mixture
from tokenmill.augment import DropTokens, FillInTheMiddle, MaskTokens, ReplaceTokens
from tokenmill.batches import BatchForm
from tokenmill.dataset import from_array
from tokenmill.errors import OrderMismatchError

ALL = [FillInTheMiddle(), DropTokens(0.1), ReplaceTokens(0.1)]
SENTINELS = {"prefix_id": PREFIX, "middle_id": MIDDLE, "suffix_id": SUFFIX}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A dataset whose tokenizer has sentinels, a mask and a begin token."""
    folder = tmp_path_factory.mktemp("augmented")
    tokenizer = str(write_tokenizer(folder / "tokenizer.json"))
    texts = [f"Text {n}: " + "some more words, " * (n % 17) for n in range(300)]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder / "texts.jsonl").write_text(rows)
    tokenmill.prepare(
        folder / "texts.jsonl", folder / "data", tokenizer=tokenizer, dedup="none", workers=1
    )
    return folder / "data"


def rows_of(loaders, num_steps):
    """Tokens and labels of some steps in the global order, over all ranks."""
    return [
        (tokens, labels)
        for _ in range(num_steps)
        for batch in map(next, loaders)
        for tokens, labels in zip(batch.tokens.tolist(), batch.labels.tolist(), strict=True)
    ]


def ranks_of(data, world_size, batch_size, **more):
    options = {"block_size": 40, "seed": 7, "augment": ALL, "documents": True, **more}
    return [
        BatchLoader(data, batch_size=batch_size, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


@pytest.mark.parametrize("rows", ["windows", "packed", "documents"])
@pytest.mark.parametrize(("world_size", "batch_size"), [(2, 3), (3, 2), (8, 1), (1, 5)])
def test_rows_are_the_same_on_any_ranks_and_batch_sizes(corpus, rows, world_size, batch_size):
    data = tokenmill.open(corpus)
    expected = rows_of(ranks_of(data, 1, 1, rows=rows), 90)
    per_step = world_size * batch_size

    first = ranks_of(data, 1, 6, rows=rows)
    rows_of(first, 5)
    others = ranks_of(data, world_size, batch_size, rows=rows)
    for loader in others:
        loader.load_state_dict(json.loads(json.dumps(first[0].state_dict())))

    found = rows_of(others, 60 // per_step)
    assert found == expected[30 : 30 + len(found)]


PROGRAM = """
import json, sys, tokenmill
from tokenmill import BatchLoader
from tokenmill.augment import DropTokens, FillInTheMiddle, ReplaceTokens
folder, state_file, rows, rank, world_size, batch_size = sys.argv[1:7]
augment = [FillInTheMiddle(), DropTokens(0.1), ReplaceTokens(0.1)]
loader = BatchLoader(
    tokenmill.open(folder), rows=rows, rank=int(rank), world_size=int(world_size),
    batch_size=int(batch_size), block_size=40, seed=7, augment=augment, documents=True,
)
try:
    loader.load_state_dict(json.load(open(state_file)))
except FileNotFoundError:
    pass
for batch in loader:
    rows = [batch.samples.tolist(), batch.tokens.tolist(), batch.labels.tolist()]
    print(json.dumps([*rows, loader.state_dict()]), flush=True)
"""


def start(corpus, state_file, rows, rank, world_size, batch_size):
    words = [corpus, state_file, rows, rank, world_size, batch_size]
    source = Path(tokenmill.__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


def test_killed_and_resumed_as_two_processes_the_rows_are_those_of_one_run(corpus, tmp_path):
    data = tokenmill.open(corpus)
    expected = rows_of(ranks_of(data, 1, 1, rows="packed"), 40)
    found, state_file = {}, tmp_path / "state.json"

    def take(process, num_steps):
        for _ in range(num_steps):
            samples, tokens, labels, state = json.loads(process.stdout.readline())
            found.update(zip(samples, zip(tokens, labels, strict=True), strict=True))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        return state

    state = take(start(corpus, state_file, "packed", 0, 1, 4), 3)
    state_file.write_text(json.dumps(state))
    for process in [start(corpus, state_file, "packed", rank, 2, 2) for rank in range(2)]:
        take(process, 6)

    assert sorted(found) == list(range(12 + 24))
    assert [found[sample] for sample in range(36)] == expected[:36]


def test_another_epoch_is_augmented_in_another_way():
    data = from_array(np.tile(np.arange(50, dtype=np.uint16), 3), vocab_size=60)
    loader = BatchLoader(
        data, batch_size=1, block_size=149, order="sequential", augment=[ReplaceTokens(0.3)]
    )

    epochs = [tuple(next(loader).inputs[0].tolist()) for _ in range(4)]

    assert len(set(epochs)) == 4


def test_documents_are_looked_for_but_not_shown_unless_asked_for(corpus):
    data = tokenmill.open(corpus)
    shown = BatchLoader(data, block_size=40, augment=[FillInTheMiddle()], documents=True).batch(0)
    hidden = BatchLoader(data, block_size=40, augment=[FillInTheMiddle()]).batch(0)
    dropped = BatchLoader(data, block_size=40, augment=[FillInTheMiddle(), DropTokens(0.2)]).batch(
        0
    )

    assert np.array_equal(shown.tokens, hidden.tokens)
    assert hidden.document_ids is hidden.loss_mask is hidden.cu_seqlens is None
    assert dropped.document_ids is None
    # Only padding is left out of the loss.
    _, labels = dropped
    assert ((labels == -100).sum(axis=1) > 0).all()
    for row, label in zip(dropped.tokens, labels, strict=True):
        first = int((label == -100).argmax())
        assert (label[:first] == row[1 : first + 1]).all()
        assert (label[first:] == -100).all()


def test_a_mixture_is_augmented_by_its_own_sample_numbers(corpus):
    data = tokenmill.open(corpus)
    mixture = Mixture({"a": data, "b": data}, weights={"a": 0.5, "b": 0.5})
    one = rows_of(ranks_of(mixture, 1, 8), 4)
    two = rows_of(ranks_of(mixture, 2, 2), 8)

    assert one == two
    assert PREFIX in {token for tokens, _ in one for token in tokens}


# States


def test_a_state_says_how_rows_were_augmented(corpus):
    data = tokenmill.open(corpus)
    state = BatchLoader(data, block_size=40, augment=ALL).state_dict()

    fim, drop, replace, special = state["augment"]
    assert fim == {
        "name": "FillInTheMiddle", "version": 1, "rate": 0.5, "spm_rate": 0.5, **SENTINELS
    }  # fmt: skip
    assert (drop["name"], replace["rate"]) == ("DropTokens", 0.1)
    assert special == {"special_ids": [[END, MASK]]}  # one run: END, BEGIN, ..., MASK
    assert json.loads(json.dumps(state)) == state


def test_states_without_augmentation_are_what_they_were(corpus):
    data = tokenmill.open(corpus)
    plain = BatchLoader(data, block_size=40).state_dict()

    assert "augment" not in plain
    assert BatchLoader(data, block_size=40, augment=[]).state_dict() == plain
    assert BatchLoader(data, block_size=40, augment=None).state_dict() == plain


@pytest.mark.parametrize(
    ("saved", "here", "said"),
    [
        (None, [DropTokens(0.1)], "augment .*None -> .*DropTokens"),
        ([DropTokens(0.1)], None, "augment .*DropTokens.* -> None"),
        ([DropTokens(0.1)], [DropTokens(0.2)], "'rate': 0.1.* -> .*'rate': 0.2"),
        ([FillInTheMiddle(), DropTokens(0.1)], [DropTokens(0.1), FillInTheMiddle()], "augment"),
    ],
)
def test_a_state_of_another_augmentation_is_refused_with_what_differs(corpus, saved, here, said):
    data = tokenmill.open(corpus)
    state = BatchLoader(data, block_size=40, augment=saved).state_dict()
    loader = BatchLoader(data, block_size=40, augment=here)

    with pytest.raises(OrderMismatchError, match=said):
        loader.load_state_dict(state)


def test_a_loader_with_augmentations_travels_to_another_process(corpus):
    loader = BatchLoader(tokenmill.open(corpus), block_size=40, augment=ALL, documents=True)

    copy = pickle.loads(pickle.dumps(loader))

    assert np.array_equal(copy.batch(3).tokens, loader.batch(3).tokens)


# A function of one's own


def shift(rows):
    return np.where(rows.fixed, rows.tokens, (rows.tokens + 1) % 256)


shift.name, shift.version = "shift", 3


def test_a_function_with_a_name_and_a_version_is_an_augmentation(corpus):
    data = tokenmill.open(corpus)
    before = BatchLoader(data, block_size=40).batch(0).tokens
    loader = BatchLoader(data, block_size=40, augment=[shift])

    expected = np.where(before >= 256, before, (before + 1) % 256)
    assert np.array_equal(loader.batch(0).tokens, expected)
    assert loader.state_dict()["augment"][0] == {"name": "shift", "version": 3}


def own(function, name="own", version=1):
    function.name, function.version = name, version
    return function


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda rows: rows.tokens, "with a name"),
        (own(lambda rows: rows.tokens, version=None), "has no version"),
        (own(lambda rows: rows.tokens, name=""), "with a name"),
        (5, "with a name"),
    ],
)
def test_a_function_that_cannot_be_told_from_others_is_refused(corpus, function, said):
    with pytest.raises(TypeError, match=said):
        BatchLoader(tokenmill.open(corpus), block_size=40, augment=[function])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (own(lambda rows: rows.tokens[:, 1:]), r"'own' \(version 1\) returned .* shape"),
        (own(lambda rows: rows.tokens + 1), "changed the id 256 at row"),
        (own(lambda rows: np.where(rows.fixed, rows.tokens, 999)), "returned ids from .* to 999"),
        (own(lambda rows: rows.tokens * 1.0), "returned float64"),
    ],
)
def test_what_a_function_may_not_do_is_named(corpus, function, said):
    loader = BatchLoader(tokenmill.open(corpus), block_size=400, augment=[function])

    with pytest.raises(ValueError, match=said):
        loader.batch(0)


def test_a_function_of_ones_own_can_draw_numbers(corpus):
    def noise(rows):
        chosen = rows.random.chosen(0.5, rows.tokens.shape[1]) & ~rows.fixed
        return np.where(chosen, 65, rows.tokens)

    data = tokenmill.open(corpus)
    one, other = (
        BatchLoader(data, batch_size=size, block_size=40, augment=[own(noise)]) for size in (2, 4)
    )

    assert np.array_equal(np.concatenate([next(one).tokens, next(one).tokens]), next(other).tokens)


# Special ids


def test_special_ids_are_never_touched(corpus):
    data = tokenmill.open(corpus)
    options = {"block_size": 40, "rows": "packed", "begin_token": BEGIN, "batch_size": 64}
    before = BatchLoader(data, **options).batch(0)
    for augment in ([ReplaceTokens(1.0)], [MaskTokens(1.0, keep=0.0, random=1.0)]):
        batch = BatchLoader(data, augment=augment, **options).batch(0)
        special = before.inputs >= 256
        assert np.array_equal(batch.inputs[special], before.inputs[special])
        assert (batch.inputs[~special] < 256).all()
    fim = BatchLoader(data, augment=[FillInTheMiddle(1.0)], **options).batch(0)
    ends = np.isin(before.tokens, (END, BEGIN))
    assert np.array_equal(fim.tokens[ends], before.tokens[ends])
    dropped = BatchLoader(data, augment=[DropTokens(0.99)], **options).batch(0)
    for row in range(64):
        counts = [
            int((b.tokens[row][b.segments[row] >= 0] == END).sum()) for b in (before, dropped)
        ]
        assert counts[0] == counts[1]


def test_a_document_with_special_ids_inside_is_left_as_it_is():
    text = np.array([*range(10), MASK, *range(10), END, *range(20), END] * 3, np.uint16)
    data = from_array(text, end_of_text=END, vocab_size=262)
    fim = FillInTheMiddle(1.0, **SENTINELS)
    loader = BatchLoader(
        data, batch_size=1, block_size=42, order="sequential", augment=[fim, MaskTokens(0, MASK)]
    )

    tokens = loader.batch(0).tokens[0]

    assert tokens[:22].tolist() == text[:22].tolist()
    assert tokens[22] == PREFIX


# Refused


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FillInTheMiddle(1.5), "rate of FillInTheMiddle is 1.5; it must be from 0 to 1"),
        (lambda: FillInTheMiddle(0.5, -0.1), "spm_rate of FillInTheMiddle is -0.1"),
        (lambda: MaskTokens(2), "rate of MaskTokens is 2"),
        (lambda: MaskTokens(0.1, keep=0.7, random=0.7), r"keep \+ random of MaskTokens"),
        (lambda: ReplaceTokens(float("nan")), "rate of ReplaceTokens is nan"),
        (lambda: DropTokens(1), "rate of DropTokens is 1; it must be at least 0 and below 1"),
    ],
)
def test_rates_that_are_none_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize(
    ("augment", "said"),
    [
        (
            [FillInTheMiddle(prefix_id=300, middle_id=1, suffix_id=2)],
            "prefix_id is 300, which is not in",
        ),
        ([FillInTheMiddle(prefix_id=1, middle_id=1, suffix_id=2)], "must be three ids"),
        ([MaskTokens(mask_id=-1)], "mask_id is -1"),
        ([MaskTokens(), ReplaceTokens(0.1)], "ReplaceTokens comes after MaskTokens"),
        ([ReplaceTokens(0.1), FillInTheMiddle()], "FillInTheMiddle comes after ReplaceTokens"),
        ([MaskTokens(), MaskTokens()], "MaskTokens comes after MaskTokens"),
    ],
)
def test_what_does_not_fit_the_data_is_refused(corpus, augment, said):
    with pytest.raises(ValueError, match=said):
        BatchLoader(tokenmill.open(corpus), block_size=40, augment=augment)


def test_ids_beyond_the_vocabulary_are_taken_on_request(corpus):
    """For a model that knows more ids than the tokenizer."""
    fim = FillInTheMiddle(1.0, prefix_id=300, middle_id=301, suffix_id=302)
    loader = BatchLoader(
        tokenmill.open(corpus), block_size=40, augment=[fim], form=BatchForm(check_ids=False)
    )

    assert 300 in loader.batch(0).tokens


def test_data_that_does_not_say_enough_is_refused():
    ids = np.arange(200, dtype=np.uint16)
    for data, augment, said in (
        (from_array(ids, vocab_size=300), FillInTheMiddle(0.5, **SENTINELS), "documents end"),
        (from_array(ids, end_of_text=9), FillInTheMiddle(), "prefix_id is not given"),
        (from_array(ids), MaskTokens(), "nothing says how many ids"),
        (from_array(ids), MaskTokens(random=0.0), "mask_id is not given"),
        (from_array(ids), ReplaceTokens(0.1), "nothing says how many ids"),
    ):
        with pytest.raises((ValueError, tokenmill.errors.FormatError), match=said):
            BatchLoader(data, block_size=10, augment=[augment])
    with pytest.raises(TypeError, match="expected list"):
        BatchLoader(from_array(ids), block_size=10, augment=DropTokens(0.1))


def test_windows_hold_changed_text_but_not_inputs_that_differ_from_targets(corpus):
    data = tokenmill.open(corpus)
    loader = BatchLoader(data, batch_size=3, block_size=40, augment=[FillInTheMiddle()])

    windows = loader.windows()
    assert np.array_equal(np.stack([windows[i] for i in range(3)]), loader.batch(0).tokens)
    for augment in (MaskTokens(), ReplaceTokens(0.1)):
        windows = BatchLoader(data, block_size=40, augment=[augment]).windows()
        with pytest.raises(ValueError, match="nor hold the labels"):
            windows[0]
