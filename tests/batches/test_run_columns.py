"""Columns of tokens in batches: each value next to its token, in every kind of row and reader."""

import pickle

import numpy as np
import pytest
from column_data import axis_of, expected_rows, make_documents, write
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import kernel
from tokenmill.augment.fill_in_the_middle import FillInTheMiddle
from tokenmill.batches import BatchForm
from tokenmill.batches.batch import IGNORED
from tokenmill.edits.edit_values import Ban
from tokenmill.errors import MismatchError

DOCUMENTS = make_documents()
COLUMNS = axis_of(DOCUMENTS)
NAMES = [name for name in COLUMNS if name != "ids"]
ROWS = ("windows", "packed", "documents")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("columns")
    write(folder / "plain", DOCUMENTS)
    write(folder / "zstd", DOCUMENTS, compress="zstd:1")
    return folder


@pytest.fixture(scope="module")
def data(datasets):
    return tokenmill.open(datasets / "plain")


def check(batch, columns=COLUMNS):
    """Compare a batch with the plain arrays."""
    shape = batch.tokens.shape
    for name in NAMES:
        expected = expected_rows(columns, batch.spans, shape, name)
        found = batch.columns[name] if name != "weights" else batch.columns[name] / 4096
        assert found.shape == expected.shape
        assert (found == expected).all(), name
    loss = expected_rows(columns, batch.spans, shape, "loss")[:, 1:]
    weights = expected_rows(columns, batch.spans, shape, "weights")[:, 1:]
    begins = np.ones(loss.shape, bool) if batch.marks is None else batch.marks.loss_mask
    assert (batch.loss_mask == (loss & begins)).all()
    assert (batch.labels == np.where(loss & begins, batch.tokens[:, 1:], IGNORED)).all()
    assert (batch.targets == np.where(loss, batch.tokens[:, 1:], IGNORED)).all()
    assert batch.weights.dtype == np.float32
    assert (batch.weights == weights).all()


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("kind", ["plain", "zstd"])
@pytest.mark.parametrize("reader", ["kernel", "twin", "pread"])
def test_every_value_is_next_to_its_token(datasets, kind, rows, reader, monkeypatch, tmp_path):
    if reader == "twin":
        monkeypatch.setattr(kernel, "compiled", None)
    cache = {"cache_dir": tmp_path} if kind == "zstd" else {}
    backend = "pread" if reader == "pread" else "mmap"
    data = tokenmill.open(datasets / kind, backend=backend, **cache)
    loader = tokenmill.BatchLoader(data, batch_size=3, block_size=61, rows=rows, seed=4)

    for _ in range(12):
        check(next(loader))


@given(
    size=st.integers(1, 300),
    shard=st.integers(101, 500),
    block=st.integers(1, 80),
    seed=st.integers(),
)
@settings(max_examples=8, deadline=None)
def test_a_part_that_begins_at_any_bit_has_its_values(tmp_path_factory, size, shard, block, seed):
    documents = make_documents(seed % 1000, count=12)
    columns = axis_of(documents)
    folder = tmp_path_factory.mktemp("part") / "d"
    whole = write(folder, documents, tokens_per_shard=shard)
    start = seed % max(1, len(whole) - size - block - 1)
    part = whole.part(start, min(len(whole), start + size + block + 1))
    loader = tokenmill.BatchLoader(part, batch_size=2, block_size=block)
    here = {name: values[start:] for name, values in columns.items()}

    for _ in range(3):
        check(next(loader), here)
    for name in NAMES:
        found = part.column(name, 1, len(part))
        assert (found == here[name][1 : len(part)]).all()


@pytest.mark.parametrize("rows", ROWS)
def test_ranks_states_and_pickles_have_the_columns_of_their_samples(data, rows):
    options = {"block_size": 33, "seed": 3, "rows": rows}
    alone = tokenmill.BatchLoader(data, batch_size=4, **options)
    first = [next(alone) for _ in range(6)]
    state = alone.state_dict()
    after = next(alone)
    halves = [
        tokenmill.BatchLoader(data, batch_size=2, rank=r, world_size=2, **options) for r in (0, 1)
    ]

    for batch in first:
        parts = [next(loader) for loader in halves]
        for name in NAMES:
            together = np.concatenate([part.columns[name] for part in parts])
            assert (together == batch.columns[name]).all()
    resumed = pickle.loads(pickle.dumps(tokenmill.BatchLoader(data, batch_size=4, **options)))
    resumed.load_state_dict(state)
    again = pickle.loads(pickle.dumps(next(resumed)))
    assert (again.labels == after.labels).all()
    assert (again.columns["likely"] == after.columns["likely"]).all()


