"""States with edits in the loaders for torch: carried by all, and the same batches."""

import json

import numpy as np
import pytest
import torch
from batches.numbered import numbered

from tokenmill import BatchLoader
from tokenmill.edits import Cap, Skip
from tokenmill.torch import TokenDataLoader, TorchLoader

DATA = numbered(60 * 4 + 1)
OPTIONS = {"batch_size": 4, "block_size": 4}


@pytest.fixture
def edited():
    """A state with a skip that is past and one that is to come, and the batches after it."""
    loader = BatchLoader(DATA, **OPTIONS)
    loader.edit(Skip(steps=(1, 3)), Skip(samples=(26, 40)))
    for _ in range(3):
        next(loader)
    state = json.loads(json.dumps(loader.state_dict()))
    return state, [next(loader).inputs for _ in range(6)]


def test_a_torch_loader_resumes_with_edits_and_makes_them(edited):
    state, expected = edited
    loader = TorchLoader(DATA, device="cpu", **OPTIONS)
    loader.load_state_dict(state)

    assert np.array_equal([next(loader).inputs.numpy() for _ in range(6)], expected)
    assert loader.state_dict()["edits"] == state["edits"]
    loader.edit(Skip(steps=(9, 11)))
    assert len(loader.state_dict()["edits"]) == 3


@pytest.mark.parametrize("num_workers", [0, 2])
def test_workers_serve_what_the_edits_of_the_state_say(edited, num_workers):
    state, expected = edited
    loader = TokenDataLoader(DATA, epochs=None, num_workers=num_workers, **OPTIONS)
    loader.load_state_dict(state)
    batches = iter(loader)
    served = [next(batches)[0].numpy() for _ in range(6)]

    assert np.array_equal(served, expected)
    assert loader.state_dict()["edits"] == state["edits"]


def test_passes_follow_the_edits(edited):
    state, expected = edited
    loader = TokenDataLoader(DATA, **OPTIONS)
    loader.load_state_dict(state)
    first = [item[0].numpy() for item in loader]

    # Of 60 windows 8 and 14 are passed over, and 3 batches were served before.
    assert len(first) == (60 - 8 - 14) // 4 - 3
    assert np.array_equal(first[: len(expected)], expected[: len(first)])
    second = torch.cat([item[0] for item in loader])
    assert len(torch.unique(second[:, 0])) == 60


def test_an_order_that_ends_gives_empty_passes_after_it():
    loader = BatchLoader(DATA, **OPTIONS)
    loader.edit(Cap({"data": 1}))
    stateful = TokenDataLoader(DATA, epochs=None, **OPTIONS)
    stateful.load_state_dict(loader.state_dict())

    assert len(list(stateful)) == 15
    assert list(stateful) == []
