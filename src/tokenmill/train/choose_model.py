"""Choose a model for data that comes without a config file.

On a CPU a run is to show readable text within a minute or so: a few layers, a vocabulary of some
thousand ids learned from the text, and as many steps as that time has room for, by the time of a
step measured on this machine. On a GPU the model grows with the data.

Measured on 1 MB of English news and two cores, in bits per byte of held-out text after the same
time: one id per character 2.83, BPE of 1,024 ids 2.01, of 2,048 ids 1.88.
"""

import time
from collections.abc import Iterable
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
"""Settings of which one alone says that the model is the user's choice."""
HEAD_SIZE = 32
MOST_EPOCHS = 40  # after these, small data is learned by heart
SECONDS_ON_CPU = 45
SECONDS_ON_GPU = 600


class Size(NamedTuple):
    """A size of the model; the first one is that of a CPU."""

    n_layer: int
    n_embd: int
    block_size: int
    rows: int
    learning_rate: float
    least_tokens: int
    """Tokens of data below which a smaller model does as well: half of its weights."""


SIZES = (
    Size(4, 128, 128, 8, 3e-3, 0),
    Size(6, 256, 256, 32, 2e-3, 2_400_000),
    Size(8, 512, 512, 32, 1e-3, 12_500_000),
    Size(12, 768, 1024, 32, 6e-4, 43_000_000),
)


def choose_tokenizer(config: TrainConfig) -> TrainConfig:
    """Let a text that has neither a tokenizer nor a .npy next to it teach a small vocabulary."""
    text = Path(config.input_file or "")
    is_text = text.is_file() and text.suffix != ".npy" and not text.with_suffix(".npy").exists()
    if config.tokenizer is not None or not is_text:
        return config
    size = text.stat().st_size
    ids = next((ids for least, ids in VOCABULARIES if size >= least))
    return replace(config, tokenizer=f"bpe:{ids}")


VOCABULARIES = ((1 << 22, 4096), (1 << 19, 2048), (1 << 16, 1024), (0, 512))
"""Bytes of text from which on a vocabulary is used, and its number of ids."""


def choose_model(
    config: TrainConfig, data: TrainingData, device: torch.device, *, keep: Iterable[str]
) -> tuple[TrainConfig, str]:
    """Return the settings of a run, and a sentence about them; those in `keep` stay as they are."""
    tokens = sum(source.num_tokens for source in data.sources.values())
    is_cpu = device.type == "cpu"
    fitting = [size for size in SIZES if tokens >= size.least_tokens]
    size = SIZES[0] if is_cpu else fitting[-1]
    shortest = min(split.num_tokens for split in (*data.sources.values(), *data.held_out.values()))
    chosen = _settings(size, shortest)
    config = _with(config, chosen, keep)
    seconds = _step_seconds(config, data.vocab_size, device)
    rows = config.batch_size or config.global_batch_size or size.rows
    whole = MOST_EPOCHS * tokens // (rows * config.block_size)
    most = (SECONDS_ON_CPU if is_cpu else SECONDS_ON_GPU) / seconds
    steps = _round_down(max(20, min(whole, int(most))))
    config = _with(config, {"max_iters": steps}, keep)
    steps = config.max_iters
    every = max(1, steps // 4)
    config = _with(config, {"warmup_iters": steps // 20, "eval_interval": every}, keep)
    said = (
        f"No config file: chose {config.n_layer} layers of {config.n_embd}, windows of "
        f"{config.block_size} tokens and {rows} rows per step for {human_count(tokens)} tokens on "
        f"{device.type}; {steps:,} steps take about {human_duration(steps * seconds)}. "
        f"max_iters= trains longer; {config.run_dir}/config.json has all settings"
    )
    return config, said
