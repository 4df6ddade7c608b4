"""Start or resume a run: settings, data, ranks, then the loop."""

from collections.abc import Mapping
from typing import Any

import torch

from tokenmill.base.human import human_count
from tokenmill.base.progress import open_progress
from tokenmill.base.signals import listen_for_stop
from tokenmill.base.signatures import takes_keywords_of
from tokenmill.errors import LockedError
from tokenmill.torch.world import find_ranks
from tokenmill.train import checkpoint
from tokenmill.train.checkpoint import latest, read_state
from tokenmill.train.collectives import barrier, local_device, process_group
from tokenmill.train.config import TrainConfig, check_same_run, load_config
from tokenmill.train.loop import Trainer, TrainResult
from tokenmill.train.metrics import check_loggers
from tokenmill.train.run_data import describe_run, open_data


@takes_keywords_of(TrainConfig)
def train(
    settings: Mapping[str, Any] | None = None,
    *,
    config_file: str | None = None,
    resume: bool = False,
    quiet: bool = False,
    **keywords: Any,
) -> TrainResult:
    """Train a GPT; the keywords are the settings of `TrainConfig`, which also says what each means.

    They win over the config file, and may be given as a mapping, `settings`, as well. With `resume`
    a run continues from its last checkpoint, or starts when it has none: the same command can be
    given again and again.
    """
    given = {**(settings or {}), **keywords}
    world_size = find_ranks().world_size
    config = load_config(config_file, given)
    saved = latest(config.run_dir) if resume else None
    if saved is not None:
        old = read_state(saved)["config"]
        config = load_config(config_file, given, saved=old)
        check_same_run(load_config(None, old), config.resolved(world_size))
    config = config.resolved(world_size)
    _ = config.source  # exactly one, before anything is touched
    check_loggers(config)
    device = local_device(config.device)
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
    with (
        listen_for_stop() as stop,
        process_group(device) as ranks,
        open_progress(quiet=quiet or ranks.rank > 0) as progress,
    ):
        old_run = not resume and (config.run_dir / "metrics.jsonl").exists()
        if saved is None and (old_run or latest(config.run_dir) is not None):
            raise LockedError(
                f"{config.run_dir} holds a run already",
                hint="resume=True continues it; another model_name= starts a new one",
            )
        barrier()  # every rank has looked before one writes
        data = open_data(config, progress.say)
        trainer = Trainer(config, data, device=device, ranks=ranks, progress=progress)
        if saved is not None:
            trainer.restore(checkpoint.load(saved, device=device))
        if ranks.rank == 0:
            checkpoint.remove_leftovers(config.run_dir, keep=config.keep_checkpoints)
            describe_run(config, data)
        progress.say(
            f"{config.model_name}: {human_count(trainer.model.num_parameters)} parameters "
            f"on {device}; {ranks}"
            + (f"; resumed at step {trainer.step:,}" if trainer.step else "")
        )
        return trainer.run(stop)
