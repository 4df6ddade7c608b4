"""Promise: a seed names the same order in every release.

A run in progress resumes by number: if one of these values changed, every saved state would
silently resume with other windows than the ones it has not seen yet. A new order needs a new
`ORDER_VERSION` (so that old states are refused), a changelog line, and new values here.
"""

import hashlib

import numpy as np
import pytest
from order.made_orders import located, made_order

from tokenmill import BatchLoader, Mixture
from tokenmill.dataset import from_array
from tokenmill.order.blocks import Blocks
from tokenmill.order.mixture_order import MixtureStage
from tokenmill.order.order_settings import ORDER_VERSION
from tokenmill.order.permutation import shuffle


def digest(*arrays):
    data = b"".join(np.ascontiguousarray(array, "<i8").tobytes() for array in arrays)
    return hashlib.sha256(data).hexdigest()[:16]


def numbered(num_tokens):
    return from_array(np.arange(num_tokens, dtype=np.uint32))


def test_the_order_has_version_1():
    assert ORDER_VERSION == 1


@pytest.mark.parametrize(
    ("n", "seed", "epoch", "windows"),
    [
        (8, 0, 0, [0, 5, 3, 6, 4]),
        (1000, 1, 0, [825, 234, 328, 425, 503]),
        (1000, 1, 1, [432, 641, 786, 116, 10]),
        (65537, 2, 5, [19143, 52309, 62442, 16195, 7697]),
        (10**9, 3, 0, [591227273, 623293407, 124809545, 201284921, 526102494]),
        (2**40, 2**62, 7, [8980706218, 1093954811700, 947899806929, 1031725962958, 350594386810]),
    ],
)
def test_windows_at_the_first_three_the_middle_and_the_last_position(n, seed, epoch, windows):
    positions = np.array([0, 1, 2, n // 2, n - 1])

    assert shuffle(positions, n, seed=seed, epoch=epoch).tolist() == windows


@pytest.mark.parametrize(
    ("options", "first", "whole", "fingerprint"),
    [
        ({}, [369200, 247200, 711300], "94c0e81a86f81dec", "c502470f7fb9d996"),
        ({"order": "sequential"}, [0, 100, 200], "d684137a5b0af3d3", "2c7948a4774d2a9a"),
        ({"order": "random"}, [394344, 917561, 95070], "7001d573f7dad111", "7213a19bb5ac1a6c"),
        (
            {"order": Blocks(256, 512)},
            [624200, 209900, 701900],
            "0df0c64b5cddf940",
            "1a3db1ba36eba1ae",
        ),
        (
            {"order": Blocks(8, 4)},
            [312300, 303200, 452700],
            "263baaf3b4572f17",
            "e3854f3d7b2a23fe",
        ),
        ({"phase": True}, [369287, 247287, 711387], "bfbb345ffc050a7e", "ab15bb37398dfd49"),
    ],
    ids=str,
)
def test_three_epochs_of_every_order(options, first, whole, fingerprint):
    order = made_order([1_000_003], block_size=100, seed=42, **options)
    loader = BatchLoader(numbered(1_000_003), block_size=100, seed=42, **options)

    _, starts = located(order, np.arange(30_000))

    assert starts[:3].tolist() == first
    assert digest(starts) == whole
    assert loader.order_fingerprint == fingerprint


SHARDS = [100_000] * 9 + [60_003, 40_000]


@pytest.mark.parametrize(
    ("shards", "first", "whole"),
    [
        (SHARDS, [296200, 335500, 764300], "218b6e5e91b34a28"),
        ([40_000_000, 777, 3_000_000], [34670900, 23460800, 20399200], "22d0dde7204b2cd8"),
        ([1_000_003], [496200, 235500, 164300], "5574e039f96b00a0"),
    ],
    ids=["eleven shards", "parts of one", "one shard"],
)
def test_blocks_that_follow_the_shards(shards, first, whole):
    size = max(100, sum(shards) // 10_000)
    order = made_order([], block_size=size, seed=42, order="blocks", shards=[shards])

    _, starts = located(order, np.arange(30_000))

    assert starts[:3].tolist() == first
    assert digest(starts) == whole
    assert order.name == "blocks"


def test_a_mixture_with_a_change_of_weights():
    lengths = [1_000_003, 50_001, 777]
    stages = [MixtureStage(0, (7, 2, 1)), MixtureStage(1000, (1, 1, 0))]
    order = made_order(lengths, block_size=100, seed=42, stages=stages)
    data = dict(zip("abc", map(numbered, lengths), strict=True))
    weights = [(stage.start, dict(zip("abc", stage.parts, strict=True))) for stage in stages]
    loader = BatchLoader(Mixture(data, schedule=weights), block_size=100, seed=42)

    sources, starts = located(order, np.arange(30_000))

    assert sources[:12].tolist() == [0, 0, 1, 2, 1, 0, 0, 1, 0, 1, 0, 2]
    assert starts[:6].tolist() == [133800, 631100, 39400, 200, 31100, 842000]
    assert digest(sources, starts) == "64a40d5d1935d175"
    assert loader.order_fingerprint == "116fe67ee79d8dc5"


@pytest.mark.parametrize(
    ("options", "first", "whole", "fingerprint"),
    [
        ({"rows": "packed"}, [137525, 449610, 60456], "41484ba525123029", "d00bba63c2081649"),
        (
            {"rows": "packed", "begin_token": 60_000},
            [218135, 404724, 139939],
            "910f0432958dc56f",
            "85556625d8e07e2a",
        ),
        (
            {"rows": "packed", "order": "sequential"},
            [81417, 206667, 331917],
            "57de558be630e75e",
            "ab2a8f030b0e5f14",
        ),
        ({"rows": "documents"}, [20914, 127915, 130779], "f115e353440edeed", "c4b817e02f9099f8"),
        (
            {"rows": "documents", "order": "sequential"},
            [0, 256, 420],
            "0ddedd01744fcbf5",
            "2962584cb5a4a45b",
        ),
    ],
    ids=str,
)
def test_two_epochs_of_rows_of_documents(options, first, whole, fingerprint):
    """Documents of 1 to 500 tokens; `first` are those that the first rows begin with."""
    lengths = np.arange(1, 2000) * 7919 % 500 + 1
    ids = np.arange(lengths.sum(), dtype=np.uint32) % 50_000
    data = from_array(ids.astype(np.uint16), document_ends=np.cumsum(lengths))
    loader = BatchLoader(data, batch_size=1, block_size=256, seed=42, epochs=2, **options)

    batches = list(loader)

    assert [int(batch.starts[0]) for batch in batches[:3]] == first
    assert digest(*(batch.tokens for batch in batches)) == whole
    assert loader.state_dict()["order_fingerprint"] == fingerprint


def test_rank_1_of_2_reads_its_half_of_the_second_step():
    data = from_array(np.arange(101, dtype=np.uint16))
    loader = BatchLoader(data, batch_size=2, block_size=10, seed=0, rank=1, world_size=2)

    batch = loader.batch(1)

    assert batch.samples.tolist() == [6, 7]
    assert batch.starts.tolist() == (shuffle(batch.samples, 10, seed=0, epoch=0) * 10).tolist()
    assert batch.starts.tolist() == [90, 80]


def test_a_state_of_version_1_is_read():
    """A state as written by 0.1.0; its keys and meaning stay."""
    data = from_array(np.arange(101, dtype=np.uint16))
    state = {
        "format": 1,
        "samples": 8,
        "pass": 0,
        "order_fingerprint": "809179afafe6ed42",
        "order_version": 1,
        "order": "shuffle",
        "seed": 0,
        "block_size": 10,
        "phase": False,
        "stages": None,
        "data_fingerprint": data.fingerprint,
        "sources": ["data"],
        "num_tokens": [101],
    }
    loader = BatchLoader(data, batch_size=2, block_size=10)

    loader.load_state_dict(state)

    assert loader.state_dict() == state
    assert next(loader).samples.tolist() == [8, 9]
