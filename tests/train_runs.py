"""Small runs for the tests of training: a text, a model that fits in a second, the command."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.cli.train import FLAGS

ROOT = Path(__file__).parents[1]

# 257 ids, 1,000 weights or so: a step takes a few milliseconds.
TINY = {
    "tokenizer": "bytes",
    "n_layer": 1,
    "n_head": 2,
    "n_embd": 32,
    "block_size": 32,
    "global_batch_size": 8,
    "max_iters": 40,
    "learning_rate": 0.01,
    "warmup_iters": 4,
    "eval_interval": 20,
    "eval_batches": 4,
    "log_interval": 1,
    "sample_tokens": 8,
    "device": "cpu",
}


def text(num_lines: int = 1500) -> str:
    """Lines that a small model can learn, no two alike."""
    words = ["the", "mill", "turns", "grain", "into", "flour", "and", "words", "into", "tokens"]
    draw = np.random.default_rng(0)
    return "".join(
        f"{i}: {' '.join(words[k] for k in draw.integers(0, len(words), 6))}.\n"
        for i in range(num_lines)
    )


def flags(settings: dict[str, Any]) -> list[str]:
    """Settings as the command takes them: flags in the seeds' spelling, the others in a file."""
    words = []
    keys = {}
    for name, value in settings.items():
        if name in FLAGS:
            words += [f"--{name}", str(value)]
        else:
            keys[name] = value
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(keys, file)
    return [*words, "--config_file", file.name]


def command(settings: dict[str, Any], *more: str, **environ: str) -> subprocess.Popen[str]:
    """`python train.py ...` in a process of its own, on one thread."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *flags(settings), *more],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
            **environ,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environ_of_ranks(count: int = 2) -> list[dict[str, str]]:
    """What torchrun sets for each of some ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]


def losses(run_dir: Path) -> list[tuple[int, float]]:
    """(step, loss) of all steps."""
    from tokenmill.train.run_record import points  # only here: with it comes torch

    return points(run_dir / "metrics.jsonl", "loss")


def val_losses(run_dir: Path) -> list[tuple[int, float]]:
    """(step, validation loss)."""
    from tokenmill.train.run_record import points

    return points(run_dir / "metrics.jsonl", "val_loss")
