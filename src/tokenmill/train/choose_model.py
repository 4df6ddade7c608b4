"""Choose a model for data that comes without a config file.

On a CPU a run is to show readable text within a minute or so: a few layers, a small vocabulary
learned from the text, and as many steps as this time has room for, by the time of a step measured
on this machine. On a GPU the model grows with the data.
"""

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tokenmill.base.human import human_count, human_duration
from tokenmill.train.collectives import sum_over_ranks
from tokenmill.train.config import TrainConfig
from tokenmill.train.model import GPT, make_optimizer
from tokenmill.train.run_data import TrainingData

MODEL = ("n_layer", "n_head", "n_embd")
"""Settings that choose a model: with one of them given, none is chosen."""
HEAD_SIZE = 32
MOST_EPOCHS = 40  # after these, a small text is known by heart
LEAST_STEPS = 200  # before these, no word is right: a slow machine takes longer
SECONDS = {"cpu": 45}  # of training; on other devices 600
# Bytes of a text from which on so many ids are learned from it.
VOCABULARIES = ((1 << 19, 4096), (1 << 17, 2048), (1 << 15, 1024), (0, 512))


class Size(NamedTuple):
    """One size of the model, and the tokens of data from which on it is worth its time."""

    least_tokens: int
    n_layer: int
    n_embd: int
    block_size: int
    rows: int
    learning_rate: float


# From the second on a model has at most two weights for each token of the data.
SIZES = (
    Size(0, 4, 128, 128, 8, 3e-3),
    Size(2_400_000, 6, 256, 256, 32, 2e-3),
    Size(12_500_000, 8, 512, 512, 32, 1e-3),
    Size(43_000_000, 12, 768, 1024, 32, 6e-4),
)


def choose_tokenizer(config: TrainConfig) -> TrainConfig:
    """Return settings that learn a vocabulary from a text, if nothing says which one it has."""
    text = Path(config.input_file or "")
    if config.tokenizer is not None or not text.is_file() or text.with_suffix(".npy").exists():
        return config
    num_ids = next(ids for size, ids in VOCABULARIES if text.stat().st_size >= size)
    return replace(config, tokenizer=f"bpe:{num_ids}")


def choose_model(
    config: TrainConfig, data: TrainingData, device: torch.device, given: Collection[str]
) -> tuple[TrainConfig, str]:
    """Return the settings of a run and a sentence about them; those that were given stay."""

    def choose(**settings: Any) -> None:
        nonlocal config
        free = {name: value for name, value in settings.items() if name not in given}
        config = replace(config, **free)

    tokens = sum(part.num_tokens for part in data.sources.values())
    size = max(s for s in SIZES if tokens >= s.least_tokens and (device.type != "cpu" or not s[0]))
    shortest = min(part.num_tokens for part in (*data.sources.values(), *data.held_out.values()))
    choose(n_layer=size.n_layer, n_embd=size.n_embd, n_head=size.n_embd // HEAD_SIZE)
    choose(block_size=min(size.block_size, max(8, shortest // 4)))
    choose(learning_rate=size.learning_rate, beta2=0.99, eval_batches=10, sample_tokens=200)
    if not {"batch_size", "global_batch_size"} & set(given):
        choose(batch_size=size.rows)
    rows = config.batch_size or config.global_batch_size or 1
    seconds = step_seconds(config, rows, data.vocab_size, device)
    most_steps = min(
        SECONDS.get(device.type, 600) / seconds, MOST_EPOCHS * tokens / (rows * config.block_size)
    )
    choose(max_iters=two_digits(max(LEAST_STEPS, most_steps)))
    steps = config.max_iters
    choose(warmup_iters=steps // 20, eval_interval=-(-steps // 4))
    return config, (
        f"No config file: for {human_count(tokens)} tokens on {device.type} chose {config.n_layer} "
        f"layers of {config.n_embd} and windows of {config.block_size} tokens, {rows} per step. "
        f"{steps:,} steps of {seconds * 1000:.0f} ms take about {human_duration(steps * seconds)}; "
        f"a larger max_iters trains longer, and {config.run_dir}/config.json holds all settings"
    )


def two_digits(number: float) -> int:
    """Round down, so that equal machines mostly choose alike.

    >>> two_digits(1987.5), two_digits(64.2)
    (1900, 64)
    """
    unit = int(10 ** max(0, len(str(int(number))) - 2))
    return int(number) // unit * unit


def step_seconds(config: TrainConfig, rows: int, num_ids: int, device: torch.device) -> float:
    """Return how long a step takes, the mean of all ranks; a model is made for it and dropped."""
    model = GPT(config, num_ids).to(device)
    optimizer = make_optimizer(model, config, fused=device.type == "cuda")
    ids = torch.zeros((rows, config.block_size), dtype=torch.int64, device=device)
    times = []
    for _ in range(4):  # the first one starts threads and makes the optimizer's state
        began = time.perf_counter()
        loss = model(ids, ids) / ids.numel()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        float(loss.detach())  # waits for a GPU
        times.append(time.perf_counter() - began)
    totals = sum_over_ranks(torch.tensor([min(times[1:]), 1.0], dtype=torch.float64))
    return float(totals[0] / totals[1])
