"""The GPT: causal, blind across documents when asked to be, and small enough to learn by heart."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from tokenmill.errors import TokenmillError
from tokenmill.train.config import TrainConfig
from tokenmill.train.model import (
    GPT,
    generate,
    learning_rate_at,
    make_optimizer,
    rotary_table,
    rotate,
)

CONFIG = TrainConfig(block_size=16, n_layer=2, n_head=2, n_embd=16)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return GPT(CONFIG, num_ids=64).eval()


@pytest.fixture
def ids():
    return torch.randint(0, 64, (2, 16), generator=torch.Generator().manual_seed(1))


def test_weights_begin_small_and_those_of_the_residual_stream_smaller():
    torch.manual_seed(0)
    model = GPT(replace(CONFIG, n_embd=64, n_layer=8), num_ids=512)

    for name, weight in model.named_parameters():
        if weight.ndim == 2:
            is_added = name.endswith((".project.weight", ".mlp.2.weight"))
            expected = 0.02 / math.sqrt(16) if is_added else 0.02
            assert weight.std().item() == pytest.approx(expected, rel=0.1), name


def test_a_token_does_not_see_those_after_it(model, ids):
    changed = ids.clone()
    changed[:, 10:] = (changed[:, 10:] + 1) % 64

    before, after = model(ids), model(changed)

    assert torch.equal(before[:, :10], after[:, :10])
    assert not torch.equal(before[:, 10:], after[:, 10:])


def test_the_last_position_alone_has_the_logits_it_has_among_all(model, ids):
    torch.testing.assert_close(model(ids, last=True), model(ids)[:, -1:])


def test_documents_in_one_window_are_as_if_alone(model, ids):
    """The second document's logits equal those of a window that holds nothing else."""
    documents = torch.zeros(2, 16, dtype=torch.long)
    documents[:, 6:] = 1
    positions = torch.cat((torch.arange(6), torch.arange(10))).expand(2, 16)

    together = model(ids, document_ids=documents, positions=positions)
    alone = model(ids[:, 6:])

    torch.testing.assert_close(together[:, 6:], alone, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together[:, :6], model(ids[:, :6]), rtol=1e-4, atol=1e-5)


def test_the_loss_is_the_sum_over_targets_that_count(model, ids):
    inputs, targets = ids[:, :-1], ids[:, 1:]
    mask = torch.rand(targets.shape, generator=torch.Generator().manual_seed(2)) > 0.5

    total = model(inputs, targets, loss_mask=mask)

    chances = model(inputs).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(total, -(chances * mask).sum(), rtol=1e-4, atol=1e-4)


def test_a_window_longer_than_the_context_is_refused(model):
    with pytest.raises(ValueError, match=r"17 tokens; the model's block_size is 16"):
        model(torch.zeros(1, 17, dtype=torch.long))


def test_it_learns_a_sequence_by_heart_and_says_it():
    torch.manual_seed(0)
    model = GPT(CONFIG, num_ids=64)
    song = (torch.arange(17) * 7 + 3) % 64
    optimizer = make_optimizer(
        model, TrainConfig(learning_rate=1e-2, weight_decay=0.0), fused=False
    )
    for _ in range(60):
        loss = model(song[None, :-1], song[None, 1:]) / 16
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    said = generate(model, song[:1], 16, temperature=0)

    assert torch.equal(said, song)


def test_padding_rows_of_the_vocabulary_are_never_drawn(ids):
    model = GPT(CONFIG, num_ids=50)

    drawn = generate(model, ids[0, :4] % 50, 40, temperature=5.0, top_k=None, seed=3)

    assert drawn[4:].max() < 50


def test_equal_seeds_draw_equal_text_whatever_the_global_generator(model, ids):
    first = generate(model, ids[0, :4], 8, seed=3)
    torch.rand(7)

    assert torch.equal(first, generate(model, ids[0, :4], 8, seed=3))


def test_gains_do_not_decay_and_matrices_do(model):
    groups = make_optimizer(model, TrainConfig(weight_decay=0.1), fused=False).param_groups

    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert len(decays) == len(list(model.parameters()))
    for name, weight in model.named_parameters():
        assert decays[id(weight)] == (0.0 if "norm" in name else 0.1), name


def test_the_learning_rate_rises_falls_and_stays():
    config = TrainConfig(learning_rate=1.0, warmup_iters=10, max_iters=110).resolved(1)
    rates = [learning_rate_at(step, config) for step in range(130)]

    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[60] == pytest.approx(0.55)  # half-way down a cosine is the middle
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
    assert rates[110:] == [0.1] * 20


def test_weights_that_give_no_probabilities_are_named(model, ids):
    with torch.no_grad():
        model.embed.weight.fill_(math.inf)

    with pytest.raises(TokenmillError, match="its weights are too large"):
        generate(model, ids[0, :4], 2)


def test_positions_turn_pairs_of_a_head_as_complex_numbers_turn():
    x = torch.randn(2, 9, 8, generator=torch.Generator().manual_seed(3))
    cos, sin = rotary_table(9, 8)

    turned = torch.complex(*x.chunk(2, dim=-1)) * torch.complex(cos, sin)

    expected = torch.cat((turned.real, turned.imag), dim=-1)
    torch.testing.assert_close(rotate(x, cos, sin), expected)
