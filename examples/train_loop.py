"""A training loop of your own around TorchLoader, stopped and resumed in the middle.

    python examples/train_loop.py data/corpus

Needs torch. The model is as small as can be: what matters is the loader and its state.
"""

import sys

import torch
from torch.nn import functional

import tokenmill
from tokenmill.torch import TorchLoader

STEPS, STOP_AT = 20, 12


def main(path: str) -> None:
    data = tokenmill.open(path)
    losses, checkpoint = run(data, steps=STOP_AT)
    resumed, _ = run(data, steps=STEPS, checkpoint=checkpoint)
    uninterrupted, _ = run(data, steps=STEPS)
    same = losses + resumed == uninterrupted
    print(f"stopped at step {STOP_AT} and resumed: {'the same' if same else 'OTHER'} losses")


def run(data, steps, checkpoint=None):
    """Train to `steps`, from a checkpoint if there is one; the losses and a checkpoint."""
    torch.manual_seed(0)
    vocab_size = data.vocab_size or 50257
    model = torch.nn.Sequential(
        torch.nn.Embedding(vocab_size, 16), torch.nn.Linear(16, vocab_size, bias=False)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with TorchLoader(data, batch_size=4, block_size=32, seed=1, vocab_size=vocab_size) as loader:
        if checkpoint is not None:
            model.load_state_dict(checkpoint["model"])
            loader.load_state_dict(checkpoint["data"])
        first = 0 if checkpoint is None else checkpoint["step"]
        for _ in range(first, steps):
            inputs, targets = next(loader)
            loss = functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return losses, {"model": weights, "data": loader.state_dict(), "step": steps}


if __name__ == "__main__":
    main(sys.argv[1])
