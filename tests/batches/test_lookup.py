"""What was in a step, and when does a document come: each against the batches themselves."""

import numpy as np
import pytest
from batches.numbered import numbered

from tokenmill import BatchLoader, Mixture
from tokenmill.dataset import from_array
from tokenmill.order.blocks import Blocks

BLOCK = 6
LENGTHS = [1, 7, 3, 30, 2, 2, 19, 5, 40, 11]
ENDS = np.cumsum(LENGTHS)


def test_a_token_of_a_batch_is_traced_to_its_file_document_and_offset(in_shards):
    ids = np.arange(200, dtype=np.uint16)
    loader = BatchLoader(in_shards(ids, [50, 1, 99, 50]), batch_size=3, block_size=BLOCK, epochs=1)
    for batch in loader:
        for row in range(3):
            for column in (0, 2, BLOCK):
                place = loader.locate(batch.step, row, column)
                token = batch.tokens[row, column]
                shard = next(s for s in loader.data.shards if s.file == place.file)
                assert token == ids[place.position] == ids[shard.start + place.offset]
                assert place.offset < shard.num_tokens
                assert place.sample == batch.samples[row]
                assert place.document is None


def test_a_place_is_a_tuple_too():
    data = from_array(np.arange(sum(LENGTHS), dtype=np.uint16), document_ends=ENDS)

    place = BatchLoader(data, batch_size=2, block_size=BLOCK, order="sequential").locate(0, 1, 3)

    # Token 9 is the second of document 2, after documents of 1 and 7 tokens.
    assert place == ("data", 0, 1, 9, place.file, 9, 2, 1)
    source, epoch, sample, position, file, offset, document, document_offset = place
    assert (source, epoch, sample, position) == place[:4]
    assert (file, offset, document, document_offset) == (place.file, place.offset, *place[-2:])


def test_documents_are_named_where_the_data_knows_them():
    data = from_array(np.arange(sum(LENGTHS), dtype=np.uint16), document_ends=ENDS)
    loader = BatchLoader(data, batch_size=2, block_size=BLOCK)
    for step in range(9):
        for row in range(2):
            place = loader.locate(step, row, 3)
            start, stop = data.document_range(place.document)
            assert start <= place.position < stop
            assert place.position == start + place.document_offset


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"order": "sequential"},
        {"order": Blocks(2, 3)},
        {"order": "random"},
        {"phase": True},
    ],
    ids=str,
)
def test_when_names_exactly_the_rows_that_hold_a_document_as_targets(options):
    data = from_array(np.arange(sum(LENGTHS), dtype=np.uint16), document_ends=ENDS)
    loaders = [
        BatchLoader(data, batch_size=2, block_size=BLOCK, rank=r, world_size=2, seed=5, **options)
        for r in range(2)
    ]
    per_epoch = loaders[0].windows().__len__()
    for document, (stop, length) in enumerate(zip(ENDS.tolist(), LENGTHS, strict=True)):
        expected = [
            (int(batch.samples[row]) // per_epoch, step, rank, row)
            for step in range(per_epoch * 2 // 4 + 1)
            for rank, loader in enumerate(loaders)
            for batch in [loader.batch(step)]
            for row in range(2)
            if np.isin(batch.targets[row], np.arange(stop - length, stop)).any()
            and batch.samples[row] < 2 * per_epoch
        ]

        found = loaders[0].when(document, epochs=range(2))

        assert [tuple(visit) for visit in found] == expected


def test_the_first_token_of_all_is_never_a_target():
    loader = BatchLoader(numbered(100), block_size=BLOCK, batch_size=2)

    assert loader.when(tokens=(0, 1)) == []
    assert len(loader.when(tokens=(0, 2))) == 1


def test_when_knows_what_a_pass_leaves_out():
    loader = BatchLoader(numbered(8 * BLOCK + 1), block_size=BLOCK, batch_size=5, epochs=1)
    seen = {int(token) for batch in loader for token in batch.targets.ravel()}

    for token in range(8 * BLOCK + 1):
        assert bool(loader.when(tokens=(token, token + 1))) == (token in seen)


def test_both_ways_work_in_a_mixture():
    mixture = Mixture({"a": numbered(300), "b": numbered(60, first=1000)}, weights={"a": 3, "b": 1})
    loader = BatchLoader(mixture, batch_size=4, block_size=BLOCK)
    batches = [loader.batch(step) for step in range(20)]

    visits = loader.when(tokens=(20, 21), source="b", epochs=range(2))

    expected = [
        (batch.step, row) for batch in batches for row in range(4) if 1020 in batch.targets[row]
    ]
    assert [(v.step, v.row) for v in visits][: len(expected)] == expected
    assert len(expected) == 2
    for batch in batches:
        for row in range(4):
            place = loader.locate(batch.step, row, 1)
            assert place.source == "ab"[batch.sources[row]]
            assert batch.tokens[row, 1] == place.position + 1000 * batch.sources[row]
    with pytest.raises(ValueError, match="source is None; known are: a, b"):
        loader.when(tokens=(0, 5))


def test_after_resuming_with_another_batch_size_rows_are_still_found():
    loader = BatchLoader(numbered(300), batch_size=3, block_size=BLOCK)
    next(loader)
    other = BatchLoader(numbered(300), batch_size=2, block_size=BLOCK)
    other.load_state_dict(loader.state_dict())
    batch = next(other)

    place = other.locate(batch.step, 1, 2)

    assert place.position == batch.tokens[1, 2]
    assert (batch.step, 0, 1) in [
        v[1:] for v in other.when(tokens=(place.position, place.position + 1))
    ]


@pytest.mark.parametrize(
    ("place", "says"),
    [((0, 3), "row is 3; it must be 0 to 2"), ((0, 0, 7), "column is 7"), ((-1, 0), "step is -1")],
)
def test_places_outside_of_a_batch_are_refused(place, says):
    with pytest.raises(IndexError, match=says):
        BatchLoader(numbered(300), batch_size=3, block_size=BLOCK).locate(*place)


def test_when_wants_one_question():
    loader = BatchLoader(numbered(300), block_size=BLOCK)

    with pytest.raises(ValueError, match="either a document or tokens"):
        loader.when()
    with pytest.raises(ValueError, match="tokens are 5 to 3"):
        loader.when(tokens=(5, 3))
    with pytest.raises(ValueError, match=r"within the 300 of the source"):
        loader.when(tokens=(5, 301))
