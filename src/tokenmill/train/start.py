"""Start or resume a run: settings, data, ranks, then the loop."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tokenmill.base.human import human_count
from tokenmill.base.progress import open_progress
from tokenmill.base.signals import listen_for_stop
from tokenmill.errors import FormatError, LockedError
from tokenmill.train.collectives import barrier, joined, local_device
from tokenmill.train.config import TrainConfig, check_same_run, from_dict, load_config
from tokenmill.train.loop import Result, Trainer
from tokenmill.train.record import checkpoint
from tokenmill.train.record.run_folder import describe_run
from tokenmill.train.run_data import open_data


def train(
    settings: Mapping[str, Any] | None = None,
    *,
    config_file: str | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Result:
    """Train a GPT; `settings` are those of `TrainConfig`, and win over the config file.

    With `resume` a run goes on from its last checkpoint, or starts when it has none: the same
    command can be given again and again.
    """
    given = dict(settings or {})
    config = load_config(config_file, given)
    saved = _saved(config.run_dir) if resume else None
    if saved is not None:
        old = from_dict(saved.state["config"], where=f"{config.run_dir}/checkpoints")
        config = load_config(config_file, given, saved=saved.state["config"])
        check_same_run(old, config.resolved())
    config = config.resolved()
    _ = config.source  # exactly one, before anything is touched
    device = local_device(config.device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    with (
        listen_for_stop() as stop,
        joined(device) as ranks,
        open_progress(quiet=quiet or ranks.rank > 0) as progress,
    ):
        if saved is None:
            _check_is_new(config, resume)
        barrier()  # every rank has looked before one writes
        data = open_data(config, progress.say)
        trainer = Trainer(config, data, device=device, ranks=ranks, progress=progress)
        if saved is not None:
            trainer.restore(checkpoint.load(saved.folder, device=device))
        if ranks.rank == 0:
            describe_run(config, data)
        progress.say(
            f"{config.model_name}: {human_count(trainer.model.num_parameters)} parameters "
            f"on {device}; {ranks}"
            + (f"; going on from step {trainer.step:,}" if trainer.step else "")
        )
        return trainer.run(stop)


class _Saved:
    def __init__(self, folder: Path, state: dict[str, Any]) -> None:
        self.folder, self.state = folder, state


def _saved(run_dir: Path) -> _Saved | None:
    folder = checkpoint.latest(run_dir)
    if folder is None:
        return None
    try:
        return _Saved(folder, json.loads((folder / "state.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise FormatError(
            f"{run_dir}/checkpoints/latest names {folder.name}, which is not there",
            hint=f"write the name of another checkpoint in {folder.parent} into it",
        ) from None


def _check_is_new(config: TrainConfig, resume: bool) -> None:
    run_dir = config.run_dir
    if checkpoint.latest(run_dir) is not None or (
        not resume and (run_dir / "metrics.jsonl").exists()
    ):
        raise LockedError(
            f"{run_dir} holds a run already",
            hint="--resume goes on with it; another --model_name starts a new one",
        )
