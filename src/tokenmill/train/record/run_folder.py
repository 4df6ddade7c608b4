"""What a run leaves behind in its folder: numbers, curve, and what its settings and data were."""

import json
from typing import Any

from tokenmill.base.atomic import write_atomically
from tokenmill.train.config import TrainConfig
from tokenmill.train.record import metrics
from tokenmill.train.record.curve import write_curve
from tokenmill.train.run_data import TrainingData


class Record:
    """The loggers of the main rank; on other ranks everything here does nothing."""

    def __init__(self, config: TrainConfig, *, is_main: bool) -> None:
        self.config, self.is_main = config, is_main
        self._loggers: list[metrics.Logger] = []

    def open(self, from_step: int) -> None:
        """Start, or go on after `from_step`."""
        if not self.is_main:
            return
        run_dir, config = self.config.run_dir, self.config
        self._loggers = [metrics.JsonLines(run_dir / "metrics.jsonl", from_step=from_step)]
        if config.tensorboard:
            self._loggers.append(metrics.TensorBoard(run_dir / "tensorboard", from_step=from_step))
        if config.wandb:
            self._loggers.append(
                metrics.WeightsAndBiases(run_dir, name=config.model_name, config=config.to_json())
            )

    def log(self, values: dict[str, Any], step: int) -> None:
        """The numbers of one step."""
        for logger in self._loggers:
            logger.log(values, step)

    def draw(self) -> None:
        """The curve so far, as loss.svg."""
        if self._loggers:
            path = self.config.run_dir / "metrics.jsonl"
            write_curve(
                self.config.run_dir / "loss.svg",
                title=self.config.model_name,
                train=metrics.points(path, "loss"),
                val=metrics.points(path, "val_loss"),
            )

    def close(self) -> None:
        """Flush everything."""
        loggers, self._loggers = self._loggers, []
        for logger in loggers:
            logger.close()


def describe_run(config: TrainConfig, data: TrainingData) -> None:
    """Write the settings, what the data was, and the tokenizer to read the model's ids with."""
    about = {
        split: {
            "path": part.path,
            "format": part.format,
            "split": part.split,
            "tokens": part.num_tokens,
            "fingerprint": part.fingerprint,
        }
        for split, part in (("train", data.train), ("val", data.val))
        if part is not None
    }
    files: dict[str, Any] = {"config.json": config.to_json(), "data.json": about}
    if data.tokenizer is not None:
        files["tokenizer_state.json"] = data.tokenizer.state()
    config.run_dir.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(config.run_dir / name, text.encode(), durable=False)
