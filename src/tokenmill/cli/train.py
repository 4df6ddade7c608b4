"""`tokenmill train`: train a small GPT on token data."""

from dataclasses import asdict
from typing import Any

import click

from tokenmill.cli.flags import SectionedCommand, settings_flags, switch, together, value
from tokenmill.cli.group import GroupWithMain, Subcommand
from tokenmill.cli.outcome import Outcome, prints_outcome
from tokenmill.errors import MissingExtraError

SETTINGS = ("train/config.py", "TrainConfig")
SOURCES = ("input_file", "dataset_dir", "train_data_path", "mixture")
RUN = {"section": "The run"}
# What `train` and `train slurm` both take.
train_options = together(
    settings_flags(SETTINGS),
    value("--config_file", "FILE", "JSON settings, e.g. configs/150M_1024.json; flags win", **RUN),
    switch("--resume", "Continue from the last checkpoint of the run, or start it", **RUN),
)


@click.command(cls=SectionedCommand)
@train_options
@prints_outcome
def run_command(config_file: str | None, resume: bool, quiet: bool, **settings: Any) -> Outcome:
    """Train a small GPT on token data.

    Exactly one of --input_file, --dataset_dir, --train_data_path and --mixture says where the data
    is. The run's folder gets checkpoints, metrics.jsonl, run.html, loss.svg, config.json and
    data.json. SIGTERM and Ctrl-C save and stop (exit code 75).

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