def test_a_source_without_loss_and_weights_counts_whole(data, tmp_path):
    plain = write(tmp_path / "text", DOCUMENTS, names=("ids",))
    rest = tokenmill.open(data.path, columns=["loss", "weights"])
    mixture = tokenmill.Mixture({"text": plain, "chat": rest}, weights={"text": 1, "chat": 1})
    loader = tokenmill.BatchLoader(mixture, batch_size=6, block_size=40)

    for _ in range(10):
        batch = next(loader)
        text = batch.sources == 0
        assert 0 < text.sum() < 6
        assert batch.columns["loss"][text].all()
        assert (batch.weights[text] == 1).all()
        assert (batch.labels[text] == batch.tokens[text, 1:]).all()
        for row in np.flatnonzero(~text).tolist():
            start = int(batch.starts[row])
            assert (batch.columns["loss"][row] == COLUMNS["loss"][start : start + 41]).all()


def test_other_columns_that_a_source_lacks_are_refused_by_name(data, tmp_path):
    plain = write(tmp_path / "text", DOCUMENTS, names=("ids",))
    mixture = tokenmill.Mixture({"text": plain, "chat": data}, weights={"text": 1, "chat": 1})

    with pytest.raises(MismatchError, match=r"text .* no values per token in the column 'flag'"):
        tokenmill.BatchLoader(mixture, batch_size=2, block_size=8)


def test_columns_that_are_not_chosen_are_neither_read_nor_part_of_the_fingerprint(data, tmp_path):
    plain = write(tmp_path / "text", DOCUMENTS, names=("ids",))
    without = tokenmill.open(data.path, columns=[])
    batch = tokenmill.BatchLoader(without, batch_size=2, block_size=8).batch(0)

    assert without.columns == {}
    assert batch.columns is batch.weights is batch.loss_mask is None
    assert without.fingerprint == plain.fingerprint != data.fingerprint
    with pytest.raises(ValueError, match=r"(?s)columns is 'los'.*did you mean 'loss'"):
        tokenmill.open(data.path, columns=["los"])


def test_a_state_of_another_mask_is_refused(data, tmp_path):
    others = [{**document, "loss": ~document["loss"]} for document in DOCUMENTS]
    other = write(tmp_path / "other", others)
    state = tokenmill.BatchLoader(data, batch_size=2, block_size=8).state_dict()

    with pytest.raises(MismatchError):
        tokenmill.BatchLoader(other, batch_size=2, block_size=8).load_state_dict(state)


def test_a_ban_and_the_mask_both_hold(data):
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=50)
    start, stop = data.document_range(7)
    loader.edit(Ban(documents=[7]))

    for _ in range(len(data) // 200 + 1):
        batch = next(loader)
        places = batch.starts[:, None] + np.arange(1, 51)
        counted = COLUMNS["loss"][places] & ~((places >= start) & (places < stop))
        assert ((batch.labels != IGNORED) == counted).all()


def test_tokens_that_are_moved_stay_without_loss(tmp_path):
    """Ids from 100 on have no loss: none of them becomes a label, wherever it is moved."""
    documents = [{**d, "loss": d["ids"] < 100} for d in make_documents(3)]
    data = write(tmp_path / "d", documents, names=("ids", "loss"))
    middle = FillInTheMiddle(rate=1.0, prefix_id=250, middle_id=251, suffix_id=252)
    loader = tokenmill.BatchLoader(data, batch_size=4, block_size=50, augment=[middle])

    labels = np.concatenate([next(loader).labels for _ in range(20)])

    known = set(np.unique(labels).tolist())
    assert known & set(range(100))
    assert not known & set(range(100, 250))


def test_columns_that_cannot_follow_moved_tokens_are_refused(data):
    middle = FillInTheMiddle(prefix_id=250, middle_id=251, suffix_id=252)

    with pytest.raises(ValueError, match="the columns flag, kind, likely, weights cannot follow"):
        tokenmill.BatchLoader(data, batch_size=2, block_size=50, augment=[middle])


def test_one_row_of_tokens_cannot_say_what_is_no_target(data):
    windows = tokenmill.BatchLoader(data, batch_size=2, block_size=50).windows(4)

    with pytest.raises(ValueError, match="one row of tokens cannot say"):
        windows[0]
    check(windows.batch([0, 1]))


def test_halves_are_not_gathered_where_there_is_a_mask(data):
    """What torch asks for, for its speed, has no place for labels of another array."""
    form = BatchForm(halves=True)
    check(tokenmill.BatchLoader(data, batch_size=2, block_size=50, form=form).batch(3))
