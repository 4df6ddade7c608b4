"""Our loaders in loops that others wrote: stand-ins that ask of a batch what those ask of it."""

import itertools

import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader
from torch_data import numbered, with_documents

from tokenmill.batches.batch_form import BatchForm
from tokenmill.batches.mixture import Mixture
from tokenmill.compat import GPTDataLoader
from tokenmill.torch import TokenDataLoader, TorchLoader, WindowsDataset

SHAPE = {"batch_size": 4, "block_size": 16, "seed": 5}


class NanoModel(torch.nn.Module):
    """The contract of nanoGPT's model, of nanochat and of llm.c's train_gpt2.py: `.view(-1)`."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, 8)
        self.head = torch.nn.Linear(8, 1000)

    def forward(self, inputs, targets):
        logits = self.head(self.embedding(inputs))
        loss = functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


def from_text_in_memory():
    loader = GPTDataLoader({"batch_size": 4, "block_size": 16, "device": "cpu"}, "bytes")
    loader.prepare_data("some text " * 100)
    return iter(loader.get_batch, None)


def mixture():
    return Mixture({"a": numbered(), "b": numbered(900)}, weights={"a": 1, "b": 1})


LOADERS = {
    "TorchLoader": lambda: TorchLoader(numbered(), **SHAPE),
    "TorchLoader, documents": lambda: TorchLoader(with_documents(), documents=True, **SHAPE),
    "TorchLoader, mixture": lambda: TorchLoader(mixture(), **SHAPE),
    "TokenDataLoader": lambda: TokenDataLoader(numbered(), **SHAPE),
    "TokenDataLoader, worker": lambda: TokenDataLoader(numbered(), num_workers=1, **SHAPE),
    "TokenDataLoader, batch": lambda: TokenDataLoader(numbered(), items="batch", **SHAPE),
    "WindowsDataset": lambda: DataLoader(WindowsDataset(numbered(), block_size=16), batch_size=4),
    "GPTDataLoader": from_text_in_memory,
}


@pytest.mark.parametrize("name", LOADERS)
def test_a_model_that_views_its_targets_trains(name):
    inputs, targets = next(iter(LOADERS[name]()))

    _, loss = NanoModel()(inputs, targets)
    loss.backward()

    assert inputs.dtype == targets.dtype == torch.int64
    assert inputs.view(-1).shape == targets.view(-1).shape == (64,)
    assert torch.equal(inputs[:, 1:], targets[:, :-1])


@pytest.mark.parametrize("dtype", [None, "int32"])
def test_named_items_are_contiguous_too_and_of_the_dtype_asked_for(dtype):
    options = {} if dtype is None else {"form": BatchForm(dtype=dtype)}

    named = next(iter(TokenDataLoader(numbered(), items="dict", **SHAPE, **options)))

    assert all(tensor.is_contiguous() for tensor in named.values())
    assert {tensor.dtype for tensor in named.values()} == {getattr(torch, dtype or "int64")}


def test_a_window_is_one_tensor_of_inputs_and_the_last_target():
    window = next(iter(TokenDataLoader(numbered(), items="window", **SHAPE)))
    inputs, targets = next(TorchLoader(numbered(), **SHAPE))

    assert window.shape == (4, 17)
    assert window.dtype == torch.int64
    assert torch.equal(window[:, :-1], inputs)
    assert torch.equal(window[:, 1:], targets)
    assert torch.equal(
        WindowsDataset(numbered(), block_size=16, seed=5, items="window")[0], window[0]
    )


def pretrain(fabric, loader, num_steps, state=None):
    """The contract of LitGPT's pretrain loop: set up, cycle, cut the window, save with the rest."""
    loader = fabric.setup_dataloaders(loader)
    model = NanoModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = fabric.setup(model, optimizer)
    state_now = {"model": model, "optimizer": optimizer, "train_dataloader": loader, "step": 0}
    if state is not None:
        fabric.load(state, state_now)
    seen = []
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    for window in itertools.islice(batches, num_steps):
        inputs, targets = window[:, :16].contiguous().long(), window[:, 1:17].contiguous().long()
        _, loss = model(inputs, targets)
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(inputs[:, 0].tolist())
    return seen, state_now


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_fabric_script_stops_and_resumes_with_the_next_window(tmp_path, num_workers):
    fabric = pytest.importorskip("lightning.fabric").Fabric(accelerator="cpu", devices=1)

    def loader(workers=0):
        return TokenDataLoader(numbered(), items="window", num_workers=workers, **SHAPE)

    whole, _ = pretrain(fabric, loader(), 20)  # 15 in an epoch: the next has an order of its own
    first, state = pretrain(fabric, loader(num_workers), 6)
    fabric.save(tmp_path / "checkpoint", state)
    rest, _ = pretrain(fabric, loader(num_workers), 14, tmp_path / "checkpoint")

    expected = itertools.islice(TorchLoader(numbered(), epochs=1, **SHAPE), 15)
    assert whole[:15] == [inputs[:, 0].tolist() for inputs, _ in expected]
    assert first + rest == whole


def test_no_framework_puts_a_sampler_of_its_own_into_it():
    """Those that share out by rank leave iterable datasets alone; it has this rank's rows only."""
    data = pytest.importorskip("lightning.fabric.utilities.data")
    loaders = [TokenDataLoader(numbered(), rank=r, world_size=2, **SHAPE) for r in range(2)]
    whole = next(TorchLoader(numbered(), **{**SHAPE, "batch_size": 8}))

    assert all(isinstance(each, DataLoader) and data.has_iterable_dataset(each) for each in loaders)
    assert torch.equal(torch.cat([next(iter(each))[0] for each in loaders]), whole.inputs)
    assert len(loaders[0]) == 7


def test_what_fabric_wraps_has_the_position_too():
    fabric = pytest.importorskip("lightning.fabric").Fabric(accelerator="cpu", devices=1)
    loader = TokenDataLoader(numbered(), **SHAPE)
    wrapped = fabric.setup_dataloaders(loader)

    taken = list(itertools.islice(wrapped, 3))

    assert len(taken) == 3
    assert wrapped.state_dict() == loader.state_dict()
    assert loader.state_dict()["samples"] == 3 * 4


def test_an_endless_loader_has_no_length():
    with pytest.raises(TypeError, match="endless"):
        len(TokenDataLoader(numbered(), epochs=None, **SHAPE))
