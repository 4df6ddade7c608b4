"""A GPT in one file, with its optimizer: what tokenmill trains to show that its batches are right.

A decoder of the usual kind: token embedding, `n_layer` pre-norm blocks of causal attention and a
GELU MLP, tied output. Rotary positions and RMSNorm instead of learned positions and LayerNorm;
no biases. Attention stays inside documents when document ids are given: the mask is then
"same document and not later", and positions restart with each document.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tokenmill.batches.batch import IGNORED
from tokenmill.errors import TokenmillError
from tokenmill.train.config import TrainConfig


class GPT(nn.Module):
    """Next-token logits, or their loss, for a batch of windows.

    `num_ids` is the vocabulary of the tokenizer; the embedding has a few rows more.
    """

    def __init__(self, config: TrainConfig, num_ids: int) -> None:
        super().__init__()
        self.block_size = config.block_size
        self.num_ids = num_ids
        num_rows = -(-num_ids // 64) * 64  # GPUs like round matrices
        self.embed = nn.Embedding(num_rows, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.n_layer))
        self.norm = nn.RMSNorm(config.n_embd)
        cos, sin = rotary_table(config.block_size, config.n_embd // config.n_head)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.cos: Tensor
        self.sin: Tensor
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
        for name, weight in self.named_parameters():
            if name.endswith((".project.weight", ".mlp.2.weight")):  # write to the residual stream
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * config.n_layer))

    @property
    def num_parameters(self) -> int:
        """Numbers that are trained; the output shares its matrix with the embedding."""
        return sum(p.numel() for p in self.parameters())

    def forward(
        self,
        inputs: Tensor,
        targets: Tensor | None = None,
        *,
        loss_mask: Tensor | None = None,
        weights: Tensor | None = None,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        last: bool = False,
    ) -> Tensor:
        """Logits (B, T, vocab), or (B, 1, vocab) of the `last` position; with `targets`, the summed
        loss over unmasked targets instead. With `weights` (B, T), each loss is multiplied by its
        own.

        The sum and not the mean: the caller divides by the number of targets of the whole step,
        so that a step is the same however it is cut over ranks and micro-batches.
        """
        length = inputs.shape[1]
        if length > self.block_size:
            raise ValueError(f"{length} tokens; the model's block_size is {self.block_size}")
        if positions is None:
            rotation = self.cos[:length], self.sin[:length]
        else:
            rotation = self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)
        mask = None if document_ids is None else same_document(document_ids)
        x = self.drop(self.embed(inputs))
        for block in self.blocks:
            x = block(x, rotation, mask)
        x = self.norm(x)
        if targets is None:
            return functional.linear(x[:, -1:] if last else x, self.embed.weight)
        if loss_mask is not None:
            targets = targets.masked_fill(~loss_mask, IGNORED)
        logits = functional.linear(x, self.embed.weight).flatten(0, 1).float()
        reduction = "sum" if weights is None else "none"
        loss = functional.cross_entropy(
            logits, targets.flatten(), ignore_index=IGNORED, reduction=reduction
        )
        return loss if weights is None else torch.dot(loss, weights.flatten())


class TransformerBlock(nn.Module):
    """Attention, then an MLP, each added to the residual stream: (B, T, C) -> (B, T, C)."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.norm_attention = nn.RMSNorm(config.n_embd)
        self.attention = Attention(config)
        self.norm_mlp = nn.RMSNorm(config.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(config.n_embd, 4 * config.n_embd, bias=False),
            nn.GELU(),
            nn.Linear(4 * config.n_embd, config.n_embd, bias=False),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        x = x + self.attention(self.norm_attention(x), rotation, mask)
        out: Tensor = x + self.mlp(self.norm_mlp(x))
        return out


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self, config: TrainConfig) -> None:
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=False)
        self.project = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """`mask` (B, 1, T, T) is true where attention is allowed."""
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.n_head, width // self.n_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, heads, T, head size)
        y = functional.scaled_dot_product_attention(
            rotate(q, *rotation),
            rotate(k, *rotation),
            v,
            attn_mask=mask,
            is_causal=mask is None,
            dropout_p=self.dropout if self.training else 0.0,
        )
        out: Tensor = self.drop(self.project(y.transpose(1, 2).reshape(batch, length, width)))
        return out


def rotary_table(length: int, head_size: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines (length, head_size / 2) of the rotary angles."""
    frequency = 10_000.0 ** (-torch.arange(0, head_size, 2).float() / head_size)
    angle = torch.arange(length).float()[:, None] * frequency
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (x[i], x[i + half]) of each head by the angle of their position."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
    return turned.to(x.dtype)


def same_document(document_ids: Tensor) -> Tensor:
    """(B, T) ids -> (B, 1, T, T), true where query t may see key s: one document, s <= t."""
    same = document_ids[:, None, :, None] == document_ids[:, None, None, :]
    return same.tril()


@torch.no_grad()
def generate(
    model: GPT,
    prompt: Tensor,
    max_new_tokens: int,
    *,
    temperature: float = 0.8,
    top_k: int | None = 200,
    seed: int = 0,
    stop_id: int | None = None,
    num_ids: int | None = None,
) -> Tensor:
    """Continue `prompt` (1-D ids) token by token; the result includes the prompt.

    Only ids below `num_ids` are drawn, and never rows of the embedding that pad the vocabulary. A
    temperature of 0 takes the likeliest token. Ends early at `stop_id`.
    """
    was_training = model.training
    model.eval()
    generator = torch.Generator(device=prompt.device).manual_seed(seed)
    most = min(num_ids or model.num_ids, model.num_ids)
    ids = prompt
    for _ in range(max_new_tokens):
        logits = model(ids[None, -model.block_size :], last=True)[0, -1, :most].float()
        if temperature == 0:
            drawn = logits.argmax()[None]
        else:
            logits = logits / temperature
            if top_k is not None and top_k < len(logits):
                logits[logits < logits.topk(top_k).values[-1]] = -math.inf
            probabilities = logits.softmax(-1)
            if not probabilities.isfinite().all():
                raise TokenmillError("the model gives no probabilities: its weights are too large")
            drawn = torch.multinomial(probabilities, 1, generator=generator)
        ids = torch.cat((ids, drawn))
        if stop_id is not None and int(drawn) == stop_id:
            break
    model.train(was_training)
    return ids


def learning_rate_at(step: int, config: TrainConfig) -> float:
    """Linear warm-up to the peak, then half a cosine down to the minimum at `decay_iters`."""
    assert config.min_learning_rate is not None  # the settings are resolved
    assert config.decay_iters is not None
    warmup = config.warmup_iters
    decay = max(config.decay_iters, warmup + 1)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    if step >= decay:
        return config.min_learning_rate
    height = 0.5 * (1 + math.cos(math.pi * (step - warmup) / (decay - warmup)))  # from 1 to 0
    return config.min_learning_rate + (config.learning_rate - config.min_learning_rate) * height


def make_optimizer(model: nn.Module, config: TrainConfig, *, fused: bool) -> torch.optim.AdamW:
    """AdamW that decays matrices and embeddings, and leaves gains (1-D weights) alone."""
    weights = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for p in weights if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in weights if p.dim() < 2], "weight_decay": 0.0},
    ]
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=betas, fused=fused)
