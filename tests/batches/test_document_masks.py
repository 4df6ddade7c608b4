"""Documents in a batch, against a loop over tokens that knows nothing of vectors."""

import numpy as np
import pytest

import tokenmill
from tokenmill import BatchLoader, kernel, prepare
from tokenmill.batches import BatchForm
from tokenmill.dataset import from_array
from tokenmill.errors import FormatError

END = 9


@pytest.fixture(params=["compiled", "numpy"])
def way(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(kernel, "compiled", None)
    elif kernel.compiled is None:
        pytest.skip("tokenmill.kernel.loops is not built: there was no C compiler")


def documents_of(seed, num_documents=60, longest=12):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, END, rng.integers(1, longest)).tolist() for _ in range(num_documents)]


def axis_of(documents, comes):
    """All tokens on one axis, and the document of each."""
    ids, owner = [], []
    for number, document in enumerate(documents):
        tokens = [*document, END] if comes == "after" else [END, *document]
        ids += tokens
        owner += [number] * len(tokens)
    return np.array(ids, np.uint16), owner


def plain_marks(owner, starts, block_size):
    """Fields of a batch, token by token."""
    document_ids, positions, loss_mask, begins = [], [], [], []
    for row, start in enumerate(starts):
        number, position, ids, places, mask = -1, 0, [], [], []
        for j in range(block_size):
            at = start + j
            if j == 0 or owner[at] != owner[at - 1]:
                number, position = number + 1, 0
                begins.append(row * block_size + j)
            ids.append(number)
            places.append(position)
            mask.append(owner[at + 1] == owner[at])
            position += 1
        document_ids.append(ids)
        positions.append(places)
        loss_mask.append(mask)
    return document_ids, positions, loss_mask, begins


