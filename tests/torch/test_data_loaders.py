"""Workers change neither the order nor the state: the oracle is the core without any."""

import itertools
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, SequentialSampler
from torch_data import numbered, with_documents

from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

SHAPE = {"batch_size": 4, "block_size": 16, "seed": 5}
PER_EPOCH = 15  # 62 windows of 16 in 1,000 tokens: 15 batches of 4, and 2 windows left out


def first_column(batches):
    return [inputs[:, 0].tolist() for inputs, _ in batches]


@pytest.fixture(scope="module")
def two_epochs():
    """The rows of two epochs, read without DataLoader."""
    loader = TorchLoader(numbered(), epochs=1, **SHAPE)
    return first_column(loader) + first_column(loader)


@pytest.mark.parametrize(
    ("num_workers", "workers"),
    [
        (0, {}),
        (1, {}),
        (3, {"prefetch_factor": 4}),
        (2, {"persistent_workers": True}),
        (1, {"multiprocessing_context": "spawn"}),
    ],
)
def test_any_workers_give_the_order_without_them(two_epochs, num_workers, workers):
    loader = TokenDataLoader(numbered(), num_workers=num_workers, workers=workers, **SHAPE)

    assert len(loader) == PER_EPOCH
    assert first_column(loader) + first_column(loader) == two_epochs


@pytest.mark.parametrize("stop_after", [0, 1, 7, PER_EPOCH - 1, PER_EPOCH, PER_EPOCH + 3])
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0)])
def test_the_state_is_the_trainers_whatever_workers_made_ahead(
    two_epochs, stop_after, before, after
):
    first = TokenDataLoader(numbered(), num_workers=before, **SHAPE)
    passes = itertools.chain(iter(first), (b for _ in "2" for b in first))
    taken = first_column(itertools.islice(passes, stop_after))
    state = pickle.loads(pickle.dumps(first.state_dict()))

    second = TokenDataLoader(numbered(), num_workers=after, **SHAPE)
    second.load_state_dict(state)
    rest = first_column(second)
    while len(taken) + len(rest) < 2 * PER_EPOCH:
        rest += first_column(second)

    assert taken + rest == two_epochs


def test_saving_twice_after_a_resume_moves_on(two_epochs):
    """The standard failure of others: the state freezes after the first resume."""
    seen, state = [], None
    for _ in range(10):
        loader = TokenDataLoader(numbered(), **SHAPE)
        if state is not None:
            loader.load_state_dict(state)
        seen += first_column(itertools.islice(loader, 3))
        state = loader.state_dict()

    assert seen == two_epochs


def test_making_an_iterator_does_not_draw_from_the_global_generator():
    loader = TokenDataLoader(numbered(), num_workers=1, **SHAPE)
    torch.manual_seed(1)
    before = torch.get_rng_state()

    next(iter(loader))

    assert torch.equal(torch.get_rng_state(), before)


def test_validation_begins_at_its_first_batch_every_time():
    loader = TokenDataLoader(numbered(), order="sequential", from_start=True, **SHAPE)

    first = first_column(itertools.islice(loader, 2))

    assert first_column(itertools.islice(loader, 2)) == first
    assert first[0] == [0, 16, 32, 48]


def test_documents_come_through_workers():
    loader = TokenDataLoader(
        with_documents(), num_workers=1, items="batch", documents=True, **SHAPE
    )

    batch = next(iter(loader))

    assert torch.equal(batch.loss_mask, batch.inputs != 0)


@pytest.mark.parametrize("workers", [{}, {"persistent_workers": True}])
def test_a_pass_that_is_left_early_goes_on_where_the_trainer_was(two_epochs, workers):
    """Also with workers that live on: what they have made ahead of the trainer is made again."""
    loader = TokenDataLoader(numbered(), num_workers=2, workers=workers, **SHAPE)

    seen = []
    for stop_after in (1, 2, 7, 1, PER_EPOCH, PER_EPOCH):
        seen += first_column(itertools.islice(loader, stop_after))

    assert seen == two_epochs


