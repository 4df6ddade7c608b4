"""The numbers of a run: in metrics.jsonl always, in TensorBoard and W&B when asked for."""

import importlib.util
import json
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch

from tokenmill.base.atomic import sync_open_file, write_atomically
from tokenmill.base.markup import Html
from tokenmill.batches.batch import IGNORED
from tokenmill.errors import FormatError, MissingExtraError
from tokenmill.torch.torch_batch import TorchBatch
from tokenmill.train.config import TrainConfig
from tokenmill.train.run_page import draw_losses, make_run_page


def check_loggers(config: TrainConfig) -> None:
    """Say that a package is missing before data is read and a model is built."""
    for name, needed in (("tensorboard", config.tensorboard), ("wandb", config.wandb)):
        if needed and importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"{name}=True", package=name, extra=name)


class RunRecord:
    """The numbers of a run, written by the main rank; other ranks write nothing."""

    def __init__(
        self, config: TrainConfig, *, is_main: bool, from_step: int, validates: bool = False
    ) -> None:
        self.config = config
        self.path = config.run_dir / "metrics.jsonl"
        self._trained_on: Html | None = None
        self._file: BinaryIO | None = None
        self._tensorboard: Any = None
        self._wandb: Any = None
        if not is_main:
            return
        rows = read(self.path) if from_step else ()
        last = from_step - validates  # lines of validations that come again are dropped
        kept = [r for r in rows if r["step"] <= (from_step if "loss" in r else last)]
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        write_atomically(self.path, lines.encode())
        self._file = self.path.open("ab")
        if config.tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            folder = str(config.run_dir / "tensorboard")
            self._tensorboard = SummaryWriter(folder, purge_step=from_step or None)
        if config.wandb:
            import wandb

            name = config.model_name
            about = {"name": name, "id": name, "config": config.to_json(), "resume": "allow"}
            self._wandb = wandb.init(project="tokenmill", dir=str(config.run_dir), **about)

    def log(self, values: dict[str, Any], step: int, prometheus: str | None = None) -> None:
        """Add one line to metrics.jsonl: {"step": 10, "loss": 4.2, ...}; write loader.prom."""
        if self._file is None:
            return
        self._file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        self._file.flush()
        if prometheus is not None:
            write_atomically(self.path.with_name("loader.prom"), prometheus.encode(), durable=False)
        if self._wandb is not None:
            self._wandb.log(values, step=step)
        for name, value in values.items() if self._tensorboard is not None else ():
            if isinstance(value, int | float):
                self._tensorboard.add_scalar(name, value, step)
            else:
                self._tensorboard.add_text(name, str(value), step)

    def draw(self, trained_on: Html | None = None) -> None:
        """Write loss.svg and run.html; its part `trained_on` is kept until another is given."""
        self._trained_on = trained_on or self._trained_on
        if self._file is None:
            return
        title = self.config.model_name
        rows = list(read(self.path))
        losses: dict[str, list[tuple[int, float]]] = {"training": []}
        for row in rows:
            for name, value in row.items():  # loss, and of validation sets val_loss, val_code_loss
                if name.endswith("loss") and isinstance(value, int | float):
                    curve = "training" if name == "loss" else name.removesuffix("_loss")
                    losses.setdefault(curve, []).append((row["step"], value))
        picture = draw_losses(title, losses)
        page = make_run_page(title, losses, rows, self.config.to_json(), self._trained_on)
        for name, text in (("loss.svg", picture), ("run.html", page)):
            write_atomically(self.config.run_dir / name, text.encode(), durable=False)

    def sync(self) -> None:
        """Return when all lines are on the disk."""
        if self._file is not None:
            sync_open_file(self._file)

    def close(self) -> None:
        if self._file is None:
            return
        self.sync()
        self._file.close()
        self._file = None
        if self._tensorboard is not None:
            self._tensorboard.close()
        if self._wandb is not None:
            self._wandb.finish()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a metrics.jsonl; a last line cut short by a kill is left out."""
    if not path.exists():
        return
    *lines, _ = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        row: Any = None
        with suppress(ValueError, RecursionError):
            row = json.loads(line)
        if not isinstance(row, dict) or type(row.get("step")) is not int:
            raise FormatError(
                f"{path}, line {number} is not a row of numbers with their step: {line[:60]!r}",
                hint="remove this line",
            )
        yield row


def points(path: Path, name: str) -> list[tuple[int, float]]:
    """(step, value) of one number over a run."""
    rows = ((row["step"], row.get(name)) for row in read(path))
    return [(step, value) for step, value in rows if isinstance(value, int | float)]


class TextBytes:
    """Number of bytes of text that the targets of batches are; 0 where the tokenizer is unknown."""

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        sizes = [] if tokenizer is None else [len(text) for text in tokenizer.bytes_of_ids()]
        self._of_id = torch.zeros(max(vocab_size, len(sizes)), dtype=torch.int64)
        self._of_id[: len(sizes)] = torch.tensor(sizes)

    def count(self, batches: Iterable[TorchBatch]) -> tuple[int, int]:
        """Targets that count, and the bytes of text they are."""
        num_targets = num_bytes = 0
        for batch in batches:
            labels = batch.labels.cpu()
            labels = labels[labels != IGNORED]
            num_targets += labels.numel()
            num_bytes += int(self._of_id[labels].sum())
        return num_targets, num_bytes


def bits_per_byte(loss: float, num_targets: float, num_bytes: float) -> float | None:
    """The loss of a target, in nats, as bits for each byte; None where bytes are not known."""
    return loss / math.log(2) * num_targets / num_bytes if num_bytes else None