@pytest.mark.parametrize("comes", ["after", "before"])
@pytest.mark.parametrize("from_index", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_fields_equal_those_of_a_plain_loop(way, comes, from_index, seed):
    ids, owner = axis_of(documents_of(seed), comes)
    ends = np.flatnonzero(np.diff(owner, append=-1)) + 1
    known = {"document_ends": ends} if from_index else {"end_of_text": END}
    data = from_array(ids, end_of_text_comes=None if from_index else comes, **known)
    loader = BatchLoader(
        data, batch_size=5, block_size=8, documents=True, form=BatchForm(prefetch=0)
    )

    for _ in range(12):
        batch = next(loader)
        expected = plain_marks(owner, batch.starts.tolist(), 8)
        assert batch.document_ids.tolist() == expected[0]
        assert batch.positions.tolist() == expected[1]
        assert batch.loss_mask.tolist() == expected[2]
        length = 6 if len(expected[3]) <= 5 else 41
        begins = [*expected[3], *[40] * (length - len(expected[3]))]
        assert batch.cu_seqlens.tolist() == begins
        assert batch.max_seqlen == max(np.diff(begins))


@pytest.mark.parametrize("kinds", [["after", "after"], ["after", "index"], ["before", "after"],
                                   ["index", "before", "after"]], ids="-".join)  # fmt: skip
def test_sources_of_a_mixture_are_each_asked_in_their_own_way(way, kinds):
    sources, owners = {}, []
    for seed, kind in enumerate(kinds):
        ids, owner = axis_of(documents_of(seed), comes="before" if kind == "before" else "after")
        if kind == "index":
            ends = np.append(np.flatnonzero(np.diff(owner)) + 1, len(ids))
            sources[str(seed)] = from_array(np.full_like(ids, END), document_ends=ends)
        else:
            sources[str(seed)] = from_array(ids, end_of_text=END, end_of_text_comes=kind)
        owners.append(owner)
    mixture = tokenmill.Mixture(sources, weights={name: 1 for name in sources})
    loader = BatchLoader(mixture, batch_size=6, block_size=17, documents=True)

    for batch in (next(loader) for _ in range(30)):
        for i, (source, start) in enumerate(zip(batch.sources, batch.starts, strict=True)):
            (ids,), (positions,), (mask,), _ = plain_marks(owners[source], [start], 17)
            assert batch.document_ids[i].tolist() == ids
            assert batch.positions[i].tolist() == positions
            assert batch.loss_mask[i].tolist() == mask


def test_shapes_and_types_are_the_same_in_every_batch():
    ids, _ = axis_of(documents_of(0), "after")
    data = from_array(ids, end_of_text=END)
    loader = BatchLoader(
        data,
        batch_size=3,
        block_size=8,
        documents=True,
        form=BatchForm(max_documents=5, prefetch=0),
        epochs=1,
    )

    for batch in loader:
        assert batch.cu_seqlens.shape == (16,)
        assert batch.cu_seqlens.dtype == np.int32
        assert batch.document_ids.shape == batch.positions.shape == batch.loss_mask.shape == (3, 8)
        assert batch.loss_mask.dtype == bool


def test_the_mask_hides_exactly_the_targets_that_begin_another_document():
    """Worked by hand: 'after' hides the target that follows the id, 'before' the id as target."""
    tokens = [1, 2, END, 3, 4, END, 5, 6, 7]
    after = from_array(np.array(tokens, np.uint16), end_of_text=END)
    before = from_array(np.array(tokens, np.uint16), end_of_text=END, end_of_text_comes="before")

    def mask(data):
        options = {"batch_size": 1, "block_size": 8, "order": "sequential", "documents": True}
        return BatchLoader(data, **options).batch(0).loss_mask.astype(int).tolist()[0]

    assert mask(after) == [1, 1, 0, 1, 1, 0, 1, 1]
    assert mask(before) == [1, 0, 1, 1, 0, 1, 1, 1]


def test_more_documents_than_there_is_room_for_is_an_error_with_both_numbers():
    crumbs = from_array(np.full(100, END, np.uint16), end_of_text=END)

    def batch(**more):
        form = BatchForm(**more)
        loader = BatchLoader(crumbs, batch_size=2, block_size=8, documents=True, form=form)
        return loader.batch(0)

    with pytest.raises(ValueError, match=r"holds 16 documents; .* room for 6 with max_documents=3"):
        batch(max_documents=3)
    assert batch(max_documents=8).max_seqlen == 1
    assert batch().cu_seqlens.tolist() == [*range(17)]
    assert batch().document_ids.tolist() == [[*range(8)]] * 2


@pytest.mark.parametrize(("block_size", "every"), [(4000, 3), (70_000, 69_000), (70_000, 7)])
def test_many_documents_and_long_rows_are_counted_rightly(way, block_size, every):
    """More than 256 documents in a row, positions over 65,536: nothing wraps."""
    ids = np.zeros(3 * block_size + 1, np.uint16)
    ids[every - 1 :: every] = END
    data = from_array(ids, end_of_text=END)
    loader = BatchLoader(
        data, batch_size=3, block_size=block_size, order="sequential", documents=True
    )

    batch = next(loader)

    inputs = np.arange(3 * block_size).reshape(3, block_size)
    begins = np.maximum(inputs // every * every, inputs[:, :1])
    assert (batch.positions == inputs - begins).all()
    assert (batch.document_ids == inputs // every - inputs[:, :1] // every).all()


def test_a_document_cut_short_at_the_end_of_a_shard_ends_there(tmp_path):
    """Held out by the end of the axis, then added to: the cut document has no end-of-text id."""
    settings = {"tokenizer": "bytes", "workers": 1, "val_fraction": 0.1, "tokens_per_shard": 10**6}
    for name, text in [("a", "first words " * 30), ("b", "other lines " * 30)]:
        (tmp_path / f"{name}.txt").write_text(text)
        prepare(tmp_path / f"{name}.txt", tmp_path / "data", append=name == "b", **settings)
    data = tokenmill.open(tmp_path / "data")
    first, last = data.document_ends(0, data.num_tokens).tolist()
    assert data.tokens(first - 1, first)[0] != data.end_of_text_id

    batch = BatchLoader(
        data, batch_size=1, block_size=data.num_tokens - 1, order="sequential", documents=True
    ).batch(0)

    assert batch.cu_seqlens[:3].tolist() == [0, first, last - 1]
    assert np.flatnonzero(~batch.loss_mask[0]).tolist() == [first - 1]


def test_documents_are_refused_at_the_door_where_nothing_says_where_they_end():
    with pytest.raises(FormatError, match="says where documents end"):
        BatchLoader(from_array(np.arange(100, dtype=np.uint16)), block_size=8, documents=True)


def test_without_documents_the_fields_are_none():
    batch = BatchLoader(from_array(np.arange(100, dtype=np.uint16)), block_size=8).batch(0)

    assert batch.document_ids is batch.positions is batch.loss_mask is batch.cu_seqlens is None


def test_labels_are_targets_where_there_is_a_loss_and_minus_100_elsewhere():
    ids, _ = axis_of(documents_of(3), "after")
    data = from_array(ids, end_of_text=END)
    options = {"batch_size": 5, "block_size": 8, "form": BatchForm(dtype="uint16")}
    plain = BatchLoader(data, **options).batch(0)
    marked = BatchLoader(data, documents=True, **options).batch(0)

    assert plain.labels.dtype == marked.labels.dtype == np.int64
    assert np.array_equal(plain.labels, plain.targets)
    assert np.array_equal(marked.labels, np.where(marked.loss_mask, plain.labels, -100))
    assert (marked.labels == -100).any()


def test_segments_name_the_document_of_every_token_also_of_the_last_target():
    ids, owner = axis_of(documents_of(4), "after")
    data = from_array(ids, end_of_text=END)
    batch = BatchLoader(data, batch_size=5, block_size=8, documents=True).batch(1)

    for row, start in enumerate(batch.starts.tolist()):
        numbers = [owner[at] - owner[start] for at in range(start, start + 9)]
        assert batch.segments[row].tolist() == numbers
    assert BatchLoader(data, block_size=8).batch(0).segments is None