def test_set_epoch_begins_a_pass_and_leaves_the_present_one_alone(two_epochs):
    loader = TokenDataLoader(numbered(), **SHAPE)
    next(iter(loader))

    loader.set_epoch(0)
    assert first_column(loader) == two_epochs[1:PER_EPOCH]
    loader.set_epoch(0)
    assert first_column(loader) == two_epochs[:PER_EPOCH]
    loader.set_epoch(1)
    assert first_column(loader) == two_epochs[PER_EPOCH:]


def test_the_map_style_items_are_the_order_by_number(two_epochs):
    windows = WindowsDataset(numbered(), block_size=16, seed=5)
    rows = [row for batch in two_epochs[:PER_EPOCH] for row in batch]

    assert len(windows) == 62
    assert [int(windows[i][0][0]) for i in range(60)] == rows
    inputs, targets = windows[-1]
    assert torch.equal(inputs + 1, targets)
    with pytest.raises(IndexError, match=r"62.*of a dataset of 62 windows"):
        windows[62]


@pytest.mark.parametrize(
    "workers",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "forkserver"},
    ],
)
def test_set_epoch_reaches_workers_that_are_alive_already(two_epochs, workers):
    windows = WindowsDataset(numbered(), block_size=16, seed=5)
    loader = DataLoader(
        windows, batch_size=4, drop_last=True, sampler=SequentialSampler(windows), **workers
    )

    seen = first_column(loader)
    windows.set_epoch(1)
    seen += first_column(loader)

    assert seen == two_epochs


class OneByOne(Dataset):
    """The same items without `__getitems__`: torch then asks for each by itself."""

    def __init__(self, windows):
        self.windows = windows

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return self.windows[i]


def test_the_windows_of_a_batch_of_the_map_style_are_gathered_at_once():
    """They are rows of one piece of memory, where one by one each has its own."""
    windows = WindowsDataset(numbered(9000), block_size=16, seed=5)

    def rows(dataset):
        return [inputs for inputs, _ in next(iter(DataLoader(dataset, 256, collate_fn=list)))]

    at_once, one_by_one = rows(windows), rows(OneByOne(windows))

    assert [row.tolist() for row in at_once] == [row.tolist() for row in one_by_one]
    assert len({row.untyped_storage().data_ptr() for row in at_once}) == 1
    assert len({row.untyped_storage().data_ptr() for row in one_by_one}) == 256


def test_torchdata_resumes_the_map_style(two_epochs):
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    windows = WindowsDataset(numbered(), block_size=16, seed=5)
    first = torchdata.StatefulDataLoader(windows, batch_size=4, drop_last=True, num_workers=2)
    taken = first_column(itertools.islice(first, 5))
    second = torchdata.StatefulDataLoader(windows, batch_size=4, drop_last=True, num_workers=2)
    second.load_state_dict(first.state_dict())

    assert taken + first_column(second) == two_epochs[:PER_EPOCH]


@pytest.mark.parametrize("items", ["pair", "dict", "hugging_face", "window"])
def test_a_batch_that_torch_puts_together_is_its_items(items):
    windows = WindowsDataset(numbered(200), block_size=8, items=items)
    alone = [windows[i] for i in range(10)]
    rows = windows.__getitems__(range(10))
    numbers = torch.tensor([3, 0, 9])

    def parts(made):
        made = list(made.values()) if isinstance(made, dict) else made
        return [part.tolist() for part in ([made] if items == "window" else made)]

    collate = torch.utils.data.default_collate
    whole = collate(rows)
    assert type(whole) is type(collate(alone))
    assert parts(whole) == parts(collate(alone))
    assert parts(collate([rows[i] for i in numbers])) == parts(collate([alone[i] for i in numbers]))
    assert parts(collate(rows + rows[:2])) == parts(collate(alone + alone[:2]))
    assert all(part.is_contiguous() for part in (whole if items == "pair" else ()))
