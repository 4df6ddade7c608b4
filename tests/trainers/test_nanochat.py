"""nanochat's loop, as its scripts/base_train.py has it: stopped anywhere, resumed on other ranks.

nanochat is not on PyPI. Its contract, written down: the loader is called with (tokenizer, B, T,
split=, device=, resume_state_dict=) and yields inputs, targets and a state; the loop fetches one
batch ahead, saves the state of the batch that it holds as JSON, and prints three keys of it.
"""

import json
from itertools import islice

import pytest
import torch

import tokenmill
from tokenmill.torch import TorchLoader
from tokenmill.trainers.nanochat import loaders


class Tokenizer:
    def __init__(self, size=50257):
        self.size = size

    def get_vocab_size(self):
        return self.size


def base_train(path, num_steps, *, batch_rows, meta=None, accumulate=2, **options):
    """Return what each micro-step trained on, and the metadata of a checkpoint at the end."""
    with_state, _ = loaders(path, **options)
    resume = None if meta is None else json.loads(meta)["dataloader_state_dict"]
    loader = with_state(
        Tokenizer(), batch_rows, 32, split="train", device="cpu", resume_state_dict=resume
    )
    x, y, state = next(loader)
    seen = []
    for _ in range(num_steps * accumulate):
        seen.append([x.tolist(), y.tolist()])
        x, y, state = next(loader)
    assert f"{state['epoch']} pq: {state['pq_idx']} rg: {state['rg_idx']}"
    return seen, json.dumps({"dataloader_state_dict": state})


@pytest.mark.parametrize("options", [{}, {"rows": "packed"}])
def test_a_run_stopped_with_a_batch_in_hand_trains_on_that_batch_next(corpus, options, monkeypatch):
    whole, _ = base_train(corpus, 6, batch_rows=4, **options)
    first, meta = base_train(corpus, 2, batch_rows=4, **options)
    assert first == whole[:4]

    of_ranks = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        of_ranks.append(base_train(corpus, 4, batch_rows=2, meta=meta, **options)[0])

    together = [
        [a + b for a, b in zip(*parts, strict=True)] for parts in zip(*of_ranks, strict=True)
    ]
    assert together == whole[4:]


def test_validation_is_in_order_and_has_no_state(corpus):
    _, without_state = loaders(corpus, seed=3)
    val = tokenmill.open(corpus, "val")

    batches = list(islice(without_state(Tokenizer(), 1, 32, split="val", device="cpu"), 3))

    assert [x.flatten().tolist() for x, _ in batches] == [
        val.tokens(i * 32, i * 32 + 32).tolist() for i in range(3)
    ]


def test_what_has_no_loss_is_minus_one(corpus):
    with_state, _ = loaders(corpus, seed=3, rows="packed")
    order = TorchLoader(
        tokenmill.open(corpus, "train"), batch_size=4, block_size=64, seed=3, rows="packed"
    )

    _, targets, _ = next(with_state(Tokenizer(), 4, 64, split="train", device="cpu"))

    batch = next(order)
    assert torch.equal(targets == -1, ~batch.loss_mask)
    assert (targets == -1).any()


def test_a_tokenizer_that_is_too_small_for_the_data_is_refused(corpus):
    with_state, _ = loaders(corpus)

    with pytest.raises(tokenmill.errors.FormatError, match="vocabulary: 300 ids"):
        next(with_state(Tokenizer(300), 4, 64, split="train", device="cpu"))
