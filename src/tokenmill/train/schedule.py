"""How the learning rate moves, and which weights decay."""

import math
from typing import Any

import torch
from torch import nn


def learning_rate_at(
    step: int, *, peak: float, floor: float, warmup_steps: int, decay_steps: int
) -> float:
    """Linear warm-up to `peak`, then half a cosine down to `floor` at `decay_steps`.

    >>> [round(learning_rate_at(s, peak=1, floor=0, warmup_steps=2, decay_steps=6), 2)
    ...  for s in range(8)]
    [0.5, 1.0, 1.0, 0.85, 0.5, 0.15, 0.0, 0.0]
    """
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    if step >= decay_steps:
        return floor
    share = (step - warmup_steps) / (decay_steps - warmup_steps)
    return floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * share))


def make_optimizer(
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float],
    fused: bool,
) -> torch.optim.AdamW:
    """AdamW that decays matrices and embeddings, and leaves gains (1-D weights) alone."""
    weights = [p for p in model.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in weights if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=fused)
