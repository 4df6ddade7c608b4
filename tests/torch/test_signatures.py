"""All that a loader takes is in its signature, for `help()`; nothing else is taken."""

import inspect
import pickle
from typing import get_type_hints

import pytest
from torch.utils.data import DataLoader
from torch_data import numbered

from tokenmill import BatchLoader, Mixture
from tokenmill.batches.run import LoaderKeywords
from tokenmill.compat import LocalTokenizedDatasetFixed, TokenizedDataset, create_dataloaders
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

CORE = inspect.signature(BatchLoader).parameters
LAZY = {"Mixture": Mixture}  # imported for type checkers only
OPEN = {"format", "dtype", "backend", "tokenizer", "end_of_text", "cache_dir", "verify"}


def keywords(function):
    return inspect.signature(function).parameters


def test_the_keywords_for_type_checkers_are_those_of_the_core():
    """Those that every loader of torch takes unchanged; the others it names itself."""
    named = {"data", "batch_size", "block_size", "rank", "world_size", "epochs", "form"}

    assert set(LoaderKeywords.__annotations__) == set(CORE) - named
    assert get_type_hints(LoaderKeywords) == {
        name: hint
        for name, hint in get_type_hints(BatchLoader.__init__, localns=LAZY).items()
        if name in LoaderKeywords.__annotations__
    }


@pytest.mark.parametrize(
    ("loader", "own", "without"),
    [
        (TorchLoader, {"device", "mesh", "vocab_size", "ignore_index"}, set()),
        (
            TokenDataLoader,
            {"items", "mesh", "num_workers", "workers", "from_start", "ignore_index"},
            set(),
        ),
    ],
)
def test_a_loader_of_torch_shows_the_keywords_of_the_core_and_its_own(loader, own, without):
    shown = keywords(loader)

    assert set(shown) == (set(CORE) - without) | own
    for name in LoaderKeywords.__annotations__:
        assert shown[name].default == CORE[name].default, name


def test_windows_by_number_have_no_batches_or_ranks():
    without = {"batch_size", "rank", "world_size", "epochs"}

    assert set(keywords(WindowsDataset)) == (set(CORE) - without) | {
        "items",
        "ignore_index",
        "num_samples",
    }


@pytest.mark.parametrize(
    "function", [TokenizedDataset, LocalTokenizedDatasetFixed, create_dataloaders]
)
def test_what_opens_files_shows_the_keywords_of_open(function):
    assert set(keywords(function)) > OPEN


@pytest.mark.parametrize("loader", [TorchLoader, TokenDataLoader])
def test_a_mistyped_keyword_is_refused_with_the_right_one(loader):
    with pytest.raises(TypeError, match=f"{loader.__name__}.*'sed'; did you mean 'seed'"):
        loader(numbered(), batch_size=4, block_size=16, sed=1)


def test_a_dataset_travels_to_workers_with_all_it_was_given():
    dataset = WindowsDataset(numbered(), block_size=16, seed=3, phase=True)
    copy = pickle.loads(pickle.dumps(dataset))
    here = [inputs.ravel().tolist() for inputs, _ in DataLoader(dataset, batch_size=None)]

    assert [inputs.ravel().tolist() for inputs, _ in DataLoader(copy, batch_size=None)] == here
    spawned = DataLoader(copy, batch_size=None, num_workers=1, multiprocessing_context="forkserver")
    assert [inputs.ravel().tolist() for inputs, _ in spawned] == here
