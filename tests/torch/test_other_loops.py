"""Whole training loops as others write them, on small stand-ins, fed by our loaders."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch_data import numbered

from tokenmill.torch import TorchLoader

ROOT = Path(__file__).parents[2]
SHAPE = {"batch_size": 4, "block_size": 16, "seed": 5}


class NanoGPT(torch.nn.Module):
    """What nanoGPT's model asks of `idx` and `targets`, and gives back."""

    def __init__(self, block_size=16, vocab_size=1000, width=8):
        super().__init__()
        self.block_size = block_size
        self.wte = torch.nn.Embedding(vocab_size, width)
        self.wpe = torch.nn.Embedding(block_size, width)
        self.lm_head = torch.nn.Linear(width, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        _, length = idx.size()
        assert length <= self.block_size
        x = self.wte(idx) + self.wpe(torch.arange(0, length, dtype=torch.long, device=idx.device))
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        flat = logits.view(-1, logits.size(-1))
        return logits, functional.cross_entropy(flat, targets.view(-1), ignore_index=-1)


def nano_train(get_batch, num_steps, *, accumulate=3, eval_interval=4, eval_batches=2):
    """The loop of nanoGPT's train.py: a batch ahead, micro-steps, losses on both splits."""
    torch.manual_seed(1337)
    model = NanoGPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, evaluated = [], []
    inputs, targets = get_batch("train")
    for step in range(num_steps):
        if step % eval_interval == 0:
            model.eval()
            with torch.no_grad():
                for split in ("train", "val"):
                    found = [model(*get_batch(split))[1].item() for _ in range(eval_batches)]
                    evaluated.append(sum(found) / eval_batches)
            model.train()
        for _ in range(accumulate):
            _, loss = model(inputs, targets)
            loss = loss / accumulate
            inputs, targets = get_batch("train")
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item() * accumulate)
    return model, losses, evaluated


def test_the_loop_of_nanogpt_trains_on_our_batches():
    loaders = {
        "train": TorchLoader(numbered(), **SHAPE),
        "val": TorchLoader(numbered(200), **SHAPE),
    }

    model, losses, evaluated = nano_train(lambda split: next(loaders[split]), 12)

    assert losses[-1] < losses[0]
    assert len(evaluated) == 6
    assert model(torch.zeros(2, 5, dtype=torch.long))[0].shape == (2, 1, 1000)
    assert loaders["train"].state_dict()["samples"] == (1 + 12 * 3 + 3 * 2) * 4


def test_its_losses_are_those_of_the_same_windows_cut_by_hand():
    """The windows of our order, cut from the memory map as nanoGPT's get_batch does."""
    data, val = numbered(), numbered(200)
    starts = {
        split: iter([inputs[:, 0].tolist() for inputs, _ in itertools.islice(loader, 60)])
        for split, loader in (
            ("train", TorchLoader(data, **SHAPE)),
            ("val", TorchLoader(val, **SHAPE)),
        )
    }

    def get_batch(split):
        # The k-th token of these arrays is k, so the first token of a window is its place.
        ids, at = (data if split == "train" else val).array(0), next(starts[split])
        x = torch.stack([torch.from_numpy(ids[i : i + 16].astype("int64")) for i in at])
        y = torch.stack([torch.from_numpy(ids[i + 1 : i + 17].astype("int64")) for i in at])
        return x, y

    loaders = {"train": TorchLoader(data, **SHAPE), "val": TorchLoader(val, **SHAPE)}
    _, ours, ours_evaluated = nano_train(lambda split: next(loaders[split]), 6)
    _, theirs, theirs_evaluated = nano_train(get_batch, 6)

    assert ours == theirs
    assert ours_evaluated == theirs_evaluated


FABRIC_SCRIPT = """
import json, sys
import torch
from lightning.fabric import Fabric
from torch_data import numbered
from tokenmill.torch import TokenDataLoader

def main(fabric):
    loader = TokenDataLoader(numbered(), batch_size=2, block_size=16, seed=5, items="window")
    loader = fabric.setup_dataloaders(loader)
    model = torch.nn.Embedding(1000, 1)
    model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), lr=0.1))
    seen = []
    for window in loader:
        loss = model(window[:, :-1]).mean()
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        seen.append(window[:, 0].tolist())
    weights = fabric.all_gather(next(model.parameters()).detach().sum()).tolist()
    with open(f"{sys.argv[1]}/{fabric.global_rank}.json", "w") as file:
        json.dump([seen, weights], file)

Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(main)
"""


def test_two_processes_of_fabric_share_every_step_between_them(tmp_path):
    """Fabric starts both, over gloo; each finds its rank, and all windows come once."""
    pytest.importorskip("lightning.fabric")
    (tmp_path / "script.py").write_text(FABRIC_SCRIPT)
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])

    subprocess.run(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
    )

    results = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    (first, weights), (second, _) = results
    together = [a + b for a, b in zip(first, second, strict=True)]
    whole = TorchLoader(numbered(), **SHAPE, epochs=1)
    assert together == [inputs[:, 0].tolist() for inputs, _ in itertools.islice(whole, len(first))]
    assert len(first) == 15
    assert weights[0] == weights[1]  # gradients were averaged
