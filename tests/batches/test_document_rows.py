"""Rows of whole documents: every token once a target, on any ranks; all fields as in a loop."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenmill
from tokenmill import BatchLoader, Mixture, from_array, kernel
from tokenmill.batches import BatchForm
from tokenmill.errors import FormatError, OrderMismatchError

KINDS = ["packed", "documents"]
BEGIN = 60_000


def data_of(lengths, first=0):
    """Token i of the axis has the id first + i; documents are as long as asked."""
    ids = np.arange(first, first + sum(lengths), dtype=np.uint16)
    return from_array(ids, document_ends=np.cumsum(lengths))


def some_lengths(seed, count=80, longest=40):
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.12, count) * rng.integers(1, 4, count), longest).tolist()


def epoch_of(data, **options):
    loader = BatchLoader(data, epochs=1, form=BatchForm(prefetch=0), **{"batch_size": 1, **options})
    return list(loader)


def plain_row(data, spans, row, length, begin_token):
    """Tokens, documents and positions of a row, token by token; None in padding."""
    tokens, owners, places = [], [], []
    for i in range(spans.firsts[row], spans.firsts[row + 1]):
        start, size = int(spans.start[i]), int(spans.length[i])
        ids = ([begin_token] if spans.after_begin[i] else []) + data[start : start + size].tolist()
        size = len(ids)
        tokens += ids
        owners += [i - int(spans.firsts[row])] * size
        places += range(size)
    missing = length - len(tokens)
    last = owners[-1] + 1
    return tokens, owners + [last] * missing, places + list(range(missing))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begin_token", [None, BEGIN])
@pytest.mark.parametrize("block_size", [2, 7, 16, 64])
def test_every_token_is_a_target_once_an_epoch_but_first_ones(kind, begin_token, block_size):
    lengths = some_lengths(block_size)
    data = data_of(lengths)
    firsts = np.cumsum(lengths) - lengths
    for seed in (0, 1):
        batches = epoch_of(
            data, rows=kind, block_size=block_size, begin_token=begin_token, seed=seed
        )

        labels = np.concatenate([b.labels.ravel() for b in batches])
        inputs = np.concatenate([b.inputs.ravel() for b in batches])

        targets = np.sort(labels[labels >= 0]).tolist()
        every = range(data.num_tokens)
        expected = every if begin_token is not None else sorted(set(every) - set(firsts.tolist()))
        assert targets == list(expected)
        assert (inputs == BEGIN).sum() == (len(lengths) if begin_token is not None else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_that_fits_is_whole_in_one_row(kind):
    lengths = some_lengths(3, longest=12)
    batches = epoch_of(data_of(lengths), rows=kind, block_size=16)
    stats = BatchLoader(data_of(lengths), rows=kind, block_size=16).stats()["sources"]["data"]

    found = [
        tuple(pair)
        for b in batches
        for pair in zip(b.spans.start.tolist(), b.spans.length.tolist(), strict=True)
    ]

    firsts = np.cumsum(lengths) - lengths
    assert sorted(found) == list(zip(firsts.tolist(), lengths, strict=True))
    assert stats["cut_documents"] == 0
    assert stats["rows_per_epoch"] == len(batches)
    assert stats["padding_per_epoch"] == len(batches) * 17 - sum(lengths)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begin_token", [None, BEGIN])
def test_all_fields_equal_those_of_a_plain_loop(kind, begin_token):
    data, size = data_of(some_lengths(5)), 16
    loader = BatchLoader(
        data,
        rows=kind,
        batch_size=5,
        block_size=size,
        begin_token=begin_token,
        form=BatchForm(prefetch=0),
    )
    for _ in range(12):
        batch = next(loader)
        begins, longest = [], 0
        for row in range(5):
            tokens, owners, places = plain_row(data, batch.spans, row, size + 1, begin_token)
            filled = len(tokens)
            assert batch.tokens[row, :filled].tolist() == tokens
            assert not batch.tokens[row, filled:].any()
            assert batch.document_ids[row].tolist() == owners[:-1]
            assert batch.positions[row].tolist() == places[:-1]
            counted = [t + 1 < filled and owners[t] == owners[t + 1] for t in range(size)]
            assert batch.loss_mask[row].tolist() == counted
            labels = [tokens[t + 1] if counted[t] else -100 for t in range(size)]
            assert batch.labels[row].tolist() == labels
            segments = [owner if t < filled else -1 for t, owner in enumerate(owners)]
            assert batch.segments[row].tolist() == segments
            begins += [row * size + t for t in range(size) if places[t] == 0]
            longest = max(longest, max(places[:-1]) + 1)
        cu_seqlens = batch.cu_seqlens.tolist()
        assert cu_seqlens[: len(begins)] == begins
        assert set(cu_seqlens[len(begins) :]) == {5 * size}
        assert batch.max_seqlen == longest


def test_a_batch_unpacks_into_inputs_and_labels_so_that_padding_is_not_learned():
    batch = BatchLoader(data_of([3, 4, 5]), rows="documents", batch_size=3, block_size=8).batch(0)

    inputs, labels = batch

    assert np.array_equal(inputs, batch.inputs)
    assert np.array_equal(labels, batch.labels)
    assert (labels == -100).sum() == 3 * 8 - 9


def tokens_of(loader, steps):
    return [next(loader).tokens.tolist() for _ in range(steps)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("world_size", [1, 2, 3, 8])
def test_any_ranks_and_a_resume_on_another_number_give_the_rows_of_one_process(kind, world_size):
    data = data_of(some_lengths(9, count=300))
    options = {
        "rows": kind,
        "block_size": 12,
        "seed": 4,
        "begin_token": BEGIN,
        "form": BatchForm(prefetch=0),
    }
    whole = BatchLoader(data, batch_size=1, **options)
    rows = [next(whole).tokens[0].tolist() for _ in range(3 * 24 + 3 * 20)]

    ranks = [
        BatchLoader(data, batch_size=24 // world_size, rank=r, world_size=world_size, **options)
        for r in range(world_size)
    ]
    served = [row for _ in range(3) for loader in ranks for row in next(loader).tokens.tolist()]
    state = json.loads(json.dumps(ranks[-1].state_dict()))
    resumed = [BatchLoader(data, batch_size=4, rank=r, world_size=5, **options) for r in range(5)]
    for loader in resumed:
        loader.load_state_dict(state)
    served += [row for _ in range(3) for loader in resumed for row in next(loader).tokens.tolist()]

    assert served == rows


@pytest.mark.parametrize("kind", KINDS)
def test_epochs_differ_in_rows_and_in_order_and_sequential_ones_do_not(kind):
    data = data_of(some_lengths(2))
    shuffled = [epoch_of(data, rows=kind, block_size=16, seed=1)]
    loader = BatchLoader(data, rows=kind, block_size=16, seed=1, epochs=1, batch_size=1)
    first, second = ([b.tokens.tolist() for b in loader] for _ in range(2))
    assert first == [b.tokens.tolist() for b in shuffled[0]]
    assert first != second
    if kind == "packed":  # other documents meet
        assert sorted(first) != sorted(second)

    loader = BatchLoader(data, rows=kind, block_size=16, order="sequential", epochs=1, batch_size=1)
    first, second = ([b.tokens.tolist() for b in loader] for _ in range(2))
    assert first == second


def test_single_documents_in_sequence_are_in_the_order_of_the_axis():
    lengths = some_lengths(8)
    batches = epoch_of(
        data_of(lengths), rows="documents", block_size=16, order="sequential", begin_token=BEGIN
    )

    starts = [int(b.starts[0]) for b in batches]
    firsts = [s for s, b in zip(starts, batches, strict=True) if b.tokens[0, 0] == BEGIN]

    assert starts == sorted(starts)
    assert firsts == (np.cumsum(lengths) - lengths).tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("begin_token", [None, BEGIN])
def test_locate_and_when_are_exact(kind, begin_token):
    lengths = some_lengths(6, count=30)
    data = data_of(lengths)
    loader = BatchLoader(
        data,
        rows=kind,
        batch_size=2,
        block_size=9,
        epochs=2,
        begin_token=begin_token,
        form=BatchForm(prefetch=0),
    )
    seen = {document: set() for document in range(len(lengths))}
    owner = np.repeat(np.arange(len(lengths)), lengths)
    for step in range(len(loader)):
        batch = loader.batch(step)
        for row, column in np.argwhere(batch.segments >= 0).tolist():
            place = loader.locate(step, row, column)
            if begin_token is not None and batch.tokens[row, column] == begin_token:
                assert (place.document_offset, place.document) == (-1, owner[place.position])
            else:
                assert place.position == batch.tokens[row, column]
                assert place.document == owner[place.position]
        for row, column in np.argwhere(batch.loss_mask).tolist():
            seen[int(owner[batch.targets[row, column]])].add((step, row))

    for document, visits in seen.items():
        found = loader.when(document)
        assert sorted({(v.step, v.row) for v in found}) == sorted(visits)
    some = loader.when(tokens=(10, 40))
    expected = [
        (step, row)
        for step in range(len(loader))
        for row in range(2)
        if ((loader.batch(step).labels[row] >= 10) & (loader.batch(step).labels[row] < 40)).any()
    ]
    assert [(v.step, v.row) for v in some] == expected
    padded = next(s for s in range(len(loader)) if (loader.batch(s).segments[0] < 0).any())
    with pytest.raises(IndexError, match="is padding; this row has tokens up to"):
        loader.locate(padded, 0, 9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize("shards", [[900], [400, 0, 3, 2, 195, 300], [10] * 90])
def test_documents_across_shards_are_read_whole(in_shards, kind, backend, shards):
    ids = np.arange(1, 901, dtype=np.uint16)
    ends = np.sort(np.random.default_rng(1).choice(np.arange(1, 900), 60, replace=False))
    ids[ends - 1] = 0
    in_files = in_shards(ids, shards, end_of_text=0, backend=backend)
    in_memory = from_array(ids, end_of_text=0)
    options = {"rows": kind, "block_size": 20, "batch_size": 3}

    for one, other in zip(
        epoch_of(in_files, **options), epoch_of(in_memory, **options), strict=True
    ):
        assert np.array_equal(one.tokens, other.tokens)
        assert np.array_equal(one.labels, other.labels)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    block_size=st.integers(2, 12),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**63 - 1),
)
@settings(max_examples=60, deadline=None)
def test_the_kernel_and_its_twin_give_the_same_rows(lengths, block_size, kind, seed):
    data = data_of(lengths)
    options = {"rows": kind, "block_size": block_size, "seed": seed, "begin_token": BEGIN}
    expected = [b.tokens.tolist() for b in epoch_of(data, **options)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel, "compiled", None)
        assert [b.tokens.tolist() for b in epoch_of(data, **options)] == expected


def test_a_mixture_of_packed_sources_keeps_the_epochs_of_each():
    web, code = data_of(some_lengths(1)), data_of(some_lengths(2), first=20_000)
    mixture = Mixture({"web": web, "code": code}, weights={"web": 0.75, "code": 0.25})
    options = {"rows": "packed", "block_size": 16, "batch_size": 4, "form": BatchForm(prefetch=0)}
    loader = BatchLoader(mixture, seed=3, **options)
    per_epoch = loader.stats()["sources"]["web"]["rows_per_epoch"]

    rows = {0: [], 1: []}
    for _ in range(40):
        batch = next(loader)
        for source, labels in zip(batch.sources.tolist(), batch.labels, strict=True):
            rows[source].append(labels[labels >= 0])
            assert (labels[labels >= 0] >= 20_000).all() == source

    epoch = np.concatenate(rows[0][:per_epoch])
    assert (
        len(np.unique(epoch)) == len(epoch) == loader.stats()["sources"]["web"]["targets_per_epoch"]
    )
    place = loader.locate(11, 2, 3)
    assert (place.position + 20_000 * (place.source == "code")) == loader.batch(11).tokens[2, 3]
    visits = loader.when(5, source="code", epochs=[0])
    assert all(loader.batch(v.step).sources[v.row] == 1 for v in visits)
    assert visits


def test_rows_as_a_sequence_are_the_samples():
    loader = BatchLoader(data_of(some_lengths(1)), rows="packed", block_size=16, batch_size=4)
    rows = loader.windows()

    assert len(rows) == loader.stats()["sources"]["data"]["rows_per_epoch"]
    assert rows[5].tolist() == loader.batch(1).tokens[1].tolist()


def test_what_a_pass_leaves_out_is_counted_in_targets(caplog):
    lengths = some_lengths(7)
    loader = BatchLoader(data_of(lengths), rows="packed", block_size=16, batch_size=4, epochs=1)

    served = sum(int((b.labels >= 0).sum()) for b in loader)

    left = loader.stats()["left_out"]
    assert served + left["tokens"] == sum(lengths) - len(lengths)
    assert left["samples"] == loader.stats()["sources"]["data"]["rows_per_epoch"] % 4
    assert "window" not in caplog.text


def test_a_state_of_other_rows_is_refused_by_name():
    data = data_of(some_lengths(1))
    packed = BatchLoader(data, rows="packed", block_size=16)
    windows = BatchLoader(data, block_size=16)

    with pytest.raises(OrderMismatchError, match=r"rows +windows -> packed"):
        packed.load_state_dict(windows.state_dict())
    with pytest.raises(OrderMismatchError, match=r"rows +packed -> windows"):
        windows.load_state_dict(packed.state_dict())
    begun = BatchLoader(data, rows="packed", block_size=16, begin_token=BEGIN)
    with pytest.raises(OrderMismatchError, match=r"begin_token +None -> 60000"):
        begun.load_state_dict(packed.state_dict())


def test_a_state_of_other_documents_in_the_same_tokens_is_refused():
    ids = np.arange(100, dtype=np.uint16)
    one, other = (from_array(ids, document_ends=ends) for ends in ([50, 100], [40, 100]))
    state = BatchLoader(one, rows="packed", block_size=16).state_dict()

    with pytest.raises(OrderMismatchError, match="documents"):
        BatchLoader(other, rows="packed", block_size=16).load_state_dict(state)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rows": "pakced"}, "rows is 'pakced'; known are: windows, packed, documents"),
        ({"rows": "packed", "order": "blocks"}, 'order="blocks" is for windows'),
        ({"rows": "packed", "order": "random"}, 'order="random" is for windows'),
        ({"rows": "documents", "phase": True}, 'phase=True has no meaning with rows="documents"'),
        ({"begin_token": 5}, 'begin_token is 5, but rows are "windows"'),
        ({"rows": "packed", "begin_token": 70_000}, "begin_token is 70,000, which is not among"),
        ({"rows": "packed", "begin_token": -1}, "begin_token is -1"),
        ({"rows": "packed", "block_size": 0}, "block_size is 0"),
        ({"rows": "packed", "begin_token": 500, "block_size": 1}, "needs at least 2 inputs"),
    ],
)
def test_wrong_arguments_are_refused_with_their_value(given, says):
    with pytest.raises(ValueError, match=says):
        BatchLoader(data_of([10, 20]), **{"block_size": 8, **given})


def test_a_doubled_begin_token_is_refused_with_its_document():
    ids = np.array([7, 1, 2, 7, 3, 4, 5], np.uint16)
    data = from_array(ids, document_ends=[3, 7])
    with pytest.raises(FormatError, match=r"document 0 .* begins with the begin token 7 already"):
        BatchLoader(data, rows="packed", block_size=8, begin_token=7)
    data = from_array(ids[1:], document_ends=[2, 6])
    loader = BatchLoader(data, rows="packed", batch_size=1, block_size=8, begin_token=7)
    with pytest.raises(FormatError, match=r"document 1 .* begins with the begin token 7 already"):
        next(loader)


def test_data_that_does_not_know_its_documents_is_refused():
    with pytest.raises(FormatError, match="says where documents end"):
        BatchLoader(from_array(np.arange(100)), rows="packed", block_size=8)


def test_an_id_beyond_the_vocabulary_is_named_with_its_place():
    ids = np.arange(50, dtype=np.uint16)
    ids[30] = 99
    data = from_array(ids, document_ends=[20, 28, 50], vocab_size=60)
    with pytest.raises(FormatError, match=r"holds the id 99, .*its token 30; vocabulary: 60 ids"):
        list(BatchLoader(data, rows="packed", batch_size=2, block_size=24, epochs=1))


def test_a_dataset_of_ours_is_packed_by_its_index(tmp_path):
    texts = [f"document {i} " * (i % 17 + 1) for i in range(60)]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    tokenmill.prepare(
        tmp_path / "corpus.jsonl", tmp_path / "data", tokenizer="bytes", workers=1, val_fraction=0
    )
    data = tokenmill.open(tmp_path / "data")

    batches = epoch_of(data, rows="documents", block_size=256, order="sequential")

    decoded = [data.decode(b.tokens[0][b.segments[0] >= 0]) for b in batches]
    assert sorted(text.removesuffix("<|endoftext|>").strip() for text in decoded) == sorted(
        t.strip() for t in texts
    )
