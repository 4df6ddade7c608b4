"""`tokenmill train`: train a small GPT on token data."""

from dataclasses import asdict, fields
from typing import Any

import click

from tokenmill.base.suggest import closest
from tokenmill.cli.flags import (
    SectionedCommand,
    settings_flags,
    switch,
    together,
    value,
)
from tokenmill.cli.group import GroupWithMain, Subcommand
from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.errors import MissingExtraError
from tokenmill.train.config import TrainConfig

SOURCES = ("input_file", "dataset_dir", "train_data_path", "mixture")
# The settings that change from one command to the next; the others are keys of the config file.
FLAGS = (
    *SOURCES, "weights", "val_data_path", "tokenizer", "dtype", "documents", "order", "rows",
    "skip_steps", "model_name", "out_dir", "max_iters", "seed", "device", "block_size",
    "batch_size", "global_batch_size", "micro_batch_size", "learning_rate", "eval_interval",
    "checkpoint_interval",
)  # fmt: skip
RUN = {"section": "The run"}
# The options of both `train` and `train slurm`.
train_options = together(
    settings_flags(TrainConfig, only=FLAGS),
    value("--config_file", "FILE", "JSON settings, e.g. configs/150M_1024.json; flags win", **RUN),
    switch("--resume", "Continue from the last checkpoint of the run, or start it", **RUN),
)


class TrainCommand(SectionedCommand):
    """A command that knows which settings are keys of the config file and not flags."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as misuse:
            name = misuse.option_name.lstrip("-")
            close = closest(name, [field.name for field in fields(TrainConfig)])
            if close is None or close in FLAGS:
                raise
            known = f"{name} is" if name == close else f"there is no {name}; {close} is"
            raise ValueError(
                f"{known} a key of the config file, not a flag\n\n"
                f'hint: --config_file FILE, which holds {{"{close}": ...}}'
            ) from None


@click.command(cls=TrainCommand)
@train_options
@prints_outcome
def run_command(config_file: str | None, resume: bool, quiet: bool, **settings: Any) -> Outcome:
    """Train a small GPT on token data.

    Exactly one of --input_file, --dataset_dir, --train_data_path and --mixture says where the data
    is. All other settings, such as n_layer, are keys of the config file: docs/training.md. The
    run's folder gets checkpoints, metrics.jsonl, run.html, loss.svg, config.json and data.json.
    SIGTERM and Ctrl-C save and stop (exit code 75).

    \b
    Examples:
        tokenmill train --input_file input.txt --config_file configs/toy_cpu.json
        tokenmill train --dataset_dir data/corpus --model_name wiki \\
            --config_file configs/150M_1024.json --max_iters 50000
        tokenmill train --train_data_path train.npy --val_data_path val.npy --batch_size 64
        tokenmill train --mixture web=data/web,code=data/code --weights web=0.7,code=0.3
        torchrun --nproc_per_node=8 train.py --dataset_dir data/corpus --resume
    """
    needs_torch("tokenmill train")
    from tokenmill.torch.world import find_ranks
    from tokenmill.train.start import train

    result = train(settings, config_file=config_file, resume=resume, quiet=quiet)
    if find_ranks().rank > 0:
        return Outcome(None)  # rank 0 speaks for all
    return Outcome({**asdict(result), "run_dir": str(result.run_dir)})


def needs_torch(what: str) -> None:
    """Raise an error that says how to install torch, where it is missing."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtraError(what, package="torch", extra="torch") from None


command = GroupWithMain(
    run_command, {"slurm": Subcommand("Print this training as a Slurm job", "train_slurm:command")}
)
