"""The numbers of a run: in metrics.jsonl always, in TensorBoard and W&B when asked for.

A resumed run first drops the lines after the step it resumes from, so that the file reads as
that of a run that was never stopped (but for the timings).
"""

import importlib.util
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenmill.base.atomic import sync_open_file, write_atomically
from tokenmill.base.markup import Html
from tokenmill.errors import FormatError, MissingExtraError
from tokenmill.train.config import TrainConfig
from tokenmill.train.curve import draw
from tokenmill.train.run_page import make_run_page

NAMED_LOSS = re.compile(r"val_\w+_loss")  # of a validation set with a name, such as val_code


class JsonLines:
    """One JSON object per line: {"step": 10, "loss": 4.2, ...}."""

    def __init__(self, path: Path, *, from_step: int) -> None:
        self.path = path
        kept = [row for row in read(path) if row["step"] <= from_step] if from_step else []
        lines = "".join(json.dumps(row) + "\n" for row in kept)
        write_atomically(path, lines.encode(), durable=False)
        self._file = path.open("ab")

    def log(self, values: dict[str, Any], step: int) -> None:
        self._file.write(json.dumps({"step": step, **values}).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        sync_open_file(self._file)
        self._file.close()


class TensorBoard:
    """Numbers as scalars, text as text, under RUN/tensorboard."""

    def __init__(self, folder: Path, *, from_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder), purge_step=from_step or None)

    def log(self, values: dict[str, Any], step: int) -> None:
        for name, value in values.items():
            if isinstance(value, int | float):
                self._writer.add_scalar(name, value, step)
            else:
                self._writer.add_text(name, str(value), step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A W&B run named as the model; WANDB_MODE=offline is respected."""

    def __init__(self, folder: Path, *, name: str, config: dict[str, Any]) -> None:
        import wandb

        self._run = wandb.init(
            project="tokenmill", name=name, id=name, dir=str(folder), config=config, resume="allow"
        )

    def log(self, values: dict[str, Any], step: int) -> None:
        self._run.log(values, step=step)

    def close(self) -> None:
        self._run.finish()


def check_loggers(config: TrainConfig) -> None:
    """Say that a package is missing before data is read and a model is built."""
    for name, needed in (("tensorboard", config.tensorboard), ("wandb", config.wandb)):
        if needed and importlib.util.find_spec(name) is None:
            raise MissingExtraError(f"{name}=True", package=name, extra=name)


class RunRecord:
    """The loggers of the main rank; on other ranks everything here does nothing."""

    def __init__(self, config: TrainConfig, *, is_main: bool, from_step: int) -> None:
        """Start, or continue after `from_step`."""
        self.config = config
        run_dir = config.run_dir
        self._trained_on: Html | None = None
        self._loggers: list[JsonLines | TensorBoard | WeightsAndBiases] = []
        if not is_main:
            return
        self._loggers.append(JsonLines(run_dir / "metrics.jsonl", from_step=from_step))
        if config.tensorboard:
            self._loggers.append(TensorBoard(run_dir / "tensorboard", from_step=from_step))
        if config.wandb:
            self._loggers.append(
                WeightsAndBiases(run_dir, name=config.model_name, config=config.to_json())
            )

    def log(self, values: dict[str, Any], step: int) -> None:
        for logger in self._loggers:
            logger.log(values, step)

    def draw(self, trained_on: Html | None = None) -> None:
        """Write the curve so far, as loss.svg, and all losses in run.html.

        The part of the page on what was `trained_on` is kept until another one is given.
        """
        self._trained_on = trained_on or self._trained_on
        if not self._loggers:
            return
        title = self.config.model_name
        rows = list(read(self.config.run_dir / "metrics.jsonl"))
        values = _by_name(rows)
        losses = {"training": values.get("loss", []), "val": values.get("val_loss", [])}
        for name in sorted(filter(NAMED_LOSS.fullmatch, values)):
            losses[name.removesuffix("_loss")] = values[name]
        picture = draw(title, losses)
        settings = self.config.to_json()
        page = make_run_page(title, picture, losses, rows, settings, self._trained_on)
        for name, text in (("loss.svg", picture), ("run.html", page)):
            write_atomically(self.config.run_dir / name, text.encode(), durable=False)

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()
        self._loggers = []


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a metrics.jsonl; a last line cut short by a kill is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield _row(line, f"{path}, line {number}")


def _row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict) or type(row.get("step")) is not int:
        raise FormatError(
            f"{where} is not a row of numbers with their step: {line[:60]!r}",
            hint="remove this line",
        )
    return row


def points(path: Path, name: str) -> list[tuple[int, float]]:
    """(step, value) of one number over a run."""
    return _by_name(read(path)).get(name, [])


def _by_name(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    """(step, value) of each number over a run."""
    values: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if isinstance(value, int | float):
                values.setdefault(name, []).append((row["step"], value))
    return values
